"""A handler's draft: the group as it will be, and the result that makes it so.

A handler changes nothing. It makes its changes on a draft, which looks like the group
with them and collects them, with the timers, records and replies that belong to them,
into one `Result`. The draft is a fork of the group: what it does costs the same
whatever the number of members.
"""

from __future__ import annotations

from dataclasses import replace

from coterie.coordinator.classic.changes import GroupChange
from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.classic.overlay import Overlay
from coterie.coordinator.result import (
    PARKED,
    CancelTimer,
    Record,
    Reply,
    Result,
    Ticket,
    Timer,
)
from coterie.settings import Settings
from coterie.wire.schema import Struct


class Draft:
    """Collects a result; `group` is the group after the changes made so far."""

    __slots__ = (
        "_changes",
        "_records",
        "_replies",
        "_timers",
        "group",
        "now_ms",
        "settings",
    )

    def __init__(self, group: ClassicGroup, now_ms: int, settings: Settings) -> None:
        self.group = _fork(group)
        self.now_ms = now_ms
        self.settings = settings
        self._changes: list[GroupChange] = []
        self._timers: list[Timer | CancelTimer] = []
        self._records: list[Record] = []
        self._replies: list[Reply] = []

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    def make(self, change: GroupChange) -> None:
        """Make a change here, and in the shard when the result is applied."""
        change.make(self.group)
        self._changes.append(change)

    def set(self, timer: Timer | CancelTimer) -> None:
        """Set or cancel a timer; of two with one key the later counts."""
        self._timers.append(timer)

    def write(self, record: Record) -> None:
        """Write a record. The draft does not show what its replay will do."""
        self._records.append(record)

    def reply(self, ticket: Ticket, response: Struct) -> None:
        """Answer a parked request."""
        self._replies.append(Reply(ticket, response))

    def result(self, response: Struct | None = PARKED) -> Result:
        """Everything collected, with the answer to the request itself."""
        return Result(
            response=response,
            records=tuple(self._records),
            changes=tuple(self._changes),
            timers=tuple(self._timers),
            replies=tuple(self._replies),
        )


def _fork(group: ClassicGroup) -> ClassicGroup:
    return replace(
        group,
        members=Overlay(group.members),
        static_members=Overlay(group.static_members),
        pending_members=Overlay(group.pending_members),
        joins=Overlay(group.joins),
        syncs=Overlay(group.syncs),
        unsynced=Overlay(group.unsynced),
        new_members=Overlay(group.new_members),
        supporters=Overlay(group.supporters),
    )
