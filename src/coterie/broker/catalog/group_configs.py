"""Configurations of groups (KIP-848).

A group may have configurations before it exists and after it is deleted.
The default of a group's configuration is the server's setting. The names are
those of the Kafka releases, not those of the KIP; an unknown name is rejected,
not stored.

Those of share groups and streams groups are stored without effect, as this server has
no such groups: a tool that sets them for all its groups works with both servers.
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
from coterie.types import GroupId
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
_UNUSED: Final = "Stored without effect: there are no such groups."
_INTERVALS: Final = tuple(
    GroupConfig(f"{kind}.{name}", low, _UNUSED, default, limits)
    for kind in ("share", "streams")
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
_DEAD_LETTERS: Final = (
    GroupConfig(
        "errors.deadletterqueue.copy.record.enable",
        0,
        _UNUSED,
        "false",
        type=ConfigType.BOOLEAN,
        pattern=_BOOLEAN,
        synonym="errors.deadletterqueue.copy.record.enable",
    ),
    GroupConfig(
        "errors.deadletterqueue.topic.name",
        0,
        _UNUSED,
        "",
        type=ConfigType.STRING,
        pattern=re.compile("(?!__).*"),
        synonym="errors.deadletterqueue.topic.name",
    ),
)
_SHARE: Final = (
    GroupConfig(
        "share.auto.offset.reset",
        0,
        _UNUSED,
        "latest",
        type=ConfigType.STRING,
        pattern=re.compile(rf"earliest|latest|by_duration:{_ISO_DURATION}"),
        synonym="share.auto.offset.reset",
    ),
    GroupConfig("share.delivery.count.limit", 2, _UNUSED, 5, (2, 10)),
    GroupConfig(
        "share.isolation.level",
        0,
        _UNUSED,
        "read_uncommitted",
        type=ConfigType.STRING,
        pattern=re.compile("read_committed|read_uncommitted"),
        synonym="share.isolation.level",
    ),
    GroupConfig("share.partition.max.record.locks", 100, _UNUSED, 2_000, (100, 4_000)),
    GroupConfig(
        "share.record.lock.duration.ms", 1_000, _UNUSED, 30_000, (15_000, 60_000)
    ),
    GroupConfig(
        "share.renew.acknowledge.enable",
        0,
        _UNUSED,
        "true",
        type=ConfigType.BOOLEAN,
        pattern=_BOOLEAN,
        synonym="share.renew.acknowledge.enable",
    ),
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
"""The configurations that have an effect."""
GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = {
    config.name: config
    for config in sorted(
        (*EFFECTIVE, *_INTERVALS, *_OFFLOAD, *_DEAD_LETTERS, *_SHARE, *_STREAMS)
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
        self.version = 0

    def clear(self) -> None:
        """Remove all configurations, before the catalog is loaded."""
        self._own.clear()
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
        else:
            self._own[group_id] = value
            self._effective[group_id] = {
                config.name: self._within_bounds(config, value[config.name])
                for config in EFFECTIVE
                if config.name in value
            }

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
