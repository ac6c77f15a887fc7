"""A classic group: its states, its members, and their parked joins and syncs.

This module holds the data and the small steps that keep it consistent: a member that is
added is counted, one that is removed is removed everywhere. Handlers do not call these
steps; only a `Change` or the replay of a record does.

All operations cost the same whatever the number of members, except
`rebalance_timeout_ms`, `select_protocol` and `subscribed_topics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Protocol

from coterie.broker.coordinator.result import Ticket
from coterie.errors import ApiError, MalformedFrame
from coterie.java import hash_map_order
from coterie.types import GroupId, MemberId, TopicName
from coterie.wire import messages as m
from coterie.wire.codec import EMBEDDED_ELEMENTS_MAX, decode
from coterie.wire.error_codes import ErrorCode

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
GENERATION_MAX: Final = 2**31 - 1


class GroupState(Enum):
    """The states of a classic group, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """The state of groups that do not exist."""


MOVES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
}
"""The states that a group may move to, by its state. Kafka's groups are Dead between
the end of coordination and their removal; here both are one step."""


class MemberProtocol(NamedTuple):
    """A protocol that a member supports (for consumers: an assignor), with metadata."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Member:
    """A member as it last joined; `protocols` is in the member's order of
    preference."""

    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the subscription of a protocol; empty when the member does not support
        it."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""


@dataclass(slots=True)
class ClassicGroup:
    """A classic group: the fields of its record, and the volatile fields,
    which are not in the log.

    `pending_members` received a member id and have not joined with it yet (KIP-394).
    `joins` and `syncs` hold the ticket of each parked request. `unsynced` are the
    members of this generation that have not sent a sync. `new_members` have not been
    part of a generation. `initial` is set when the group was empty before this
    rebalance, `joined_in_delay` when a member joined since the initial rebalance delay
    was last set. `state_timestamp_ms` is -1 when unknown.
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
    subscriptions: tuple[bytes, ...] | None = field(
        default=None, compare=False, repr=False
    )
    """The subscriptions of the newest generation as bytes; None before the first one,
    and once one of them was found malformed."""
    _topics: frozenset[TopicName] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def is_simple(self) -> bool:
        """True when the group only stores offsets: it never had a member."""
        return (
            self.protocol_type is None
            and self.state is GroupState.EMPTY
            and not self.pending_members
        )

    @property
    def uses_consumer_protocol(self) -> bool:
        """True when the members' metadata is that of the consumer protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def all_joined(self) -> bool:
        """True when every member's join is parked, and no member is pending."""
        return len(self.joins) == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        timeouts = (member.rebalance_timeout_ms for member in self.members.values())
        return max(timeouts, default=0)

    def supports(self, protocol_type: str, protocol_names: list[str]) -> bool:
        """Return whether a member with these protocols may be in the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocol_names)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.supporters.get(name, 0) == size for name in protocol_names
        )

    def select_protocol(self) -> str:
        """Return the protocol with most votes among those that all members support.

        Each member votes for its first protocol that all support. Of several with the
        same number of votes, the first one in the order of a HashMap is selected, as in
        Kafka's `ClassicGroup.selectProtocol`.
        """
        assert self.members
        size = len(self.members)
        everyones = {name for name, count in self.supporters.items() if count == size}
        votes = Counter(
            next(name for name, _ in member.protocols if name in everyones)
            for member in self.members.values()
        )
        return max(hash_map_order(votes), key=votes.__getitem__)

    def subscribed_topics(self) -> frozenset[TopicName] | None:
        """Return the topics that the newest generation subscribes to; None when they
        are unknown.

        They are known only for the consumer protocol. Members that have joined or left
        since do not change them, as in Kafka's `ClassicGroup.computeSubscribedTopics`,
        which only a new generation calls.
        """
        if not self.uses_consumer_protocol:
            return None
        if self._topics is None and self.subscriptions is not None:
            # Decoded when needed, and once: a group may have thousands of members.
            topics: set[TopicName] = set()
            try:
                for subscription in self.subscriptions:
                    topics.update(_topics_in(subscription))
            except MalformedFrame:
                self.subscriptions = None
                return None
            self._topics = frozenset(topics)
        return self._topics

    def move(self, to: GroupState, at_ms: int) -> None:
        """Move to another state; no other method sets the state of a live group."""
        assert to in MOVES[self.state], f"{self.state.value} -> {to.value}"
        self.state = to
        self.state_timestamp_ms = at_ms

    def choose_protocol(self, protocol_name: str | None) -> None:
        """Set the protocol of a generation, which determines the members'
        subscriptions.
        """
        self.protocol_name = protocol_name
        self.subscriptions = None
        self._topics = None
        if self.uses_consumer_protocol:
            self.subscriptions = tuple(
                member.metadata(protocol_name) for member in self.members.values()
            )

    def checked_member(self, member_id: MemberId, instance_id: str | None) -> Member:
        """Return the member of that id after checking its instance id (KIP-345).

        Raises:
            ApiError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is not None and owner != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
            if owner is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def add(self, member: Member) -> None:
        """Add a member; the first one is the leader."""
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
        """Replace a member with its newer value."""
        self._count(self.members[member.member_id], -1)
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove(self, member_id: MemberId) -> None:
        """Remove a member; when it was the leader, the oldest member becomes the
        leader."""
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


def _topics_in(subscription: bytes) -> list[TopicName]:
    # A subscription starts with two bytes of version. The fields of version 0 are a
    # prefix of those of all later versions.
    value, _ = decode(
        m.ConsumerProtocolSubscription, 0, subscription, 2, EMBEDDED_ELEMENTS_MAX
    )
    return value.topics


class HasGroups(Protocol):
    """The part of a shard's state that the classic protocol uses."""

    classic_groups: dict[GroupId, ClassicGroup]
