"""A handler's draft of a classic group, and its changes.

A handler does not modify the group. It makes its changes on a `ClassicDraft`, whose
`group` is the group after these changes, and which collects them with the timers,
records and replies in one `Result`. The draft overlays the group, so a change costs the
same whatever the number of members.

The changes (`result.Change`) concern state that the log does not hold. A rebalance in
flight is lost on restart by design, as in Apache Kafka: a generation becomes durable
when its leader's sync is written. Each change is made on the draft first and
applied to the shard's group once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import TypeVar

from coterie.broker.coordinator.classic.group import (
    ClassicGroup,
    GroupState,
    HasGroups,
    Member,
    MemberProtocol,
)
from coterie.broker.coordinator.result import (
    PARKED,
    CancelTimer,
    Context,
    Record,
    Reply,
    Result,
    Ticket,
    Timer,
)
from coterie.types import GroupId, MemberId
from coterie.wire.schema import Struct

K = TypeVar("K")
V = TypeVar("V")


class Overlay(MutableMapping[K, V]):
    """A mapping with changes on top of another mapping, which stays unchanged.

    Every operation but iteration and `clear` costs the same whatever the size of the
    mapping below. The iteration order is that of a dict after the same operations, so
    that the draft and the group elect the same leader.
    """

    __slots__ = ("_added", "_below", "_gone", "_put")

    def __init__(self, below: Mapping[K, V]) -> None:
        self._below = below
        self._put: dict[K, V] = {}
        self._gone: set[K] = set()
        self._added: dict[K, None] = {}

    def __getitem__(self, key: K) -> V:
        if key in self._put:
            return self._put[key]
        if key in self._gone:
            raise KeyError(key)
        return self._below[key]

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self._below or key in self._gone:
            self._added[key] = None
        self._put[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._put.pop(key, None)
        self._added.pop(key, None)
        if key in self._below:
            self._gone.add(key)

    def __contains__(self, key: object) -> bool:
        if key in self._put:
            return True
        return key not in self._gone and key in self._below

    def __iter__(self) -> Iterator[K]:
        if self._gone:
            yield from (key for key in self._below if key not in self._gone)
        else:
            yield from self._below
        yield from self._added

    def __len__(self) -> int:
        return len(self._below) - len(self._gone) + len(self._added)

    def clear(self) -> None:
        """Remove all items."""
        self._below = {}
        self._put.clear()
        self._gone.clear()
        self._added.clear()


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A change to one existing group."""

    group_id: GroupId

    def apply(self, state: HasGroups) -> None:
        """Make the change on the shard's group."""
        self.make(state.classic_groups[self.group_id])

    @abstractmethod
    def make(self, group: ClassicGroup) -> None:
        """Make the change on this group."""


@dataclass(frozen=True, slots=True)
class GroupCreated(GroupChange):
    """The creation of a group by its first join. The result also has a record of the
    empty group."""

    def apply(self, state: HasGroups) -> None:
        """Add an empty group to the shard."""
        assert self.group_id not in state.classic_groups, self.group_id
        state.classic_groups[self.group_id] = ClassicGroup(self.group_id)

    def make(self, group: ClassicGroup) -> None:
        """Do nothing: the draft of a new group starts empty."""
        assert group.state is GroupState.EMPTY


@dataclass(frozen=True, slots=True)
class GroupDowngraded(GroupChange):
    """The classic group that replaces a consumer group.

    The replay of the group's record follows this change. The record has only one
    protocol of each member, so this change adds the live group with all protocols
    first.
    """

    group: ClassicGroup

    def apply(self, state: HasGroups) -> None:
        """Add the group to the shard."""
        assert self.group_id not in state.classic_groups, self.group_id
        state.classic_groups[self.group_id] = self.group

    def make(self, group: ClassicGroup) -> None:
        """Raise AssertionError, as no draft of a classic group makes this change."""
        raise AssertionError(f"{group.group_id} is a classic group already")


@dataclass(frozen=True, slots=True)
class MemberPending(GroupChange):
    """A new pending member, which must join again with the id it received (KIP-394)."""

    member_id: MemberId

    def make(self, group: ClassicGroup) -> None:
        assert self.member_id not in group.members, self.member_id
        group.pending_members[self.member_id] = None


@dataclass(frozen=True, slots=True)
class PendingMemberDropped(GroupChange):
    """The removal of a pending member: it left, its session expired, or the group is
    full."""

    member_id: MemberId

    def make(self, group: ClassicGroup) -> None:
        del group.pending_members[self.member_id]


@dataclass(frozen=True, slots=True)
class MemberAdded(GroupChange):
    """A new member, whose join is parked."""

    member: Member
    protocol_type: str
    ticket: Ticket

    def make(self, group: ClassicGroup) -> None:
        """Add the member; the first member of an empty group sets the protocol type."""
        if not group.members:
            group.protocol_type = self.protocol_type
        assert group.protocol_type == self.protocol_type
        group.add(self.member)
        group.new_members[self.member.member_id] = None
        group.joins[self.member.member_id] = self.ticket
        if group.state is GroupState.PREPARING_REBALANCE and group.initial:
            group.joined_in_delay = True


