"""Configurations of groups (KIP-848).

A group may have configurations before it exists and after it is deleted.
The default of a group's configuration is the server's setting. The names are
those of the Kafka releases, not those of the KIP; an unknown name is rejected,
not stored.

Those of streams groups are stored without effect, as this server has no such groups: a
tool that sets them for all its groups works with both servers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.catalog.configs import JAVA_INTEGER, LONG_MAX, invalid_config
from coterie.broker.catalog.entries import Entry, EntryKind
from coterie.errors import ApiError
from coterie.settings import INT32_MAX, Settings
from coterie.types import GroupId, ShareGroupConfigs
from coterie.wire.configs import ConfigType
from coterie.wire.error_codes import ErrorCode

Value: TypeAlias = int | str


class GroupConfig(NamedTuple):
    """A configuration of groups; a number is at least `low`.

    The server's setting "group.<name>" is the default of one that has an effect; the
    settings with "min." and "max." limit it. Others have `default`, and the limits of
    Kafka's default settings, which are None where Kafka has no such setting. `synonym`
    is Kafka's name of the setting, if it is not "group.<name>". An internal one is only
    shown for groups that set it.
    """

    name: str
    low: int
    documentation: str
    default: Value | None = None
    limits: tuple[int | None, int | None] = (None, None)
    type: ConfigType = ConfigType.INT
    pattern: re.Pattern[str] | None = None
    synonym: str | None = None
    is_internal: bool = False

    @property
    def setting(self) -> str:
        """The name of the server setting that supplies the default."""
        return self.synonym or f"group.{self.name}"

    def bound(self, which: str) -> str:
        """Return the name of the server setting that limits the value: `which` is "min"
        or "max"."""
        kind, _, rest = self.name.partition(".")
        return f"group.{kind}.{which}.{rest.removeprefix('num.')}"


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
SHARE_SESSION: Final = GroupConfig(
    "share.session.timeout.ms",
    1,
    "The time without a heartbeat after which a member is removed.",
)
SHARE_HEARTBEAT: Final = GroupConfig(
    "share.heartbeat.interval.ms",
    1,
    "The interval at which members send heartbeats.",
)
SHARE_ASSIGNMENT: Final = GroupConfig(
    "share.assignment.interval.ms",
    0,
    "The least time between two target assignments.",
)
RECORD_LOCK: Final = GroupConfig(
    "share.record.lock.duration.ms",
    1_000,
    "The time for which a record that a member acquired is locked.",
)
DELIVERY_LIMIT: Final = GroupConfig(
    "share.delivery.count.limit", 2, "The largest number of deliveries of a record."
)
RECORD_LOCKS: Final = GroupConfig(
    "share.partition.max.record.locks",
    100,
    "The largest number of locked records of a share partition.",
)
_UNUSED: Final = "Stored without effect: there are no such groups."
_STREAMS_INTERVALS: Final = tuple(
    GroupConfig(f"streams.{name}", low, _UNUSED, default, limits)
    for name, low, default, limits in (
        ("assignment.interval.ms", 0, 1_000, (0, 15_000)),
        ("heartbeat.interval.ms", 1, 5_000, (5_000, 15_000)),
        ("session.timeout.ms", 1, 45_000, (45_000, 60_000)),
    )
)
_ISO_DURATION: Final = (
    r"[+]?[Pp](?=[0-9Tt])([0-9]+[Dd])?"
    r"([Tt](?=[0-9])([0-9]+[Hh])?([0-9]+[Mm])?([0-9]+([.,][0-9]{0,9})?[Ss])?)?"
)
_BOOLEAN: Final = re.compile("true|false", re.IGNORECASE)
_OFFLOAD: Final = tuple(
    GroupConfig(
        f"{kind}.assignor.offload.enable",
        0,
        "Stored without effect, as in Kafka 4.4.",
        "true",
        type=ConfigType.BOOLEAN,
        pattern=_BOOLEAN,
        is_internal=True,
    )
    for kind in ("consumer", "share", "streams")
)
COPY_DEAD_LETTER: Final = GroupConfig(
    "errors.deadletterqueue.copy.record.enable",
    0,
    "Whether a dead letter has the key and the value of its record.",
    "false",
    type=ConfigType.BOOLEAN,
    pattern=_BOOLEAN,
    synonym="errors.deadletterqueue.copy.record.enable",
)
DEAD_LETTER_TOPIC: Final = GroupConfig(
    "errors.deadletterqueue.topic.name",
    0,
    "The topic of the group's dead letters; empty for none.",
    "",
    type=ConfigType.STRING,
    pattern=re.compile("(?!__).*"),
    synonym="errors.deadletterqueue.topic.name",
)
SHARE_RESET: Final = GroupConfig(
    "share.auto.offset.reset",
    0,
    "The start of partitions that are new to the group.",
    "latest",
    type=ConfigType.STRING,
    pattern=re.compile(rf"earliest|latest|by_duration:{_ISO_DURATION}"),
    synonym="share.auto.offset.reset",
)
SHARE_ISOLATION: Final = GroupConfig(
    "share.isolation.level",
    0,
    "Whether members get records of open and aborted transactions.",
    "read_uncommitted",
    type=ConfigType.STRING,
    pattern=re.compile("read_committed|read_uncommitted"),
    synonym="share.isolation.level",
)
RENEW: Final = GroupConfig(
    "share.renew.acknowledge.enable",
    0,
    "Whether members may extend the lock of a record.",
    "true",
    type=ConfigType.BOOLEAN,
    pattern=_BOOLEAN,
    synonym="share.renew.acknowledge.enable",
)
_SHARE: Final = (
    *(SHARE_SESSION, SHARE_HEARTBEAT, SHARE_ASSIGNMENT, RECORD_LOCK, DELIVERY_LIMIT),
    *(RECORD_LOCKS, SHARE_RESET, SHARE_ISOLATION, RENEW),
    *(DEAD_LETTER_TOPIC, COPY_DEAD_LETTER),
)
_STREAMS: Final = (
    GroupConfig(
        "streams.acceptable.recovery.lag",
        0,
        _UNUSED,
        10_000,
        type=ConfigType.LONG,
        is_internal=True,
    ),
    GroupConfig(
        "streams.assignor.name",
        0,
        _UNUSED,
        "sticky",
        type=ConfigType.STRING,
        pattern=re.compile("sticky"),
        synonym="group.streams.assignors",
    ),
    GroupConfig("streams.initial.rebalance.delay.ms", 0, _UNUSED, 3_000),
    GroupConfig("streams.num.standby.replicas", 0, _UNUSED, 0, (None, 2)),
    GroupConfig(
        "streams.num.warmup.replicas", 0, _UNUSED, 2, (None, 20), is_internal=True
    ),
    GroupConfig(
        "streams.rack.aware.assignment.tags",
        0,
        _UNUSED,
        "",
        type=ConfigType.LIST,
    ),
    GroupConfig(
        "streams.task.offset.interval.ms",
        1,
        _UNUSED,
        60_000,
        (15_000, None),
        is_internal=True,
    ),
)
EFFECTIVE: Final = (ASSIGNMENT, HEARTBEAT, SESSION)
"""The configurations of consumer groups that have an effect."""
GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = {
    config.name: config
    for config in sorted(
        (*EFFECTIVE, *_SHARE, *_STREAMS_INTERVALS, *_OFFLOAD, *_STREAMS)
    )
}
"""The configurations of groups, in order of names."""
_NONE: Final[Mapping[str, Value]] = {}
_NO_NUMBERS: Final[Mapping[str, int]] = {}


class GroupConfigs:
    """The configurations of all groups; the coordinator's `GroupConfigView`.

    A group's own values are stored unchanged. The effective values are clamped to the
    server's limits, which may have changed at a restart, as in Kafka 4.x.

    The object lives as long as its catalog; `clear` empties it, so that references to
    it stay valid when the catalog is loaded again.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._own: dict[GroupId, Mapping[str, Value]] = {}
        self._effective: dict[GroupId, Mapping[str, int]] = {}
        self._share: dict[GroupId, ShareGroupConfigs] = {}
        self._share_default = self._share_configs(_NONE)
        self.version = 0

    def clear(self) -> None:
        """Remove all configurations, before the catalog is loaded."""
        self._own.clear()
        self._share.clear()
        self._effective.clear()
        self.version += 1

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """Return the session timeout of the group's consumer protocol members."""
        value = self._effective.get(group_id, _NO_NUMBERS).get(SESSION.name)
        if value is None:
            return self._settings.group_consumer_session_timeout_ms
        return value

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """Return the heartbeat interval of the group's consumer protocol members."""
        value = self._effective.get(group_id, _NO_NUMBERS).get(HEARTBEAT.name)
        if value is None:
            return self._settings.group_consumer_heartbeat_interval_ms
        return value

    def assignment_interval_ms(self, group_id: GroupId) -> int:
        """Return the minimum time between two target assignments of the group."""
        value = self._effective.get(group_id, _NO_NUMBERS).get(ASSIGNMENT.name)
        if value is None:
            return self._settings.group_consumer_assignment_interval_ms
        return value

    def share(self, group_id: GroupId) -> ShareGroupConfigs:
        """Return the effective configurations of a share group."""
        return self._share.get(group_id, self._share_default)

    def _share_configs(self, own: Mapping[str, Value]) -> ShareGroupConfigs:
        values = {
            config.name: own.get(config.name, self.default(config)) for config in _SHARE
        }

        def number(config: GroupConfig) -> int:
            return self._within_bounds(config, int(values[config.name]))

        return ShareGroupConfigs(
            session_timeout_ms=number(SHARE_SESSION),
            heartbeat_interval_ms=number(SHARE_HEARTBEAT),
            assignment_interval_ms=number(SHARE_ASSIGNMENT),
            record_lock_duration_ms=number(RECORD_LOCK),
            delivery_count_limit=number(DELIVERY_LIMIT),
            partition_max_record_locks=number(RECORD_LOCKS),
            auto_offset_reset=str(values[SHARE_RESET.name]),
            isolation_level=str(values[SHARE_ISOLATION.name]),
            renew_acknowledge_enable=values[RENEW.name] == "true",
            dead_letter_topic=str(values[DEAD_LETTER_TOPIC.name]),
            dead_letter_copy_record=values[COPY_DEAD_LETTER.name] == "true",
        )

    @property
    def groups(self) -> Collection[GroupId]:
        """The groups that have their own configurations."""
        return self._own.keys()

    def own(self, group_id: GroupId) -> Mapping[str, Value]:
        """Return the group's own configurations by name."""
        return self._own.get(group_id, _NONE)

    def alter(self, group_id: GroupId, changes: Mapping[str, str | None]) -> Entry:
        """Return the entry of a group with changed configurations; None unsets one.

        Raises ApiError INVALID_REQUEST for an empty group id, INVALID_CONFIG for an
        unknown name that is set, or a value that is malformed, out of range or in
        conflict with another value of the group.
        """
        check_group_name(group_id)
        own = dict(self.own(group_id))
        for name, text in changes.items():
            if text is None:
                own.pop(name, None)
            elif name not in GROUP_CONFIGS:
                raise invalid_config(f"Unknown group config name: {name}")
            else:
                own[name] = _parsed(GROUP_CONFIGS[name], text)
        self._check(own)
        return Entry(EntryKind.GROUP_CONFIG, group_id, own or None)

    def copied(self, group_id: GroupId, texts: Mapping[str, str]) -> Entry:
        """Return the entry of a group with what another cluster has accepted.

        Names and values that are unknown here are left out.
        """
        own: dict[str, Value] = {}
        for name, text in texts.items():
            if name in GROUP_CONFIGS:
                with suppress(ApiError):
                    own[name] = _parsed(GROUP_CONFIGS[name], text)
        return Entry(EntryKind.GROUP_CONFIG, group_id, own or None)

    def replay(self, group_id: GroupId, value: Mapping[str, Any] | None) -> None:
        """Apply a catalog entry."""
        self.version += 1
        if value is None:
            self._own.pop(group_id, None)
            self._effective.pop(group_id, None)
            self._share.pop(group_id, None)
        else:
            self._own[group_id] = value
            self._effective[group_id] = {
                config.name: self._within_bounds(config, value[config.name])
                for config in EFFECTIVE
                if config.name in value
            }
            self._share.pop(group_id, None)
            if any(config.name in value for config in _SHARE):
                self._share[group_id] = self._share_configs(value)

    def default(self, config: GroupConfig) -> Value:
        """Return the value for groups that do not set the configuration."""
        if config.default is not None:
            return config.default
        return self._setting(config.setting)

    def _check(self, own: Mapping[str, Value]) -> None:
        """Validate the effective values, defaults included, as Kafka does."""
        values = {
            name: own.get(name, self.default(config))
            for name, config in GROUP_CONFIGS.items()
        }
        for name, config in GROUP_CONFIGS.items():
            value = values[name]
            if isinstance(value, str):
                continue
            low, high = self._limits(config)
            if low is not None and high is not None:
                if not low <= value <= high:
                    raise invalid_config(
                        f"{name} must be in the range {low} to {high} inclusive."
                    )
            elif low is not None and value < low:
                raise invalid_config(f"{name} must be greater than or equal to {low}")
            elif high is not None and value > high:
                raise invalid_config(f"{name} must be less than or equal to {high}")
        for kind in ("consumer", "share", "streams"):
            session = f"{kind}.session.timeout.ms"
            heartbeat = f"{kind}.heartbeat.interval.ms"
            if int(values[session]) <= int(values[heartbeat]):
                raise invalid_config(f"{session} must be greater than {heartbeat}")

    def _limits(self, config: GroupConfig) -> tuple[int | None, int | None]:
        if config.default is not None:
            return config.limits
        return self._setting(config.bound("min")), self._setting(config.bound("max"))

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


def _parsed(config: GroupConfig, text: str) -> Value:
    """Return the value of a text. Raises ApiError INVALID_CONFIG."""
    invalid = f"Invalid value {text} for configuration {config.name}: "
    if config.type is ConfigType.LIST:
        elements = [element.strip() for element in text.split(",")]
        if len(set(elements)) < len(elements):
            raise invalid_config(f"{config.name} must not contain duplicate tag keys.")
        return text
    if config.pattern is not None:
        if config.pattern.fullmatch(text.strip()) is None:
            raise invalid_config(f"{invalid}It must match {config.pattern.pattern}")
        is_flag = config.type is ConfigType.BOOLEAN
        return text.strip().lower() if is_flag else text.strip()
    most = LONG_MAX if config.type is ConfigType.LONG else INT32_MAX
    number = int(text) if JAVA_INTEGER.fullmatch(text) else most + 1
    if not -most <= number <= most:
        raise invalid_config(f"{invalid}Not a number of type {config.type.name}")
    if number < config.low:
        raise invalid_config(f"{invalid}Value must be at least {config.low}")
    return number
