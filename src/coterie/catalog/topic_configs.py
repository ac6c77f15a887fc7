"""The configurations of a topic: Kafka's names, types, defaults and limits.

Every configuration of Kafka 4.x can be set and is shown. Those in `TopicSettings` act
here; the rest is about segments, replicas and remote storage, which this broker does
not have, and is kept for clients that set it and read it back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.wire.config_kinds import ConfigType
from coterie.wire.error_codes import ErrorCode

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


class TopicConfig(NamedTuple):
    """One configuration a topic can have.

    `synonym` is the broker's setting that gives the default, in Kafka's name, if this
    broker has that setting. `low` and `high` bound a number; `choices` a text or each
    element of a list.
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
_TABLE: Final = (
    TopicConfig(
        "cleanup.policy",
        ConfigType.LIST,
        "delete",
        "Drop old records, keep the last of each key, or both.",
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
        "The codec batches are kept in; `producer` keeps them as they come.",
        choices=_CODECS,
    ),
    TopicConfig(
        "compression.zstd.level", ConfigType.INT, "3", "Level of zstd.", -131072, 22
    ),
    TopicConfig(
        "delete.retention.ms",
        ConfigType.LONG,
        "86400000",
        "How long compaction keeps a tombstone.",
        0,
    ),
    TopicConfig(
        "file.delete.delay.ms", ConfigType.LONG, "60000", "Kept, without effect.", 0
    ),
    TopicConfig(
        "flush.messages", ConfigType.LONG, _NEVER, "Kept: every answer is durable.", 1
    ),
    TopicConfig(
        "flush.ms", ConfigType.LONG, _NEVER, "Kept: every answer is durable.", 0
    ),
    TopicConfig(
        "follower.replication.throttled.replicas",
        ConfigType.LIST,
        "",
        "Kept: there are no replicas.",
    ),
    TopicConfig(
        "index.interval.bytes", ConfigType.INT, "4096", "Kept, without effect.", 0
    ),
    TopicConfig(
        "leader.replication.throttled.replicas",
        ConfigType.LIST,
        "",
        "Kept: there are no replicas.",
    ),
    TopicConfig(
        "local.retention.bytes", ConfigType.LONG, "-2", "Kept: no remote storage.", -2
    ),
    TopicConfig(
        "local.retention.ms", ConfigType.LONG, "-2", "Kept: no remote storage.", -2
    ),
    TopicConfig(
        "max.compaction.lag.ms",
        ConfigType.LONG,
        _NEVER,
        "How long at most a record waits for compaction.",
        1,
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
        "How far ahead of the broker's clock a record's time may be.",
        0,
    ),
    TopicConfig(
        "message.timestamp.before.max.ms",
        ConfigType.LONG,
        _NEVER,
        "How far behind the broker's clock a record's time may be.",
        0,
    ),
    TopicConfig(
        "message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        "Whose time a record carries: its producer's or the broker's.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        "0.5",
        "The share of not yet compacted bytes that starts a compaction.",
        0,
        1,
    ),
    TopicConfig(
        "min.compaction.lag.ms",
        ConfigType.LONG,
        "0",
        "How long at least a record stays as it is before compaction.",
        0,
    ),
    TopicConfig(
        "min.insync.replicas", ConfigType.INT, "1", "Kept: there are no replicas.", 1
    ),
    TopicConfig("preallocate", ConfigType.BOOLEAN, "false", "Kept, without effect."),
    TopicConfig(
        "remote.log.copy.disable",
        ConfigType.BOOLEAN,
        "false",
        "Kept: no remote storage.",
    ),
    TopicConfig(
        "remote.log.delete.on.disable",
        ConfigType.BOOLEAN,
        "false",
        "Kept: no remote storage.",
    ),
    TopicConfig(
        "remote.storage.enable", ConfigType.BOOLEAN, "false", "Kept: no remote storage."
    ),
    TopicConfig(
        "retention.bytes",
        ConfigType.LONG,
        "-1",
        "The size of a partition above which its oldest batches go; -1 never.",
        -1,
        synonym="log.retention.bytes",
    ),
    TopicConfig(
        "retention.ms",
        ConfigType.LONG,
        "604800000",
        "The age at which batches go; -1 never.",
        -1,
        synonym="log.retention.ms",
    ),
    TopicConfig(
        "segment.bytes", ConfigType.INT, "1073741824", "Kept: no segment files.", 14
    ),
    TopicConfig(
        "segment.index.bytes", ConfigType.INT, "10485760", "Kept: no segment files.", 4
    ),
    TopicConfig(
        "segment.jitter.ms", ConfigType.LONG, "0", "Kept: no segment files.", 0
    ),
    TopicConfig(
        "segment.ms", ConfigType.LONG, "604800000", "Kept: no segment files.", 1
    ),
    TopicConfig(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        "false",
        "Kept: there are no replicas.",
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    config.name: config for config in _TABLE
}

_NUMBERS: Final[Mapping[ConfigType, tuple[Callable[[str], float], float]]] = {
    ConfigType.INT: (int, INT_MAX),
    ConfigType.LONG: (int, LONG_MAX),
    ConfigType.DOUBLE: (float, math.inf),
}


def check_topic_config(name: str, value: str) -> None:
    """Raise ApiError INVALID_CONFIG unless a topic can have this configuration."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise _invalid(f"Unknown topic config name: {name}")
    if config.type is ConfigType.BOOLEAN:
        _check_choice(config, value.strip().lower(), ("true", "false"))
    elif config.type in _NUMBERS:
        _check_number(config, value.strip())
    elif config.type is ConfigType.LIST and config.choices:
        # KIP-1161: an empty list is legal; such a topic keeps everything.
        for element in value.split(",") if value else ():
            _check_choice(config, element.strip(), config.choices)
    elif config.choices:
        _check_choice(config, value, config.choices)


def _check_number(config: TopicConfig, value: str) -> None:
    parse, type_max = _NUMBERS[config.type]
    try:
        number = parse(value)
    except ValueError:
        raise _invalid(
            f"Invalid value {value} for configuration {config.name}: "
            f"Not a number of type {config.type.name}"
        ) from None
    low, high = config.low, min(config.high, type_max)
    if not low <= number <= high:
        raise _invalid(
            f"Invalid value {value} for configuration {config.name}: "
            f"Value must be from {low:.0f} to {high:.0f}"
        )


def _check_choice(config: TopicConfig, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise _invalid(
            f"Invalid value {value} for configuration {config.name}: "
            f"String must be one of: {', '.join(choices)}"
        )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, message)


def broker_default(config: TopicConfig, settings: Settings) -> str:
    """The value a topic has that does not set this configuration itself."""
    if config.synonym is None:
        return config.default
    return str(getattr(settings, config.synonym.replace(".", "_")))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The configurations that act, parsed. Times in ms, sizes in bytes."""

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
    """Parse a topic's own configurations over the broker's defaults."""

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
