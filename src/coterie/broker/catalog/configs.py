"""Configurations of topics and brokers: names, types, defaults and limits.

Topics: every configuration of Kafka 4.x can be set and is shown. Those in
`TopicSettings` have an effect here; the others concern segments, replicas and remote
storage, which this broker does not have; they are only stored.

Brokers: the server's settings. Those in `DYNAMIC`, some of Kafka's dynamic
configurations, can be altered while it runs; the others are read-only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from coterie.errors import ApiError
from coterie.settings import INT32_MAX, SECRETS, SEPARATORS, Settings
from coterie.wire.configs import ConfigType
from coterie.wire.error_codes import ErrorCode

LONG_MAX: Final = 2**63 - 1


class TopicConfig(NamedTuple):
    """A configuration of topics.

    `synonym` is the Kafka name of the broker setting that supplies the default, if this
    broker has that setting. `low` and `high` limit a number; `choices` a string, or
    each element of a list.
    """

    name: str
    type: ConfigType
    default: str
    documentation: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    synonym: str | None = None


_NEVER: Final = str(LONG_MAX)
_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_UNUSED: Final = "Stored without effect."
_ALWAYS_FLUSHED: Final = "Stored without effect: every acknowledged write is durable."
_NO_REPLICAS: Final = "Stored without effect: there are no other replicas."
_NO_REMOTE_STORAGE: Final = "Stored without effect: there is no remote storage."
_NO_SEGMENTS: Final = "Stored without effect: there are no segment files."
_TABLE: Final = (
    TopicConfig(
        "cleanup.policy",
        ConfigType.LIST,
        "delete",
        "Delete old batches, compact to the last record of each key, or both.",
        choices=("compact", "delete"),
    ),
    TopicConfig(
        "compression.gzip.level", ConfigType.INT, "-1", "Level of gzip.", -1, 9
    ),
    TopicConfig("compression.lz4.level", ConfigType.INT, "9", "Level of lz4.", 1, 17),
    TopicConfig(
        "compression.type",
        ConfigType.STRING,
        "producer",
        "The codec of stored batches; `producer` stores them as produced.",
        choices=_CODECS,
    ),
    TopicConfig(
        "compression.zstd.level", ConfigType.INT, "3", "Level of zstd.", -131072, 22
    ),
    TopicConfig(
        "delete.retention.ms",
        ConfigType.LONG,
        "86400000",
        "The time for which compaction retains a tombstone.",
        0,
    ),
    TopicConfig(
        "errors.deadletterqueue.group.enable",
        ConfigType.BOOLEAN,
        "false",
        "Stored without effect: there are no share groups.",
    ),
    TopicConfig("file.delete.delay.ms", ConfigType.LONG, "60000", _UNUSED, 0),
    TopicConfig("flush.messages", ConfigType.LONG, _NEVER, _ALWAYS_FLUSHED, 1),
    TopicConfig("flush.ms", ConfigType.LONG, _NEVER, _ALWAYS_FLUSHED, 0),
    TopicConfig(
        "follower.replication.throttled.replicas",
        ConfigType.LIST,
        "",
        _NO_REPLICAS,
    ),
    TopicConfig("index.interval.bytes", ConfigType.INT, "4096", _UNUSED, 0),
    TopicConfig(
        "leader.replication.throttled.replicas",
        ConfigType.LIST,
        "",
        _NO_REPLICAS,
    ),
    TopicConfig("local.retention.bytes", ConfigType.LONG, "-2", _NO_REMOTE_STORAGE, -2),
    TopicConfig("local.retention.ms", ConfigType.LONG, "-2", _NO_REMOTE_STORAGE, -2),
    TopicConfig(
        "max.compaction.lag.ms",
        ConfigType.LONG,
        _NEVER,
        "The longest time for which a record may stay uncompacted.",
        1,
    ),
    TopicConfig(
        "max.decompressed.message.bytes",
        ConfigType.INT,
        "2147483639",
        "Stored without effect: batch.decompressed.bytes.max limits a whole batch.",
        1,
        2_147_483_639,
    ),
    TopicConfig(
        "max.message.bytes",
        ConfigType.INT,
        "1048588",
        "The largest record batch accepted.",
        0,
        synonym="message.max.bytes",
    ),
    TopicConfig(
        "message.timestamp.after.max.ms",
        ConfigType.LONG,
        "3600000",
        "The largest difference of a timestamp ahead of the broker's clock.",
        0,
    ),
    TopicConfig(
        "message.timestamp.before.max.ms",
        ConfigType.LONG,
        _NEVER,
        "The largest difference of a timestamp behind the broker's clock.",
        0,
    ),
    TopicConfig(
        "message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        "The timestamp of records: set by the producer, or by the broker at append.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        "0.5",
        "The ratio of uncompacted to total bytes at which a compaction starts.",
        0,
        1,
    ),
    TopicConfig(
        "min.compaction.lag.ms",
        ConfigType.LONG,
        "0",
        "The shortest time for which a record stays uncompacted.",
        0,
    ),
    TopicConfig(
        "min.insync.replicas",
        ConfigType.INT,
        "1",
        _NO_REPLICAS,
        1,
        synonym="min.insync.replicas",
    ),
    TopicConfig("preallocate", ConfigType.BOOLEAN, "false", _UNUSED),
    TopicConfig("remote.copy.lag.bytes", ConfigType.LONG, "-1", _NO_REMOTE_STORAGE, -1),
    TopicConfig("remote.copy.lag.ms", ConfigType.LONG, "0", _NO_REMOTE_STORAGE, -1),
    TopicConfig(
        "remote.log.copy.disable",
        ConfigType.BOOLEAN,
        "false",
        _NO_REMOTE_STORAGE,
    ),
    TopicConfig(
        "remote.log.delete.on.disable",
        ConfigType.BOOLEAN,
        "false",
        _NO_REMOTE_STORAGE,
    ),
    TopicConfig(
        "remote.storage.enable",
        ConfigType.BOOLEAN,
        "false",
        _NO_REMOTE_STORAGE,
    ),
    TopicConfig(
        "retention.bytes",
        ConfigType.LONG,
        "-1",
        "The size of a partition above which its oldest batches are deleted; or -1.",
        -1,
        synonym="log.retention.bytes",
    ),
    TopicConfig(
        "retention.ms",
        ConfigType.LONG,
        "604800000",
        "The age at which batches are deleted; -1 for none.",
        -1,
        synonym="log.retention.ms",
    ),
    TopicConfig("segment.bytes", ConfigType.INT, "1073741824", _NO_SEGMENTS, 14),
    TopicConfig("segment.index.bytes", ConfigType.INT, "10485760", _NO_SEGMENTS, 4),
    TopicConfig("segment.jitter.ms", ConfigType.LONG, "0", _NO_SEGMENTS, 0),
    TopicConfig("segment.ms", ConfigType.LONG, "604800000", _NO_SEGMENTS, 1),
    TopicConfig(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        "false",
        _NO_REPLICAS,
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    config.name: config for config in _TABLE
}

_NUMBERS: Final[Mapping[ConfigType, tuple[Callable[[str], float], float]]] = {
    ConfigType.INT: (int, INT32_MAX),
    ConfigType.LONG: (int, LONG_MAX),
    ConfigType.DOUBLE: (float, math.inf),
}


def check_topic_config(name: str, value: str) -> None:
    """Raise ApiError INVALID_CONFIG for an unknown name or an invalid value."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise invalid_config(f"Unknown topic config name: {name}")
    if config.type is ConfigType.BOOLEAN:
        _check_choice(config, value.strip().lower(), ("true", "false"))
    elif config.type in _NUMBERS:
        _check_number(config, value.strip())
    elif config.type is ConfigType.LIST and config.choices:
        # KIP-1161: an empty list is valid; nothing is then removed from the topic.
        for element in value.split(",") if value else ():
            _check_choice(config, element.strip(), config.choices)
    elif config.choices:
        _check_choice(config, value, config.choices)