@dataclass(frozen=True, slots=True)
class MemberRejoined(GroupChange):
    """A rejoin of a member, maybe with other protocols; its join is parked."""

    member_id: MemberId
    protocols: tuple[MemberProtocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    ticket: Ticket

    def make(self, group: ClassicGroup) -> None:
        member = replace(
            group.members[self.member_id],
            protocols=self.protocols,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
        )
        group.update(member)
        group.joins[self.member_id] = self.ticket


@dataclass(frozen=True, slots=True)
class MemberReplaced(GroupChange):
    """A join of a static member with a new member id (KIP-345).

    `ticket` is its parked join; None when the join needs no rebalance.
    """

    old_member_id: MemberId
    member: Member
    ticket: Ticket | None

    def make(self, group: ClassicGroup) -> None:
        """Replace the old member id with the new one, also as the leader."""
        led = group.leader_id == self.old_member_id
        old = group.members[self.old_member_id]
        assert old.group_instance_id == self.member.group_instance_id is not None
        group.remove(self.old_member_id)
        group.add(self.member)
        if led:
            group.leader_id = self.member.member_id
        if self.ticket is not None:
            group.joins[self.member.member_id] = self.ticket


@dataclass(frozen=True, slots=True)
class MemberRemoved(GroupChange):
    """The removal of a member: it left, its session expired, or it missed the
    rebalance."""

    member_id: MemberId

    def make(self, group: ClassicGroup) -> None:
        group.remove(self.member_id)


@dataclass(frozen=True, slots=True)
class RebalancePrepared(GroupChange):
    """The start of a rebalance, in which all members must join again."""

    at_ms: int

    def make(self, group: ClassicGroup) -> None:
        """Discard the parked syncs, and the assignments of the unfinished
        generation."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in tuple(group.members.values()):
                group.members[member.member_id] = replace(member, assignment=b"")
        group.initial = group.state is GroupState.EMPTY
        group.syncs.clear()
        group.unsynced.clear()
        group.move(GroupState.PREPARING_REBALANCE, self.at_ms)


@dataclass(frozen=True, slots=True)
class InitialDelayExtended(GroupChange):
    """An extension of the initial rebalance delay, because members joined."""

    def make(self, group: ClassicGroup) -> None:
        """Clear the flag that a member joined since the delay was set."""
        assert group.joined_in_delay
        group.joined_in_delay = False


@dataclass(frozen=True, slots=True)
class GenerationStarted(GroupChange):
    """The end of the join phase: parked joins get their responses, and the members must
    send SyncGroup."""

    generation: int
    protocol_name: str
    leader_id: MemberId
    at_ms: int

    def make(self, group: ClassicGroup) -> None:
        assert self.leader_id in group.joins, "the leader must have joined"
        assert not group.syncs
        group.generation = self.generation
        group.choose_protocol(self.protocol_name)
        group.leader_id = self.leader_id
        group.joins.clear()
        group.new_members.clear()
        group.unsynced.update(dict.fromkeys(group.members))
        group.move(GroupState.COMPLETING_REBALANCE, self.at_ms)


@dataclass(frozen=True, slots=True)
class SyncReceived(GroupChange):
    """A sync of a member; `ticket` is set when the sync is parked."""

    member_id: MemberId
    ticket: Ticket | None

    def make(self, group: ClassicGroup) -> None:
        assert self.member_id in group.members, self.member_id
        group.unsynced.pop(self.member_id, None)
        if self.ticket is not None:
            group.syncs[self.member_id] = self.ticket


@dataclass(frozen=True, slots=True)
class SyncsCompleted(GroupChange):
    """The removal of all parked syncs, which the leader's assignments complete.

    The group becomes Stable when the record of the generation is replayed.
    """

    def make(self, group: ClassicGroup) -> None:
        assert group.state is GroupState.COMPLETING_REBALANCE
        group.syncs.clear()


class ClassicDraft:
    """The collected result of a handler; `group` is the group after the changes so
    far."""

    __slots__ = (
        "_changes",
        "_records",
        "_replies",
        "_timers",
        "group",
        "now_ms",
        "settings",
        "wall_ms",
    )

    def __init__(self, group: ClassicGroup, context: Context) -> None:
        self.group = replace(
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
        self.now_ms = context.now_ms
        self.wall_ms = context.wall_ms
        self.settings = context.environment.settings
        self._changes: list[GroupChange] = []
        self._timers: list[Timer | CancelTimer] = []
        self._records: list[Record] = []
        self._replies: list[Reply] = []

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    def make(self, change: GroupChange) -> None:
        """Make a change on the draft, and on the shard's group when the result is
        applied."""
        change.make(self.group)
        self._changes.append(change)

    def set(self, timer: Timer | CancelTimer) -> None:
        """Set or cancel a timer; a later call with the same key replaces it."""
        self._timers.append(timer)

    def write(self, record: Record) -> None:
        """Add a record to the result. The draft does not reflect its replay."""
        self._records.append(record)

    def reply(self, ticket: Ticket, response: Struct) -> None:
        """Complete a parked request with its response."""
        self._replies.append(Reply(ticket, response))

    def result(self, response: Struct | None = PARKED) -> Result:
        """Return the collected result, with the response to the request itself."""
        return Result(
            response=response,
            records=tuple(self._records),
            changes=tuple(self._changes),
            timers=tuple(self._timers),
            replies=tuple(self._replies),
        )
