"""Check that no partition has two owners, from the members' own view. A partition that
a member owns and has not reported as revoked must not be assigned to another member,
unless the coordinator had removed the first member. No member may be removed too early.
A report takes effect when the server handles it, even if it is late: a repeated or
delayed report revokes partitions that were assigned to the member again in the
meantime, in Kafka as here, because reports have no sequence numbers. In a transcript
such a case shows a late request first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import STATIC_LEAVE_EPOCH, MemberState
from coterie.broker.coordinator.consumer.member import Member as GroupMember
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, MemberId
from coterie.wire import messages as m
from sim.broken import Broken
from sim.clock import Clock
from sim.configs import Configs
from sim.members.embedded import COOPERATIVE, read_subscription
from sim.members.member import Member
from sim.topics import TopicIdPartition, Topics

_Key = tuple[GroupId, MemberId]
_LEAVES: Final = 0
_OVERDUE_MS: Final = 1_000
"""The time by which the removal of a member may lag behind its timeout."""


@dataclass(slots=True)
class _Term:
    """The times before which a member must not be removed."""

    accepted_ends_ms: int
    """When the session ends by the newest accepted heartbeat."""
    accepted: int = 0
    """The number of that heartbeat."""
    open: dict[int, int] = field(default_factory=dict)
    """The same times by newer heartbeats, by number, which were received."""
    revocation_ends_ms: int | None = None

    @property
    def session_ends_ms(self) -> int:
        return min([self.accepted_ends_ms, *self.open.values()])


class Ownership:
    """The members and the partitions that they consume, in a whole world."""

    def __init__(self, clock: Clock, topics: Topics, configs: Configs) -> None:
        self._clock = clock
        self._topics = topics
        self._configs = configs
        self._readers: dict[Member, None] = {}
        self._in_group: dict[GroupId, frozenset[MemberId]] = {}
        self._reported: dict[_Key, set[TopicIdPartition]] = {}
        self._terms: dict[_Key, _Term] = {}
        self._heartbeats = 0
        self._must_revoke: dict[_Key, int] = {}
        """The latest end of the revocation of members that must revoke."""
        self._generations: dict[GroupId, int] = {}
        """The generations of classic groups."""
        self._preparing_ms: dict[GroupId, int] = {}
        """The time since when a classic group waits for joins."""
        self._rounds: dict[tuple[GroupId, int], int] = {}
        """The start of the rebalance that led to a generation."""
        self._joined_ms: dict[_Key, int] = {}
        """The time of a member's last join."""
        self._known: dict[GroupId, dict[MemberId, GroupMember]] = {}

    # Callbacks of members.

    def partitions_adopted(
        self, reader: Member, parts: Collection[TopicIdPartition]
    ) -> None:
        """Record that a member starts to consume partitions. Raise Broken if another
        member consumes one of them.
        """
        self._readers[reader] = None
        if reader.epoch_or_generation < self._generations.get(reader.group_id, -1):
            return  # a late response with the assignment of an earlier generation
        mine = self._reported.setdefault((reader.group_id, reader.member_id), set())
        mine.update(self._still_granted(reader, parts))
        if reader.member_id not in self._in_group.get(reader.group_id, ()):
            return  # a late response from before the member was removed
        for other in self._readers:
            if other is reader or other.group_id != reader.group_id:
                continue
            both = frozenset(other.owned).intersection(parts)
            if both and self._holds(other, both) and not self._is_late(other, reader):
                raise Broken(
                    f"two owners: {reader.name} is given {self._topics.describe(both)}"
                    f", which {other.name} reads and has not revoked"
                )

    def _still_granted(
        self, reader: Member, parts: Collection[TopicIdPartition]
    ) -> Collection[TopicIdPartition]:
        """Return the partitions that a late report of the member has not revoked."""
        group = self._known.get(reader.group_id)
        member = None if group is None else group.get(reader.member_id)
        if member is None:
            return parts
        both = (member.assigned, member.pending_revocation)
        return [(t, p) for t, p in parts if any(p in held.get(t, ()) for held in both)]

    def ended(self, reader: Member) -> None:
        """Record that a member's process ended."""
        self._readers.pop(reader, None)

    def _holds(self, reader: Member, parts: Iterable[TopicIdPartition]) -> bool:
        """Return whether the coordinator must treat the member as the owner of its
        partitions."""
        if reader.member_id not in self._in_group.get(reader.group_id, ()):
            return False
        reported = self._reported.get((reader.group_id, reader.member_id), set())
        return not reported.isdisjoint(parts)

    def _is_late(self, reader: Member, newer: Member) -> bool:
        """Return whether a classic member missed the rebalance of a newer generation,
        although it had its whole timeout (E19-05). A static member then stays in the
        group, but its generation has ended.
        """
        began_ms = self._rounds.get((newer.group_id, newer.epoch_or_generation))
        came_ms = self._joined_ms.get((reader.group_id, reader.member_id), -1)
        if began_ms is None or came_ms >= began_ms:
            return False
        return self._clock.now_ms - began_ms >= reader.config.rebalance_timeout_ms

    # Requests and changes of the server.

    def request_received(self, request: Any) -> None:
        """Handle a request before the server does."""
        if isinstance(request, m.ConsumerGroupHeartbeatRequest):
            if request.topic_partitions is None:
                return
            owned = {
                (topic.topic_id, partition)
                for topic in request.topic_partitions
                for partition in topic.partitions
            }
            self._report(request.group_id, request.member_id, owned)
        elif isinstance(request, m.JoinGroupRequest):
            owned = set()
            for protocol in request.protocols:
                if protocol.name == COOPERATIVE:
                    named = read_subscription(protocol.metadata).owned
                    owned = {
                        (topic_id, partition)
                        for topic_id, name in self._topics.names.items()
                        for other, partition in named
                        if name == other
                    }
            self._report(request.group_id, request.member_id, owned)
            key = (request.group_id, request.member_id)
            self._joined_ms[key] = self._clock.now_ms

    def _report(
        self, group_id: GroupId, member_id: MemberId, owned: set[TopicIdPartition]
    ) -> None:
        reported = self._reported.get((group_id, member_id))
        if reported is not None:
            reported &= owned

    def heartbeat_received(
        self, request: m.ConsumerGroupHeartbeatRequest
    ) -> Callable[[], None]:
        """Return the callback for an accepted heartbeat. From then on the member has a
        whole session timeout. Before that it may have one: the response may be lost
        with the disk.

        The timeout may have become shorter since an earlier heartbeat, which is
        accepted only now: it does not give the member more time any more.
        """
        key = (request.group_id, request.member_id)
        timeout_ms = self._configs.session_timeout_ms(request.group_id)
        ends_ms = self._clock.now_ms + timeout_ms
        self._heartbeats += 1
        order = self._heartbeats
        if (term := self._terms.get(key)) is not None:
            term.open[order] = ends_ms

        def accepted() -> None:
            term = self._terms.get(key)
            if term is not None and order > term.accepted:
                term.accepted, term.accepted_ends_ms = order, ends_ms
                term.open = {at: ms for at, ms in term.open.items() if at > order}

        return accepted

    def state_changed(self, state: State, cause: Any, now_ms: int) -> None:
        """Handle a change of the state. Raise Broken when a member was removed without
        a reason."""
        for group_id in {**state.classic_groups, **state.consumer_groups}:
            group = state.offset_group(group_id)
            assert group is not None
            self._in_group[group_id] = frozenset(group.members)
            if isinstance(group, ConsumerGroup):
                self._check_group(group, cause, now_ms)
                self._generations.pop(group_id, None)
                self._preparing_ms.pop(group_id, None)
                continue
            self._generations[group_id] = group.generation
            if group.state is GroupState.PREPARING_REBALANCE:
                self._preparing_ms.setdefault(group_id, now_ms)
            elif group_id in self._preparing_ms:
                began_ms = self._preparing_ms.pop(group_id)
                self._rounds[group_id, group.generation] = began_ms
        for group_id in self._known.keys() - state.consumer_groups.keys():
            group = state.classic_groups.get(group_id)
            if isinstance(group, ClassicGroup):
                del self._known[group_id]

    def reloaded(self, group_ids: Iterable[GroupId], now_ms: int) -> None:
        """Handle a reload, which removes no member and restarts all session timers
        (E8-06).
        """
        for group_id in group_ids:
            self._known.pop(group_id, None)
            self._preparing_ms.pop(group_id, None)
            for key in [key for key in self._terms if key[0] == group_id]:
                del self._terms[key]
            for key in [key for key in self._must_revoke if key[0] == group_id]:
                del self._must_revoke[key]
        assert now_ms >= 0

    def check_overdue(self, state: State, now_ms: int) -> None:
        """Raise Broken when a member had a whole rebalance timeout to revoke its
        partitions, has not done so, and is still in the group (E8-03).
        """
        for key, ends_ms in [*self._must_revoke.items()]:
            group_id, member_id = key
            group = state.consumer_groups.get(group_id)
            if group is None:
                continue
            member = group.members.get(member_id)
            must_revoke = member is not None and _must_revoke(member)
            if not must_revoke:
                del self._must_revoke[key]
            elif now_ms > ends_ms + _OVERDUE_MS:
                raise Broken(
                    f"{group_id}: {member_id} has not revoked its partitions, and is "
                    f"in the group {now_ms - ends_ms} ms after its rebalance timeout"
                )

    def _check_group(self, group: ConsumerGroup, cause: Any, now_ms: int) -> None:
        group_id = group.group_id
        known = self._known.get(group_id, {})
        for member_id, member in known.items():
            if member_id not in group.members:
                self._check_removal(group, member, cause, now_ms)
                self._terms.pop((group_id, member_id), None)
        for member_id, member in group.members.items():
            if known.get(member_id) is not member:
                self._update_term(group_id, member, now_ms)
        self._known[group_id] = dict(group.members)

    def _update_term(self, group_id: GroupId, member: GroupMember, now_ms: int) -> None:
        key = (group_id, member.member_id)
        term = self._terms.get(key)
        if term is None:
            timeout_ms = self._configs.session_timeout_ms(group_id)
            term = self._terms[key] = _Term(now_ms + timeout_ms)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            term.revocation_ends_ms = None
            return
        if _must_revoke(member):
            self._must_revoke[key] = now_ms + member.rebalance_timeout_ms
        if term.revocation_ends_ms is None:
            term.revocation_ends_ms = now_ms + member.rebalance_timeout_ms

    def _check_removal(
        self, group: ConsumerGroup, member: GroupMember, cause: Any, now_ms: int
    ) -> None:
        if member.classic is not None or _removes_member(cause, member):
            return
        term = self._terms[group.group_id, member.member_id]
        ends_ms = term.session_ends_ms
        if term.revocation_ends_ms is not None:
            ends_ms = min(ends_ms, term.revocation_ends_ms)
        if now_ms < ends_ms:
            raise Broken(
                f"{group.group_id}: {member.member_id} is removed from the group "
                f"{ends_ms - now_ms} ms before its time"
            )


def is_sign_of_life(request: Any) -> bool:
    """Return whether the request is a heartbeat of a member that stays. The session of
    a static member that leaves temporarily continues from its last heartbeat (E7-63).
    """
    return (
        isinstance(request, m.ConsumerGroupHeartbeatRequest)
        and request.member_epoch >= _LEAVES
    )


def _must_revoke(member: GroupMember) -> bool:
    """Return whether a member has a rebalance timer. A static member that left
    temporarily has only its session.
    """
    return (
        member.state is MemberState.UNREVOKED_PARTITIONS
        and member.classic is None
        and member.epoch != STATIC_LEAVE_EPOCH
    )


def _removes_member(cause: Any, member: GroupMember) -> bool:
    """Return whether the request removes the member. It may be sent by the member, by
    the static member that replaces it, or by an admin client.
    """
    if isinstance(cause, m.ConsumerGroupHeartbeatRequest):
        is_own = cause.member_id == member.member_id and cause.member_epoch < _LEAVES
        takes_place = (
            cause.member_epoch == 0
            and cause.instance_id is not None
            and cause.instance_id == member.instance_id
        )
        return is_own or takes_place
    return cause is not None