def _check_number(config: TopicConfig, value: str) -> None:
    parse, type_max = _NUMBERS[config.type]
    try:
        # Python also parses 1_0, which Java does not.
        number = parse(value.replace("_", "?"))
    except ValueError:
        raise invalid_config(
            f"Invalid value {value} for configuration {config.name}: "
            f"Not a number of type {config.type.name}"
        ) from None
    low, high = config.low, min(config.high, type_max)
    if not low <= number <= high:
        raise invalid_config(
            f"Invalid value {value} for configuration {config.name}: "
            f"Value must be from {low:.0f} to {high:.0f}"
        )


def _check_choice(config: TopicConfig, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise invalid_config(
            f"Invalid value {value} for configuration {config.name}: "
            f"String must be one of: {', '.join(choices)}"
        )


def invalid_config(message: str) -> ApiError:
    """Return the error for an unknown configuration or an invalid value."""
    return ApiError(ErrorCode.INVALID_CONFIG, message)


_SYNONYMS: Final[Mapping[str, str]] = {
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
}
_CLEANER: Final = frozenset(
    {"delete.retention.ms", "max.compaction.lag.ms", "min.compaction.lag.ms"}
)
_LOG: Final = (
    "cleanup.policy",
    "index.interval.",
    "local.retention.",
    "message.timestamp.",
    "preallocate",
    "remote.copy.lag.",
    "segment.bytes",
)


def broker_synonym(name: str) -> str:
    """Return Kafka's name of the broker configuration that supplies the default of a
    topic's configuration (Kafka's ServerTopicConfigSynonyms)."""
    if name in _CLEANER:
        return f"log.cleaner.{name}"
    return f"log.{name}" if name.startswith(_LOG) else _SYNONYMS.get(name, name)


_UNSET: Final = frozenset(
    {
        "errors.deadletterqueue.group.enable",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.ms",
        "segment.jitter.ms",
        "segment.ms",
    }
)


def has_broker_default(name: str) -> bool:
    """Return whether Kafka shows a broker configuration with the default of a topic's
    configuration.

    Some have none; the default of others is that of a configuration in other units, as
    log.retention.hours.
    """
    return name not in _UNSET


def broker_default(config: TopicConfig, settings: Settings) -> str:
    """Return the value for topics that do not set the configuration."""
    if config.synonym is None:
        return config.default
    return str(getattr(settings, config.synonym.replace(".", "_")))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The parsed configurations that have an effect. Times in ms, sizes in bytes."""

    compact: bool
    delete: bool
    compression_type: str
    delete_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    timestamp_after_max_ms: int
    timestamp_before_max_ms: int
    log_append_time: bool
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    retention_bytes: int
    retention_ms: int


def topic_settings(configs: Mapping[str, str], settings: Settings) -> TopicSettings:
    """Parse a topic's configurations, with the broker's defaults for the others."""

    def value(name: str) -> str:
        own = configs.get(name)
        return broker_default(TOPIC_CONFIGS[name], settings) if own is None else own

    policies = {policy.strip() for policy in value("cleanup.policy").split(",")}
    return TopicSettings(
        compact="compact" in policies,
        delete="delete" in policies,
        compression_type=value("compression.type"),
        delete_retention_ms=int(value("delete.retention.ms")),
        max_compaction_lag_ms=int(value("max.compaction.lag.ms")),
        max_message_bytes=int(value("max.message.bytes")),
        timestamp_after_max_ms=int(value("message.timestamp.after.max.ms")),
        timestamp_before_max_ms=int(value("message.timestamp.before.max.ms")),
        log_append_time=value("message.timestamp.type") == "LogAppendTime",
        min_cleanable_dirty_ratio=float(value("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=int(value("min.compaction.lag.ms")),
        retention_bytes=int(value("retention.bytes")),
        retention_ms=int(value("retention.ms")),
    )


DYNAMIC: Final[Mapping[str, tuple[int, int]]] = {
    "log.retention.ms": (-1, LONG_MAX),
    "log.retention.bytes": (-1, LONG_MAX),
    "message.max.bytes": (0, INT32_MAX),
    "min.insync.replicas": (1, INT32_MAX),
    "transaction.max.timeout.ms": (1, INT32_MAX),
    "producer.id.expiration.ms": (1, INT32_MAX),
}
"""The dynamic configurations of the broker, with their least and greatest value."""

CLUSTER_ONLY: Final = frozenset({"min.insync.replicas"})
"""The dynamic configurations that the cluster always has and a single broker never, as
in Kafka with eligible leader replicas (KIP-966), which new clusters have."""

REPLICATION_THROTTLES: Final = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Kafka's dynamic configurations of the speed of replication. They cannot be set, but
deleted: kafka-reassign-partitions --verify always deletes them."""

BROKER_CONFIGS: Final[Mapping[str, str]] = {
    field.name.replace("_", "."): field.name for field in fields(Settings)
}
"""All settings: from Kafka's name to the attribute of `Settings`."""

_LONG: Final = frozenset(
    {
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.ms",
        "offsets.retention.check.interval.ms",
        "queued.max.request.bytes",
    }
)
"""The settings of 64 bits. In Kafka all other numbers are INT."""
_STRINGS: Final = frozenset({"broker.rack", "max.connections.per.ip.overrides"})
"""The settings with elements that are one text in Kafka."""
_TYPES: Final[Mapping[type, ConfigType]] = {
    bool: ConfigType.BOOLEAN,
    str: ConfigType.STRING,
    float: ConfigType.DOUBLE,
}


def broker_config_value(settings: Settings, name: str) -> str | None:
    """Return a setting's value as text; None for a secret."""
    if name in SECRETS:
        return None
    value = getattr(settings, BROKER_CONFIGS[name])
    if isinstance(value, tuple):
        return SEPARATORS.get(name, ",").join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def broker_config_type(settings: Settings, name: str) -> ConfigType:
    """Return the type of a setting."""
    value = getattr(settings, BROKER_CONFIGS[name])
    if name in SECRETS:
        return ConfigType.PASSWORD
    if type(value) is int:
        return ConfigType.LONG if name in _LONG else ConfigType.INT
    if name in _STRINGS:
        return ConfigType.STRING
    return _TYPES.get(type(value), ConfigType.LIST)


def check_broker_config(name: str, value: str | None) -> None:
    """Raise ApiError INVALID_REQUEST unless the setting is dynamic, or INVALID_CONFIG
    for an invalid value."""
    if name not in DYNAMIC:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: {name}",
        )
    if value is None:
        return
    low, high = DYNAMIC[name]
    number = int(value) if JAVA_INTEGER.fullmatch(value) else low - 1
    if not low <= number <= high:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {value} for configuration {name}: a whole number from "
            f"{low} to {high} is needed",
        )


JAVA_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")
"""An integer as Java parses it; `int` would also parse 45_000."""
