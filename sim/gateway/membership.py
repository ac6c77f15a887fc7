"""The group of the nodes: an ordinary classic group of the upstream cluster, and each
node's member of it.

The coordinator is the single-server simulation's server, because it behaves as Apache
Kafka does. A member joins, syncs and heartbeats as `client/classic_member.py` does,
with the same session (`ClassicSession`), and keeps its assignment during a rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.classic.group import ClassicGroup
from coterie.broker.runtime.deferred import Respond
from coterie.broker.runtime.shards import Phase
from coterie.client.classic_requests import JoinedMember
from coterie.client.classic_session import NO_GENERATION, ClassicSession, Effect
from coterie.gateway.node_assignment import assign_nodes
from coterie.gateway.node_protocol import (
    NodeMetadata,
    read_assignment,
    write_assignment,
    write_metadata,
)
from coterie.gateway.shard_assignment import NO_CLAIM, Claim
from coterie.gateway.view import NO_VIEW, NodeInfo, View
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.checker import with_rows
from sim.clock import Clock, Event
from sim.disk import Disk, MemoryDisk
from sim.gateway.loop import NodeLoop
from sim.network import Call, Caller, Network
from sim.server import Server, ServerEnvironment
from sim.topics import Topics
from sim.transcript import Transcript

GROUP_ID: Final = "coterie-sim"
TOPIC: Final = "__coterie_sim"
_PROTOCOL: Final = "coterie"
_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_LEAVE_VERSION: Final = 5
_COMMIT_VERSION: Final = 9
_BACKOFF_MS: Final = 200
_GRACE_MS: Final = 5_000
_HEARTBEATS: Final = 10
_SOON_MS: Final = 50
_EXPECTS_MS: Final = 5_000
"""The interval of heartbeats, and for how long, of a member that expects a
rebalance."""
_AT_ONCE: Final = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


class NodeGroup:
    """The coordinator of the group of nodes, in the upstream cluster."""

    def __init__(
        self, clock: Clock, rng: Random, transcript: Transcript, shard_count: int
    ) -> None:
        topics = Topics(rng)
        topics.create(TOPIC, shard_count)
        settings = Settings(
            group_initial_rebalance_delay_ms=rng.choice((0, 500)),
            group_min_session_timeout_ms=1_000,
        )
        self._clock = clock
        self._rng = rng
        self._environment = ServerEnvironment(clock, rng, settings, topics)
        self._disk: Disk = MemoryDisk()
        self.server: Server | None = None
        self.life = 0
        self._members_version: tuple[object, int] | None = None
        self._member_ids: frozenset[str] = frozenset()
        self.cut_off: set[str] = set()
        """The names of the nodes without a network to the cluster."""
        self.loses_join: set[str] = set()
        """The names of the nodes whose next JoinGroup request is lost."""
        self.repeats_join: dict[str, int] = {}
        """How much later the next JoinGroup request of a node arrives again, in ms, as
        after a lost connection."""
        self.late_answers: dict[str, int] = {}
        """The delay of the responses to a node, in ms."""
        self.network = Network(clock, rng, transcript, self)

    @property
    def is_up(self) -> bool:
        """Whether the coordinator accepts requests."""
        return self.server is not None

    def start(self) -> None:
        """Start the coordinator."""
        if self.server is None:
            self.life += 1
            self.server = Server(self._environment, self._disk, 1)

    def fail_over(self, down_ms: int) -> None:
        """Kill the coordinator; another one loads the group after `down_ms`."""
        if self.server is not None:
            self.server.loop.die()
            self.server = None
            self._disk = self._disk.reopen()
            self.network.cut()
            self._clock.after(down_ms, self.start)

    def settle(self) -> None:
        """Run the coordinator's immediate callbacks."""
        if self.server is not None:
            self.server.loop.settle()

    def serve(self, call: Call, answer: Respond) -> None:
        """Submit a request, unless its node is cut off."""
        assert self.server is not None
        if call.who in self.cut_off:
            return
        if isinstance(call.request, m.JoinGroupRequest) and call.who in self.loses_join:
            self.loses_join.discard(call.who)
            return
        if isinstance(call.request, m.JoinGroupRequest) and call.request.member_id:
            delay_ms = self.repeats_join.pop(call.who, None)
            if delay_ms is not None:
                self._clock.after(delay_ms, lambda: self._repeat(call))

        def respond(response: Any) -> None:
            if call.who not in self.cut_off:
                delay_ms = self.late_answers.get(call.who, 0)
                self._clock.after(delay_ms, lambda: answer(response))

        request, done = with_rows(call.request, call.caller.api_version, respond)
        self.server.runtime.submit(0, request, call.caller, done)

    def _repeat(self, call: Call) -> None:
        if self.server is not None:
            runtime = self.server.runtime
            runtime.submit(0, call.request, call.caller, lambda _: None)

    def member_ids(self) -> frozenset[str] | None:
        """Return the ids and the instance ids of the members, or None while the group
        is not loaded.
        """
        if self.server is None:
            return None
        partition = self.server.runtime.shards[0]
        if partition.phase is not Phase.ACTIVE:
            return None
        group = partition.shard.state.group(GROUP_ID)
        if not isinstance(group, ClassicGroup):
            return frozenset()
        if self._members_version != (partition.shard, partition.version):
            self._members_version = partition.shard, partition.version
            instances = [each.group_instance_id for each in group.members.values()]
            self._member_ids = frozenset(filter(None, instances)).union(group.members)
        return self._member_ids


