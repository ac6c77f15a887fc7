"""Configurations of topics, brokers and groups: names, types, defaults and limits.

Topics: every configuration of Kafka 4.x can be set and is shown. Those in
`TopicSettings` have an effect here; the others concern segments, replicas and remote
storage, which this broker does not have; they are only stored.

Brokers: the server's settings. Those in `DYNAMIC`, some of Kafka's dynamic
configurations, can be altered while it runs; the others are read-only.

Groups (KIP-848, E21): a group may have configurations before it exists and after it is
deleted (E21-02, D-20). The default of a group's configuration is the server's setting
(E21-06). The names are those of the Kafka releases, not those of the KIP (I-10); an
unknown name is rejected, not stored (E21-12).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from coterie.broker.catalog.entries import Entry, EntryKind
from coterie.errors import ApiError
from coterie.settings import INT32_MAX, SECRETS, SEPARATORS, Settings
from coterie.types import GroupId
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
    TopicConfig("min.insync.replicas", ConfigType.INT, "1", _NO_REPLICAS, 1),
    TopicConfig("preallocate", ConfigType.BOOLEAN, "false", _UNUSED),
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
        raise _invalid(f"Unknown topic config name: {name}")
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
    "segment.bytes",
)


def broker_synonym(name: str) -> str:
    """Return Kafka's name of the broker configuration that supplies the default of a
    topic's configuration (Kafka's ServerTopicConfigSynonyms)."""
    if name in _CLEANER:
        return f"log.cleaner.{name}"
    return f"log.{name}" if name.startswith(_LOG) else _SYNONYMS.get(name, name)


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
    "transaction.max.timeout.ms": (1, INT32_MAX),
    "producer.id.expiration.ms": (1, INT32_MAX),
}
"""The dynamic configurations of the broker, with their least and greatest value."""

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
        is_long = name.endswith((".ms", "retention.bytes"))
        return ConfigType.LONG if is_long else ConfigType.INT
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
    number = int(value) if _INTEGER.fullmatch(value) else low - 1
    if not low <= number <= high:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {value} for configuration {name}: a whole number from "
            f"{low} to {high} is needed",
        )


_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")
"""An integer as Java parses it; `int` would also parse 45_000."""


class GroupConfig(NamedTuple):
    """A configuration of groups: a time in ms, at least `low`.

    The server's setting "group.<name>" is its default; the settings with "min." and
    "max." limit it.
    """

    name: str
    low: int
    documentation: str

    @property
    def setting(self) -> str:
        """The name of the server setting that supplies the default."""
        return f"group.{self.name}"

    def bound(self, which: str) -> str:
        """Return the name of the server setting that limits the value: `which` is "min"
        or "max"."""
        return self.setting.replace("consumer.", f"consumer.{which}.", 1)


SESSION: Final = GroupConfig(
    "consumer.session.timeout.ms",
    1,
    "The time without a heartbeat after which a member is fenced.",
)
HEARTBEAT: Final = GroupConfig(
    "consumer.heartbeat.interval.ms",
    1,
    "The interval at which members send heartbeats.",
)
ASSIGNMENT: Final = GroupConfig(
    "consumer.assignment.interval.ms",
    0,
    "The least time between two target assignments.",
)
GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = {
    config.name: config for config in (ASSIGNMENT, HEARTBEAT, SESSION)
}
"""The configurations of groups, in order of names."""
_NONE: Final[Mapping[str, int]] = {}


class GroupConfigs:
    """The configurations of all groups; the coordinator's `GroupConfigView`.

    A group's own values are stored unchanged. The effective values are clamped to the
    server's limits, which may have changed at a restart, as in Kafka 4.x.

    The object lives as long as its catalog; `clear` empties it, so that references to
    it stay valid when the catalog is loaded again.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._own: dict[GroupId, Mapping[str, int]] = {}
        self._effective: dict[GroupId, Mapping[str, int]] = {}
        self.version = 0

    def clear(self) -> None:
        """Remove all configurations, before the catalog is loaded."""
        self._own.clear()
        self._effective.clear()
        self.version += 1

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """Return the session timeout of the group's consumer protocol members."""
        value = self._effective.get(group_id, _NONE).get(SESSION.name)
        if value is None:
            return self._settings.group_consumer_session_timeout_ms
        return value

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """Return the heartbeat interval of the group's consumer protocol members."""
        value = self._effective.get(group_id, _NONE).get(HEARTBEAT.name)
        if value is None:
            return self._settings.group_consumer_heartbeat_interval_ms
        return value

    def assignment_interval_ms(self, group_id: GroupId) -> int:
        """Return the minimum time between two target assignments of the group."""
        value = self._effective.get(group_id, _NONE).get(ASSIGNMENT.name)
        if value is None:
            return self._settings.group_consumer_assignment_interval_ms
        return value

    @property
    def groups(self) -> Collection[GroupId]:
        """The groups that have their own configurations."""
        return self._own.keys()

    def own(self, group_id: GroupId) -> Mapping[str, int]:
        """Return the group's own configurations by name."""
        return self._own.get(group_id, _NONE)

    def alter(self, group_id: GroupId, changes: Mapping[str, str | None]) -> Entry:
        """Return the entry of a group with changed configurations; None unsets one.

        Raises ApiError INVALID_REQUEST for an empty group id, INVALID_CONFIG for an
        unknown name, or a value that is not a number, out of range or in conflict with
        another value of the group (E21-06, E21-07).
        """
        check_group_name(group_id)
        own = dict(self.own(group_id))
        for name, text in changes.items():
            if name not in GROUP_CONFIGS:
                known = ", ".join(GROUP_CONFIGS)
                raise _invalid(
                    f"Unknown group config name: {name}; known names are {known}"
                )
            if text is None:
                own.pop(name, None)
            else:
                own[name] = _group_number(GROUP_CONFIGS[name], text)
        self._check(own)
        return Entry(EntryKind.GROUP_CONFIG, group_id, own or None)

    def replay(self, group_id: GroupId, value: Mapping[str, Any] | None) -> None:
        """Apply a catalog entry."""
        self.version += 1
        if value is None:
            self._own.pop(group_id, None)
            self._effective.pop(group_id, None)
        else:
            self._own[group_id] = value
            self._effective[group_id] = {
                name: self._within_bounds(GROUP_CONFIGS[name], number)
                for name, number in value.items()
            }

    def _check(self, own: Mapping[str, int]) -> None:
        """Validate the effective values, defaults included, as Kafka does."""
        values = {
            name: own.get(name, self._setting(config.setting))
            for name, config in GROUP_CONFIGS.items()
        }
        for name, config in GROUP_CONFIGS.items():
            least, most = config.bound("min"), config.bound("max")
            low, high = self._setting(least), self._setting(most)
            if not low <= values[name] <= high:
                raise _invalid(
                    f"{name} must be from {low} ({least}) to {high} ({most}), "
                    f"not {values[name]}"
                )
        session, heartbeat = values[SESSION.name], values[HEARTBEAT.name]
        if session <= heartbeat:
            raise _invalid(
                f"{SESSION.name} ({session}) must be more than "
                f"{HEARTBEAT.name} ({heartbeat})"
            )

    def _within_bounds(self, config: GroupConfig, value: int) -> int:
        low, high = (self._setting(config.bound(which)) for which in ("min", "max"))
        return min(max(value, low), high)

    def _setting(self, name: str) -> int:
        value: int = getattr(self._settings, name.replace(".", "_"))
        return value


def check_group_name(group_id: GroupId) -> None:
    """Raise ApiError INVALID_REQUEST for the empty group id: the defaults of groups are
    settings of the server."""
    if group_id == "":
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
        )


def _group_number(config: GroupConfig, text: str) -> int:
    is_number = _INTEGER.fullmatch(text) is not None
    number = int(text) if is_number else 0
    if not is_number or not config.low <= number <= INT32_MAX:
        raise _invalid(
            f"Invalid value {text} for configuration {config.name}: a whole number "
            f"from {config.low} to {INT32_MAX} is needed"
        )
    return number
