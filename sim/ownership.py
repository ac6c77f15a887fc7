"""No partition has two owners, by the members' own view: what one member believes it
owns, and has not said it gave up, is not handed to another one, unless the coordinator
had taken the first out of the group. And nobody is taken out before its time.

What a member says counts once the server handles it, be it late: a report that was
doubled or held up on its way gives up what the member has meanwhile got back, in Kafka
as here, as no report has a number. Whoever reads that in a transcript sees a late
request before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from coterie.coordinator.classic.group import ClassicGroup, GroupState
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member as GroupMember
from coterie.coordinator.consumer.member import MemberState
from coterie.coordinator.state import State
from coterie.types import GroupId, MemberId
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.join_group import JoinGroupRequest
from sim.broken import Broken
from sim.clock import Clock
from sim.configs import Configs
from sim.members.embedded import COOPERATIVE, read_subscription
from sim.members.member import Member
from sim.topics import Part, Topics

_Key = tuple[GroupId, MemberId]
_LEAVES: Final = 0


@dataclass(slots=True)
class _Term:
    """Until when a member of a consumer group may not be taken out of it."""

    session_ends_ms: int
    revocation_ends_ms: int | None = None


class Ownership:
    """Who reads what, in a whole world."""

    def __init__(self, clock: Clock, topics: Topics, configs: Configs) -> None:
        self._clock = clock
        self._topics = topics
        self._configs = configs
        self._readers: dict[Member, None] = {}
        self._in_group: dict[GroupId, frozenset[MemberId]] = {}
        self._reported: dict[_Key, set[Part]] = {}
        self._terms: dict[_Key, _Term] = {}
        self._generations: dict[GroupId, int] = {}
        """Those of classic groups."""
        self._preparing_ms: dict[GroupId, int] = {}
        """Since when a classic group waits for joins."""
        self._rounds: dict[tuple[GroupId, int], int] = {}
        """When the rebalance began that led to a generation."""
        self._joined_ms: dict[_Key, int] = {}
        """When a member's last join came."""
        self._known: dict[GroupId, dict[MemberId, GroupMember]] = {}

    # What members do.

    def adopted(self, reader: Member, parts: Collection[Part]) -> None:
        """A member begins to read partitions. Raises Broken when another one does."""
        self._readers[reader] = None
        if reader.epoch_or_generation < self._generations.get(reader.group_id, -1):
            return  # it is told late what it was given in a generation that is over
        mine = self._reported.setdefault((reader.group_id, reader.member_id), set())
        mine.update(self._still_granted(reader, parts))
        if reader.member_id not in self._in_group.get(reader.group_id, ()):
            return  # it is told late what it was given when it was a member
        for other in self._readers:
            if other is reader or other.group_id != reader.group_id:
                continue
            both = frozenset(other.owned).intersection(parts)
            if both and self._holds(other, both) and not self._is_late(other, reader):
                raise Broken(
                    f"two owners: {reader.name} is given {self._topics.describe(both)}"
                    f", which {other.name} reads and has not given up"
                )

    def _still_granted(
        self, reader: Member, parts: Collection[Part]
    ) -> Collection[Part]:
        """Those that the group has not taken back already, because a request that was
        held up said that the member has nothing."""
        group = self._known.get(reader.group_id)
        member = None if group is None else group.get(reader.member_id)
        if member is None:
            return parts
        both = (member.assigned, member.pending_revocation)
        return [(t, p) for t, p in parts if any(p in held.get(t, ()) for held in both)]

    def ended(self, reader: Member) -> None:
        """A member's process is gone."""
        self._readers.pop(reader, None)

    def _holds(self, reader: Member, parts: Iterable[Part]) -> bool:
        """Whether the coordinator has to know that this member still reads them."""
        if reader.member_id not in self._in_group.get(reader.group_id, ()):
            return False
        reported = self._reported.get((reader.group_id, reader.member_id), set())
        return not reported.isdisjoint(parts)

    def _is_late(self, reader: Member, newer: Member) -> bool:
        """Whether a classic member did not come to the rebalance that led to another
        one's generation, though it had all its time (E19-05). A static one stays a
        member then, but its generation is over."""
        began_ms = self._rounds.get((newer.group_id, newer.epoch_or_generation))
        came_ms = self._joined_ms.get((reader.group_id, reader.member_id), -1)
        if began_ms is None or came_ms >= began_ms:
            return False
        return self._clock.now_ms - began_ms >= reader.habits.rebalance_timeout_ms

    # What the server hears and does.

    def heard(self, request: Any) -> None:
        """The server has got a request, and is about to handle it."""
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            if request.topic_partitions is None:
                return
            owned = {
                (topic.topic_id, partition)
                for topic in request.topic_partitions
                for partition in topic.partitions
            }
            self._report(request.group_id, request.member_id, owned)
        elif isinstance(request, JoinGroupRequest):
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

    def _report(self, group_id: GroupId, member_id: MemberId, owned: set[Part]) -> None:
        reported = self._reported.get((group_id, member_id))
        if reported is not None:
            reported &= owned

    def beaten(self, request: ConsumerGroupHeartbeatRequest) -> Callable[[], None]:
        """A heartbeat is about to be handled; call what is returned when it was
        accepted. From then on the member has a whole session again; until then it may
        have one, as an answer may be lost with the disk."""
        key = (request.group_id, request.member_id)
        timeout_ms = self._configs.session_timeout_ms(request.group_id)
        ends_ms = self._clock.now_ms + timeout_ms
        if (term := self._terms.get(key)) is not None:
            term.session_ends_ms = min(term.session_ends_ms, ends_ms)

        def accepted() -> None:
            if (term := self._terms.get(key)) is not None:
                term.session_ends_ms = max(term.session_ends_ms, ends_ms)

        return accepted

    def look(self, state: State, cause: Any, now_ms: int) -> None:
        """The state has changed, by that request or by itself. Raises Broken when a
        member is gone for no reason."""
        for group_id in {**state.classic_groups, **state.consumer_groups}:
            group = state.group(group_id)
            assert group is not None
            self._in_group[group_id] = frozenset(group.members)
            if isinstance(group, ConsumerGroup):
                self._look_at(group, cause, now_ms)
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
        """Groups were read from the log again: nobody was taken out by that, and all
        have their whole sessions again (E8-06)."""
        for group_id in group_ids:
            self._known.pop(group_id, None)
            self._preparing_ms.pop(group_id, None)
            for key in [key for key in self._terms if key[0] == group_id]:
                del self._terms[key]
        assert now_ms >= 0

    def _look_at(self, group: ConsumerGroup, cause: Any, now_ms: int) -> None:
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
        elif term.revocation_ends_ms is None:
            term.revocation_ends_ms = now_ms + member.rebalance_timeout_ms

    def _check_removal(
        self, group: ConsumerGroup, member: GroupMember, cause: Any, now_ms: int
    ) -> None:
        if member.classic is not None or _asks_for_removal(cause, member):
            return
        term = self._terms[group.group_id, member.member_id]
        ends_ms = term.session_ends_ms
        if term.revocation_ends_ms is not None:
            ends_ms = min(ends_ms, term.revocation_ends_ms)
        if now_ms < ends_ms:
            raise Broken(
                f"{group.group_id}: {member.member_id} is taken out of the group "
                f"{ends_ms - now_ms} ms before its time"
            )


def is_sign_of_life(request: Any) -> bool:
    """Whether it is a heartbeat of a member that stays; the session of one that leaves
    for a while goes on from the last of these (E7-63)."""
    return (
        isinstance(request, ConsumerGroupHeartbeatRequest)
        and request.member_epoch >= _LEAVES
    )


def _asks_for_removal(cause: Any, member: GroupMember) -> bool:
    """Whether the request is the member's own goodbye, or that of whoever takes its
    place; an admin's counts as well."""
    if isinstance(cause, ConsumerGroupHeartbeatRequest):
        is_own = cause.member_id == member.member_id and cause.member_epoch < _LEAVES
        takes_place = (
            cause.member_epoch == 0
            and cause.instance_id is not None
            and cause.instance_id == member.instance_id
        )
        return is_own or takes_place
    return cause is not None