@dataclass(frozen=True)
class MemberPlan:
    """The parameters of a process's member."""

    session_timeout_ms: int
    is_static: bool
    shard_count: int
    started_ms: int


class MemberEvents(NamedTuple):
    """The callbacks of a membership, as `gateway.membership.MembershipEvents`."""

    on_view: Callable[[View, frozenset[int]], None]
    on_lease: Callable[[int], None]
    on_lost: Callable[[], None]


class NodeMember:
    """A process's member of the group of nodes: what `gateway.membership` does with
    `ClassicMember`, without asyncio.
    """

    def __init__(
        self,
        info: NodeInfo,
        group: NodeGroup,
        loop: NodeLoop,
        clock_ms: Callable[[], int],
        events: MemberEvents,
        plan: MemberPlan,
    ) -> None:
        self.view = NO_VIEW
        self._info = info
        self._group = group
        self._loop = loop
        self._clock_ms = clock_ms
        self._events = events
        self._plan = plan
        self.instance_id = info.name if plan.is_static else None
        self.session = ClassicSession(
            plan.session_timeout_ms / 1000,
            self._heartbeat_answered,
        )
        self.assigned_generation = NO_GENERATION
        self._claim = NO_CLAIM
        self._join_number = 0
        self._heartbeat_ms: int | None = None
        self._is_renewing = False
        self._is_joining = False
        self._has_left = False
        self._end: Event | None = None
        self._next_beat: Event | None = None
        self._hurries_until_ms = 0

    @property
    def is_settled(self) -> bool:
        """Whether the member has the assignment of its generation."""
        generation = self.session.generation
        return (
            generation >= 0
            and generation == self.assigned_generation
            and not self._is_joining
        )

    def start(self) -> None:
        """Join the group and heartbeat until `leave`."""
        self._join()
        self._beat()

    def leave(self) -> None:
        """Leave the group for good."""
        self._has_left = True
        identity = m.MemberIdentity(
            member_id=self.session.member_id, group_instance_id=self.instance_id
        )
        request = m.LeaveGroupRequest(group_id=GROUP_ID, members=[identity])
        self._call(request, _LEAVE_VERSION, lambda _: None, lambda: None)
        self.session.end()

    # Rebalances.

    def rejoin(self) -> None:
        """Join again, unless the member is joining."""
        if not self._is_joining and not self._has_left:
            self._join()

    def _join(self) -> None:
        if self._has_left:
            return
        self._is_joining = True
        self.session.begin_join()
        metadata = self._metadata()
        request = m.JoinGroupRequest(
            group_id=GROUP_ID,
            session_timeout_ms=self._plan.session_timeout_ms,
            rebalance_timeout_ms=self._plan.session_timeout_ms,
            member_id=self.session.member_id,
            group_instance_id=self.instance_id,
            protocol_type=_PROTOCOL,
            protocols=[m.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
        )
        sent_s = self._seconds()

        def joined(response: m.JoinGroupResponse) -> None:
            if self._has_left:
                return
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.session.member_id = response.member_id
                self._join()
                return
            if response.error_code:
                self._refused(ErrorCode(response.error_code))
                return
            generation = response.generation_id
            self.session.joined(response.member_id, generation, sent_s)
            self._session_changed()
            self._sync(response)

        timeout_ms = self._plan.session_timeout_ms + _GRACE_MS
        self._call(request, _JOIN_VERSION, joined, self._failed, timeout_ms)

    def _sync(self, joined: m.JoinGroupResponse) -> None:
        assignments: Mapping[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            members = [
                JoinedMember(each.member_id, each.group_instance_id, each.metadata)
                for each in joined.members
            ]
            assigned = assign_nodes(members, self._plan.shard_count, self.view)
            assignments = {
                member_id: write_assignment(each)
                for member_id, each in assigned.items()
            }
        request = m.SyncGroupRequest(
            group_id=GROUP_ID,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.instance_id,
            protocol_type=_PROTOCOL,
            protocol_name=_PROTOCOL,
            assignments=[
                m.SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in assignments.items()
            ],
        )
        sent_s = self._seconds()

        def synced(response: m.SyncGroupResponse) -> None:
            if self._has_left:
                return
            if response.error_code:
                self._refused(ErrorCode(response.error_code))
                return
            is_current = self.session.generation == joined.generation_id
            self.session.synced(joined.generation_id, sent_s)
            self._session_changed()
            self._is_joining = False
            if not is_current:
                self._join()
                return
            self._assigned(response.assignment, joined.generation_id)

        timeout_ms = self._plan.session_timeout_ms + _GRACE_MS
        self._call(request, _SYNC_VERSION, synced, self._failed, timeout_ms)

    def _metadata(self) -> bytes:
        return write_metadata(
            NodeMetadata(
                info=self._info,
                started_ms=self._plan.started_ms,
                join=self._join_number,
                generation=self._claim.generation,
                shards=sorted(self._claim.shards),
                is_serving=self.assigned_generation >= 0,
            )
        )

    def _assigned(self, assignment: bytes, generation: int) -> None:
        read = read_assignment(assignment, generation)
        view = read.view
        shards = frozenset(view.shards_of(self._info.name))
        self.view = view
        self._claim = Claim(shards, generation)
        self.assigned_generation = generation
        self._events.on_view(view, shards)
        self._renew()
        if self._info not in view.nodes or read.has_to_release:
            self._join_number += 1
            self.rejoin()
        elif read.is_interim:
            self._expect_rebalance()

    def _refused(self, code: ErrorCode) -> None:
        had_session = self.session.generation >= 0
        self.session.join_failed(code)
        if had_session and self.session.generation < 0:
            self._lose()
        delay_ms = 0 if code in _AT_ONCE else _BACKOFF_MS
        self._later(delay_ms, self._join)

    def _failed(self) -> None:
        self.session.join_failed(None)
        self._later(_BACKOFF_MS, self._join)

    # Heartbeats.

    def _beat(self) -> None:
        self._next_beat = None
        if self._has_left:
            return
        generation = self.session.generation
        if generation < 0:
            self._beat_later(_BACKOFF_MS)
            return
        request = m.HeartbeatRequest(
            group_id=GROUP_ID,
            generation_id=generation,
            member_id=self.session.member_id,
            group_instance_id=self.instance_id,
        )
        sent_s = self._seconds()
        was_synced = self.session.is_synced

        def beaten(response: m.HeartbeatResponse) -> None:
            code = ErrorCode(response.error_code)
            effect = self.session.heartbeat_answered(
                code, generation, sent_s, was_synced=was_synced
            )
            self._session_changed()
            if effect is Effect.REJECTED:
                self.session.member_id = ""
            if self.session.generation < 0 and generation >= 0:
                self._lose()
                self.rejoin()
            elif self.session.is_rebalancing:
                self.rejoin()
            is_retried = effect is Effect.RETRY
            self._beat_later(_BACKOFF_MS if is_retried else self._interval_ms)

        self._call(
            request,
            _HEARTBEAT_VERSION,
            beaten,
            lambda: self._beat_later(_BACKOFF_MS),
            self._limit_ms,
        )

    @property
    def _limit_ms(self) -> int:
        return self._plan.session_timeout_ms // 3

    @property
    def _interval_ms(self) -> int:
        if self._clock_ms() < self._hurries_until_ms:
            return _SOON_MS
        return self._plan.session_timeout_ms // _HEARTBEATS

    def _beat_later(self, delay_ms: int) -> None:
        self._next_beat = self._later(delay_ms, self._beat)

    def _expect_rebalance(self) -> None:
        """Send heartbeats often for a time."""
        self._hurries_until_ms = self._clock_ms() + _EXPECTS_MS
        if self._next_beat is not None:
            self._next_beat.cancel()
            self._beat_later(_SOON_MS)

    # The lease.

    def _heartbeat_answered(self, sent_s: float) -> None:
        self._heartbeat_ms = int(sent_s * 1000)
        self._renew()

    def _renew(self) -> None:
        """Renew the lease with a commit, which shows that the coordinator that has
        answered a heartbeat is the group's.
        """
        generation = self.assigned_generation
        is_current = 0 <= generation == self.session.generation
        if not is_current or self._heartbeat_ms is None or self._is_renewing:
            return
        sent_ms, self._heartbeat_ms = self._heartbeat_ms, None
        self._is_renewing = True
        partition = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0
        )
        topic = m.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        request = m.OffsetCommitRequest(
            group_id=GROUP_ID,
            generation_id_or_member_epoch=generation,
            member_id=self.session.member_id,
            group_instance_id=self.instance_id,
            topics=[topic],
        )

        def renewed(response: m.OffsetCommitResponse) -> None:
            self._is_renewing = False
            code = response.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE and generation == self.assigned_generation:
                self._events.on_lease(sent_ms)
            self._renew()

        def failed() -> None:
            self._is_renewing = False
            self._renew()

        self._call(request, _COMMIT_VERSION, renewed, failed, self._limit_ms)

    # The session.

    def _session_changed(self) -> None:
        """Schedule the end of the session."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        ends_s = self.session.ends_s
        if ends_s is not None:
            delay_ms = max(0, round(ends_s * 1000) - self._clock_ms())
            self._end = self._later(delay_ms, self._session_over)

    def _session_over(self) -> None:
        self.session.end()
        self._lose()
        self.rejoin()

    def _lose(self) -> None:
        self.assigned_generation = NO_GENERATION
        self._heartbeat_ms = None
        self._events.on_lost()

    # The process.

    def _seconds(self) -> float:
        return self._clock_ms() / 1000

    def _later(self, delay_ms: int, callback: Callable[[], object]) -> Event:
        return self._loop.call_later(delay_ms / 1000, callback)

    def _call(
        self,
        request: Any,
        version: int,
        answered: Callable[[Any], object],
        failed: Callable[[], object],
        timeout_ms: int = 2_000,
    ) -> None:
        run = self._loop.run
        call = Call(
            self._info.name,
            GROUP_ID,
            request,
            Caller(version, self._info.name),
            lambda response: run(lambda: answered(response)),
            lambda: run(failed),
        )
        self._group.network.call(call, timeout_ms)
