"""A member of the classic protocol: join, sync, heartbeat, and rejoin on
REBALANCE_IN_PROGRESS. An eager member revokes everything before it rejoins. A
cooperative one reports its owned partitions, revokes those no longer assigned, and then
rejoins once more (KIP-429).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.clock import Event
from sim.members.embedded import (
    COOPERATIVE,
    EAGER,
    Named,
    Subscription,
    assign,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from sim.members.member import (
    BACKOFF_MS,
    REQUEST_TIMEOUT_MS,
    RETRIED,
    Member,
    MemberConfig,
    MemberEnvironment,
)
from sim.topics import TopicIdPartition

_HEARTBEAT_MS: Final = 3_000
_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_LEAVE_VERSION: Final = 5
_NO_GENERATION: Final = -1
_REJOINS: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED)
_FORGETS: Final = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


class Phase(Enum):
    """The phase of the client."""

    PREPARING = "preparing to join"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    OUT = "out"


class ClassicMember(Member):
    """A process with one member of the classic protocol."""

    def __init__(
        self, environment: MemberEnvironment, config: MemberConfig, incarnation: int
    ) -> None:
        super().__init__(environment, config, incarnation)
        self.phase = Phase.OUT
        self.generation = _NO_GENERATION
        self.protocol_name: str | None = None
        self.seen_counts: dict[str, int | None] | None = None
        """The sizes of the topics at the leader's last assignment."""
        self.owes_join = False
        """Whether partitions that it must revoke wait for its next join. If a static
        member ends before, its successor gets the assignment without a rebalance, and
        they stay without a member until the next one, as in Kafka."""
        self._is_beating = False
        self._next: Event | None = None
        self._callback: object = None
        """The running callback that revokes partitions."""

    @property
    def epoch_or_generation(self) -> int:
        """The generation."""
        return self.generation

    @property
    def is_settled(self) -> bool:
        """Whether the member has its assignment and no reason to rebalance."""
        is_done = self.phase is Phase.STABLE and self._callback is None
        return is_done and not self._partition_counts_changed()

    def start(self) -> None:
        """Join the group."""
        self._join()
        self.commit_regularly()

    def leave(self) -> None:
        """Revoke all partitions, leave the group, and end. A static member does not
        send LeaveGroup.
        """
        if self.is_leaving:
            return
        self.is_leaving = True
        self.phase = Phase.OUT
        self.commit(self.owned, self._send_leave)

    def _send_leave(self) -> None:
        self.revoke_partitions(self.owned, "revokes")
        if self.instance_id is not None or not self.member_id:
            self.die("stops without LeaveGroup")
            return
        identity = m.MemberIdentity(member_id=self.member_id)
        self.call(
            m.LeaveGroupRequest(group_id=self.group_id, members=[identity]),
            _LEAVE_VERSION,
            lambda _: self.die("has left"),
            lambda: self.die("sent its leave and ends"),
        )

    # Join.

    def rejoin(self) -> None:
        """Start a rebalance. An eager member first revokes its partitions, and
        continues to send heartbeats meanwhile.
        """
        if self.phase is not Phase.STABLE or self._callback is not None:
            return
        self.phase = Phase.PREPARING
        if self.config.is_cooperative or not self.owned:
            self._join()
        else:
            self._beat_later()
            self.after(self.callback_ms(), self._revoke_all)

    def _revoke_all(self) -> None:
        if self.phase is Phase.PREPARING:
            self.commit(self.owned, self._join_empty)

    def _join_empty(self) -> None:
        if self.phase is Phase.PREPARING:
            self.revoke_partitions(self.owned, "revokes")
            self._join()

    def _join(self) -> None:
        self.phase = Phase.JOINING
        self._stop_beating()
        request = m.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.config.session_timeout_ms,
            rebalance_timeout_ms=self.config.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[self._protocol()],
        )
        timeout_ms = self.config.rebalance_timeout_ms + REQUEST_TIMEOUT_MS
        self.call(request, _JOIN_VERSION, self._joined, self._join_failed, timeout_ms)

    def _protocol(self) -> m.JoinGroupRequestProtocol:
        named = self._named(self.owned) if self.config.is_cooperative else frozenset()
        subscription = Subscription(self.topics, named, self.generation)
        return m.JoinGroupRequestProtocol(
            name=COOPERATIVE if self.config.is_cooperative else EAGER,
            metadata=write_subscription(subscription),
        )

    def _named(self, parts: set[TopicIdPartition]) -> frozenset[Named]:
        names = self.environment.topics.names
        return frozenset((names[topic_id], partition) for topic_id, partition in parts)

    def _join_failed(self) -> None:
        """Retry after a short delay."""
        if self.phase is Phase.JOINING:
            self.after(self.environment.rng.randint(1, BACKOFF_MS), self._join_again)

    def _join_again(self) -> None:
        if self.phase is Phase.JOINING:
            self._join()

    def _joined(self, answer: m.JoinGroupResponse) -> None:
        if self.phase is not Phase.JOINING:
            return
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            self._refused(code)
            return
        self.owes_join = False
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self.protocol_name = answer.protocol_name
        self._sync(answer)

    def _refused(self, code: ErrorCode) -> None:
        """Handle an error of a join or a sync, mostly by joining again."""
        if code in _FORGETS:
            self._forget(code)
        elif code in _REJOINS:
            self._join()
        elif code in RETRIED:
            self.phase = Phase.JOINING
            self._join_failed()
        else:
            self.refused(code)

    def _forget(self, code: ErrorCode) -> None:
        """Drop all owned partitions, because the member is no longer in its
        generation.
        """
        self._callback = None
        self.revoke_partitions(self.owned, "loses")
        self.generation = _NO_GENERATION
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._join()

    # Sync.

    def _sync(self, joined: m.JoinGroupResponse) -> None:
        self.phase = Phase.SYNCING
        self.seen_counts = None
        if joined.skip_assignment:
            # The leader is still computing its assignment and will send its own
            # SyncGroup.
            self.seen_counts = dict.fromkeys(self.topics, -1)
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        request = m.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol_name,
            assignments=self._assignments(joined) if leads else [],
        )
        timeout_ms = self.config.rebalance_timeout_ms + REQUEST_TIMEOUT_MS
        self.call(request, _SYNC_VERSION, self._synced, self._sync_failed, timeout_ms)

    def _assignments(
        self, joined: m.JoinGroupResponse
    ) -> list[m.SyncGroupRequestAssignment]:
        members = {
            each.member_id: read_subscription(each.metadata) for each in joined.members
        }
        topics = self.environment.topics
        names = {name for each in members.values() for name in each.topics}
        self.seen_counts = {name: topics.partition_count(name) for name in names}
        cooperative = joined.protocol_name == COOPERATIVE
        given = assign(members, topics, cooperative=cooperative)
        return [
            m.SyncGroupRequestAssignment(
                member_id=member_id, assignment=write_assignment(parts)
            )
            for member_id, parts in given.items()
        ]

    def _sync_failed(self) -> None:
        if self.phase is Phase.SYNCING:
            self.phase = Phase.JOINING
            self._join_failed()

    def _synced(self, answer: m.SyncGroupResponse) -> None:
        if self.phase is not Phase.SYNCING:
            return
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            self._refused(code)
            return
        self.phase = Phase.STABLE
        topics = self.environment.topics
        assigned = {
            (topic.topic_id, partition)
            for name, partition in read_assignment(answer.assignment)
            if (topic := topics.known.get(name)) is not None
        }
        surplus = frozenset(self.owned - assigned)
        self.adopt(assigned)
        self._beat_later()
        if surplus:
            self.owes_join = True
            self._callback = callback = object()
            self.after(self.callback_ms(), lambda: self._revoke(surplus, callback))

    def _revoke(self, surplus: frozenset[TopicIdPartition], callback: object) -> None:
        """Revoke the partitions that are assigned to other members."""
        if callback is self._callback:
            self._callback = None
            self.revoke_partitions(surplus, "revokes")
            self.rejoin()

    # Heartbeats.

    def _beat_later(self) -> None:
        self._stop_beating()
        self._next = self.after(_HEARTBEAT_MS, self._beat)

    def _stop_beating(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _beat(self) -> None:
        if self.phase not in (Phase.STABLE, Phase.PREPARING):
            return
        self._beat_later()
        self._adopt_recreated_topics()
        if self._partition_counts_changed():
            self.note("detects that topics have changed")
            self.rejoin()
            return
        if self._is_beating:
            return
        self._is_beating = True
        request = m.HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        generation = self.generation
        self.call(
            request,
            _HEARTBEAT_VERSION,
            lambda answer: self._beaten(answer, generation),
            self._beat_failed,
        )

    def _adopt_recreated_topics(self) -> None:
        """Continue with the new topic of the same name when a topic was created again:
        classic assignments have topic names without ids. Partitions whose number does
        not exist in the new topic are dropped.
        """
        topics = self.environment.topics
        for part in sorted(self.owned):
            name, partition = topics.names[part[0]], part[1]
            topic = topics.known.get(name)
            if topic is None or topic.topic_id == part[0]:
                continue
            self.revoke_partitions([part], "reads no more of")
            if partition < topic.partition_count:
                self.owned.add((topic.topic_id, partition))

    def _partition_counts_changed(self) -> bool:
        """Return whether a partition count has changed since the leader's
        assignment.
        """
        count = self.environment.topics.partition_count
        seen = self.seen_counts or {}
        return any(count(name) != size for name, size in seen.items())

    def _beat_failed(self) -> None:
        self._is_beating = False

    def _beaten(self, answer: m.HeartbeatResponse, generation: int) -> None:
        self._is_beating = False
        code = ErrorCode(answer.error_code)
        is_over = generation != self.generation
        if is_over or self.phase not in (Phase.STABLE, Phase.PREPARING):
            return
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()
        elif code in _FORGETS:
            self._forget(code)
        elif code is not ErrorCode.NONE and code not in RETRIED:
            self.refused(code)
