"""Configurations of single groups (KIP-848, E21), apart from the groups themselves.

A group may have them before it exists and after it is gone (E21-02, D-20). What a group
has not set is the server's own setting (E21-06). Names are those that Kafka shipped,
not the KIP's (I-10); one without a meaning here is refused, never kept (E21-12).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from coterie.catalog.entries import Entry, Kind
from coterie.errors import ApiError
from coterie.settings import INT32_MAX, Settings
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode

_WHOLE: Final = re.compile(r"\s*[+-]?[0-9]{1,10}\s*")
"""What Java reads as a number too; `int` alone would read 45_000."""


class GroupConfig(NamedTuple):
    """One configuration a group can have, a whole number of ms from `low` on.

    The server's setting of this name after "group." is its default, and the settings
    with "min." and "max." bound it.
    """

    name: str
    low: int
    documentation: str

    @property
    def setting(self) -> str:
        """The server's setting that gives the default."""
        return f"group.{self.name}"

    def bound(self, which: str) -> str:
        """The server's setting that bounds it: `which` is "min" or "max"."""
        return self.setting.replace("consumer.", f"consumer.{which}.", 1)


SESSION: Final = GroupConfig(
    "consumer.session.timeout.ms",
    1,
    "How long a member of the group may be silent before it is fenced.",
)
HEARTBEAT: Final = GroupConfig(
    "consumer.heartbeat.interval.ms",
    1,
    "How often members of the group are to be heard.",
)
ASSIGNMENT: Final = GroupConfig(
    "consumer.assignment.interval.ms",
    0,
    "How long after a target assignment was made the group waits before the next.",
)
GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = {
    config.name: config for config in (ASSIGNMENT, HEARTBEAT, SESSION)
}
"""Every configuration of a group, by name and in order of names."""
_NONE: Final[Mapping[str, int]] = {}


class GroupConfigs:
    """What holds for each group; the coordinator's `GroupConfigView`.

    What a group has set stays as it was set. What holds is within the server's bounds,
    though a restart may have narrowed them since; Kafka 4.x does the same.

    One object lives as long as its catalog: `clear` empties it, so whoever holds it
    sees what is loaded afterwards.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._own: dict[GroupId, Mapping[str, int]] = {}
        self._holds: dict[GroupId, Mapping[str, int]] = {}
        self.version = 0

    def clear(self) -> None:
        """Forget every group's, to be loaded again."""
        self._own.clear()
        self._holds.clear()
        self.version += 1

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """How long a member of the consumer protocol may be silent."""
        held = self._holds.get(group_id, _NONE).get(SESSION.name)
        if held is None:
            return self._settings.group_consumer_session_timeout_ms
        return held

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """How often such a member shall be heard of."""
        held = self._holds.get(group_id, _NONE).get(HEARTBEAT.name)
        if held is None:
            return self._settings.group_consumer_heartbeat_interval_ms
        return held

    def assignment_interval_ms(self, group_id: GroupId) -> int:
        """How long after a target was made the next one may be made."""
        held = self._holds.get(group_id, _NONE).get(ASSIGNMENT.name)
        if held is None:
            return self._settings.group_consumer_assignment_interval_ms
        return held

    @property
    def groups(self) -> Collection[GroupId]:
        """The groups that have set something."""
        return self._own.keys()

    def own(self, group_id: GroupId) -> Mapping[str, int]:
        """What the group has set, by name; empty if it has set nothing."""
        return self._own.get(group_id, _NONE)

    def alter(self, group_id: GroupId, changes: Mapping[str, str | None]) -> Entry:
        """Set configurations of a group, which need not exist; None takes one back.

        Raises ApiError INVALID_REQUEST for an empty group id, INVALID_CONFIG for an
        unknown name or a value that is no number or out of range, alone or beside the
        group's others (E21-06, E21-07).
        """
        check_group_name(group_id)
        own = dict(self.own(group_id))
        for name, text in changes.items():
            if name not in GROUP_CONFIGS:
                raise _unknown(name)
            if text is None:
                own.pop(name, None)
            else:
                own[name] = _number(GROUP_CONFIGS[name], text)
        self._check(own)
        return Entry(Kind.GROUP_CONFIG, group_id, own or None)

    def replay(self, group_id: GroupId, value: Mapping[str, Any] | None) -> None:
        """Apply an entry."""
        self.version += 1
        if value is None:
            self._own.pop(group_id, None)
            self._holds.pop(group_id, None)
        else:
            self._own[group_id] = value
            self._holds[group_id] = {
                name: self._within_bounds(GROUP_CONFIGS[name], number)
                for name, number in value.items()
            }

    def _check(self, own: Mapping[str, int]) -> None:
        """All that would hold, defaults too, as Kafka does."""
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
    """Raise ApiError INVALID_REQUEST for the empty one: groups have no common
    configurations but the server's settings."""
    if group_id == "":
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
        )


def _number(config: GroupConfig, text: str) -> int:
    is_number = _WHOLE.fullmatch(text) is not None
    number = int(text) if is_number else 0
    if not is_number or not config.low <= number <= INT32_MAX:
        raise _invalid(
            f"Invalid value {text} for configuration {config.name}: a whole number "
            f"from {config.low} to {INT32_MAX} is needed"
        )
    return number


def _unknown(name: str) -> ApiError:
    known = ", ".join(GROUP_CONFIGS)
    return _invalid(f"Unknown group config name: {name}; there are {known}")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, message)
