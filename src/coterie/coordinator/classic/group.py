"""A classic group: its states, its members, and what joins and syncs wait in it.

Rules of this file: it holds the data and the small steps on it that keep the data
consistent (a member added is counted, a member removed is forgotten everywhere). It
decides nothing about the protocol; the handlers do, and only a `Change` or the replay
of a record calls the steps.

Every step and every question but `rebalance_timeout_ms`, `select_protocol` and
`subscribed_topics` costs the same whatever the number of members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Protocol

from coterie.coordinator.result import Ticket
from coterie.errors import ApiError, MalformedFrame
from coterie.types import GroupId, MemberId, TopicName
from coterie.wire.codec import decode
from coterie.wire.consumer_protocol import ConsumerProtocolSubscription
from coterie.wire.error_codes import ErrorCode

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
GENERATION_MAX: Final = 2**31 - 1


class GroupState(Enum):
    """The states of a classic group under the names that clients are shown."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MOVES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}
"""From each state, the states a group may move to (E19-01)."""


class MemberProtocol(NamedTuple):
    """One assignment strategy a member can do, with its subscription in bytes."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Member:
    """One member as it last joined. `protocols` is in the member's own preference."""

    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""

    def metadata(self, protocol_name: str | None) -> bytes:
        """The subscription under a protocol; empty when the member cannot do it."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""


@dataclass(slots=True)
class ClassicGroup:
    """One group. With the log's part (E22-32) and what only a live group has.

    `pending_members` were given a member id and have not come back with it (KIP-394).
    `joins` and `syncs` hold the ticket of each member whose request is parked.
    `unsynced` are the members of this generation that have not sent a sync.
    `new_members` have not been through a generation. `initial` says that the group was
    empty before this rebalance, `joined_in_delay` that a member came since the initial
    delay was last set. `state_timestamp_ms` is -1 when the log does not say.
    """

    group_id: GroupId
    state: GroupState = GroupState.EMPTY
    state_timestamp_ms: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    generation: int = 0
    leader_id: MemberId | None = None
    members: MutableMapping[MemberId, Member] = field(default_factory=dict)
    static_members: MutableMapping[str, MemberId] = field(default_factory=dict)
    pending_members: MutableMapping[MemberId, None] = field(default_factory=dict)
    joins: MutableMapping[MemberId, Ticket] = field(default_factory=dict)
    syncs: MutableMapping[MemberId, Ticket] = field(default_factory=dict)
    unsynced: MutableMapping[MemberId, None] = field(default_factory=dict)
    new_members: MutableMapping[MemberId, None] = field(default_factory=dict)
    supporters: MutableMapping[str, int] = field(default_factory=dict)
    initial: bool = False
    joined_in_delay: bool = False
    _topics: frozenset[TopicName] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def is_simple(self) -> bool:
        """True when the group only keeps offsets: nobody ever joined it."""
        return (
            self.protocol_type is None
            and self.state is GroupState.EMPTY
            and not self.pending_members
        )

    @property
    def uses_consumer_protocol(self) -> bool:
        """True when the members' bytes are the embedded consumer protocol (E19-19)."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def all_joined(self) -> bool:
        """True when every member, and every pending one, has a join parked."""
        return len(self.joins) == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits: the longest that any member asks for."""
        timeouts = (member.rebalance_timeout_ms for member in self.members.values())
        return max(timeouts, default=0)

    def supports(self, protocol_type: str, protocol_names: list[str]) -> bool:
        """Whether a member with these protocols could be in the group (E19-02)."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocol_names)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.supporters.get(name, 0) == size for name in protocol_names
        )

    def select_protocol(self) -> str:
        """The protocol all members support with most first choices (E19-06).

        Each member votes for the first of its protocols that everyone can do. On a
        tie the one voted for first wins.
        """
        assert self.members
        size = len(self.members)
        everyones = {name for name, count in self.supporters.items() if count == size}
        votes = Counter(
            next(name for name, _ in member.protocols if name in everyones)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def subscribed_topics(self) -> frozenset[TopicName] | None:
        """The topics the members subscribe to; None when that cannot be known.

        Known only for the consumer protocol, once a generation has a protocol; an
        empty group subscribes to none.
        """
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self._topics is None and self.protocol_name is not None:
            self._topics = self._read_topics(self.protocol_name)
        return self._topics

    def _read_topics(self, protocol_name: str) -> frozenset[TopicName] | None:
        topics: set[TopicName] = set()
        try:
            for member in self.members.values():
                topics.update(_topics_in(member.metadata(protocol_name)))
        except MalformedFrame:
            return None
        return frozenset(topics)

    def move(self, to: GroupState, at_ms: int) -> None:
        """Move to another state; the only place where a live group's state is set."""
        assert to in MOVES[self.state], f"{self.state.value} -> {to.value}"
        self.state = to
        self.state_timestamp_ms = at_ms

    def choose_protocol(self, protocol_name: str | None) -> None:
        """Set the protocol of a generation, which says what members subscribe to."""
        self.protocol_name = protocol_name
        self._topics = None

    def checked_member(self, member_id: MemberId, instance_id: str | None) -> Member:
        """The member of that id, when the instance id, if any, is its own (KIP-345).

        Raises:
            ApiError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is not None and holder != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
            if holder is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def add(self, member: Member) -> None:
        """Add a member; the first one leads."""
        assert member.member_id not in self.members, member.member_id
        self.pending_members.pop(member.member_id, None)
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def update(self, member: Member) -> None:
        """Put a member in the place of its older self."""
        self._count(self.members[member.member_id], -1)
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove(self, member_id: MemberId) -> None:
        """Forget a member everywhere; when it led, the oldest member leads."""
        member = self.members.pop(member_id)
        self._count(member, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        for waiting in (self.joins, self.syncs, self.unsynced, self.new_members):
            waiting.pop(member_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def _count(self, member: Member, by: int) -> None:
        for name in dict.fromkeys(name for name, _ in member.protocols):
            count = self.supporters.get(name, 0) + by
            assert count >= 0, name
            if count:
                self.supporters[name] = count
            else:
                del self.supporters[name]
        self._topics = None


def _topics_in(subscription: bytes) -> list[TopicName]:
    """The topics of a consumer's subscription, whatever its version (E19-19).

    Two bytes of version come first; version 0 is a prefix of all later ones.
    """
    value, _ = decode(ConsumerProtocolSubscription, 0, subscription, 2)
    return value.topics


class HasGroups(Protocol):
    """The part of a shard's state that the classic protocol reads and changes."""

    classic_groups: dict[GroupId, ClassicGroup]
