"""The invariants of a world. Checked after each step: the state is consistent
(invariants.py); epochs do not decrease; no member is removed too early, or
stays although it does not revoke; the server logs no bug. Checked with each request:
the owned partitions of members (ownership.py), their commits (commits.py), and the
responses of the heartbeat memo (memo.py). Checked from time to time and at the end:
a replay of the log gives the live state, even after compaction (durability.py), and
acknowledged commits can be fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from traceback import extract_tb
from typing import Any, Protocol

from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.broker.coordinator.state import State
from coterie.broker.runtime.deferred import Respond
from coterie.broker.runtime.shards import CoordinatorPartition, Phase
from coterie.types import GroupId, TopicName
from coterie.wire import messages as m
from coterie.wire.commit import as_received, decoded
from sim import invariants
from sim.broken import Broken, BugRecorder
from sim.commits import Ledger
from sim.durability import check_same, compacted, read_log, replayed
from sim.epochs import EpochSnapshot, check_order, seen
from sim.members.member import Member
from sim.memo import Memos, MemoServer
from sim.network import Call
from sim.ownership import Ownership, is_sign_of_life
from sim.server import Server, ServerEnvironment
from sim.transactions import Transaction


def _ignore(response: object) -> None: ...


class _Shard:
    """The epochs in the last checked state of a shard and in its last durable state."""

    def __init__(self) -> None:
        self.shard: object = None
        self.version = -1
        self.live: dict[GroupId, EpochSnapshot] = {}
        self.durable: dict[GroupId, EpochSnapshot] = {}

    def forget(self, group_id: GroupId) -> None:
        """Drop a group that may be deleted before the next check."""
        kept = self.durable.items()
        self.durable = {each: epochs for each, epochs in kept if each != group_id}


class CheckedServer(MemoServer, Protocol):
    """A server process, or a process of a gateway node."""

    def is_quiet(self, partition: CoordinatorPartition) -> bool:
        """Return whether all records of the shard are durable."""


class Checker:
    """A checker of all invariants of a world, which raises Broken."""

    def __init__(
        self,
        environment: ServerEnvironment,
        recorder: BugRecorder,
        ended: Callable[[Member], None],
    ) -> None:
        self._environment = environment
        self._recorder = recorder
        self._ended = ended
        self.ledger = Ledger(environment.topics)
        self._ownership = Ownership(
            environment.clock, environment.topics, environment.configs
        )
        self._shards: dict[int, _Shard] = {}
        self._memos: dict[MemoServer, Memos] = {}
        self.replays = 0

    # Callbacks of members.

    def partitions_adopted(self, member: Member, parts: Collection[Any]) -> None:
        """Record that a member starts to consume partitions."""
        self._ownership.partitions_adopted(member, parts)

    def ended(self, member: Member) -> None:
        """Record that a member's process ended."""
        self._ownership.ended(member)
        self._ended(member)

    # Requests to the server.

    def serve(
        self,
        server: CheckedServer,
        call: Call,
        answer: Respond,
        transaction: Transaction | None = None,
    ) -> None:
        """Submit a request to the server, and check its effects."""
        request = call.request
        partition = server.runtime.shards[server.runtime.shard_of(call.group_id)]
        state = partition.shard.state if partition.phase is Phase.ACTIVE else None
        watched: Callable[[Any], object] = _ignore
        if state is not None:
            self._ownership.request_received(request)
        if isinstance(request, m.OffsetCommitRequest | m.TxnOffsetCommitRequest):
            watched = self.ledger.handled(state, request, transaction)
        elif isinstance(request, m.OffsetDeleteRequest):
            watched = self.ledger.deleted(request)
        elif isinstance(request, FetchOffsets):
            watched = self.ledger.fetched(request)
        elif isinstance(request, DeleteGroup) and partition.index in self._shards:
            self.ledger.forget(request.group_id, None)
            self._shards[partition.index].forget(request.group_id)
        elif is_sign_of_life(request):
            watched = self._heartbeat_watcher(request)

        at_once: list[Any] = []

        def answered(response: Any) -> None:
            at_once.append(response)
            watched(response)
            answer(response)

        compare = self._memos_of(server).watch(call, partition)
        submitted, respond = with_rows(request, call.caller.api_version, answered)
        server.runtime.submit(partition.index, submitted, call.caller, respond)
        compare(at_once[0] if at_once else None)
        self.check_changes(server, request)

    def _memos_of(self, server: MemoServer) -> Memos:
        memos = self._memos.get(server)
        if memos is None:
            memos = self._memos[server] = Memos(server)
        return memos

    def _heartbeat_watcher(
        self, request: m.ConsumerGroupHeartbeatRequest
    ) -> Callable[[Any], None]:
        accepted = self._ownership.heartbeat_received(request)

        def answered(response: Any) -> None:
            if response.error_code == 0:
                accepted()

        return answered

    def check_changes(self, server: CheckedServer, cause: Any = None) -> None:
        """Check what has changed since the last check."""
        self._recorder.check()
        for partition in server.runtime.shards:
            if partition.phase is Phase.ACTIVE:
                self._check_shard(server, partition, cause)

    def _check_shard(
        self, server: CheckedServer, partition: CoordinatorPartition, cause: Any
    ) -> None:
        known = self._shards.setdefault(partition.index, _Shard())
        state = partition.shard.state
        if known.shard is not partition.shard:
            known.shard, known.version = partition.shard, -1
            groups = {
                **state.classic_groups,
                **state.consumer_groups,
                **known.live,
            }
            known.live = known.durable
            self._ownership.reloaded(groups, self._environment.clock.now_ms)
        if known.version != partition.version:
            known.version = partition.version
            self._check(known, state, cause)
        if self._fires_timers(server):
            self._ownership.check_overdue(state, self._environment.clock.now_ms)
        if server.is_quiet(partition):
            known.durable = known.live

    def _fires_timers(self, server: CheckedServer) -> bool:
        """Return whether all due timers of the server have fired."""
        return True

    def _check(self, known: _Shard, state: State, cause: Any) -> None:
        try:
            invariants.check(state)
        except AssertionError as error:
            *_, frame = extract_tb(error.__traceback__)
            what = f"{error}" or frame.line
            raise Broken(f"the state is inconsistent: {what}") from error
        now = seen(state)
        check_order(known.live, now)
        known.live = now
        self._ownership.state_changed(state, cause, self._environment.clock.now_ms)

    def forget_offsets(
        self, *, group_id: GroupId | None = None, topic: TopicName | None = None
    ) -> None:
        """Record that offsets are being deleted, with their group or topic."""
        self.ledger.forget(group_id, topic)

    # Occasional checks.

    def compare(self, server: Server, rng: Random) -> None:
        """Compare a replay of the log with the live state, and commits with fetched
        offsets.
        """
        for partition in server.runtime.shards:
            if partition.phase is not Phase.ACTIVE or not server.is_quiet(partition):
                continue
            self.replays += 1
            live = partition.shard.state
            entries = read_log(server.disk, partition.log_partition)
            settings = server.settings
            check_same(live, replayed(entries, settings), "the log")
            less = compacted(entries, rng)
            check_same(live, replayed(less, settings), "the compacted log")
            for group_id in {**live.classic_groups, **live.consumer_groups}:
                self.ledger.check(group_id, live)


def with_rows(request: Any, version: int, respond: Respond) -> tuple[Any, Respond]:
    """Return a commit as the server decodes it, and the callback for a response that
    has encoded arrays.
    """
    if isinstance(request, FetchOffsets):
        return request, lambda response: respond(_fetched(response, version))
    received = as_received(request, version)
    if received is request:
        return request, respond
    return received, lambda response: respond(decoded(response, version))


def _fetched(group: Any, version: int) -> m.OffsetFetchResponseGroup:
    """Return the response to a fetch with decoded partitions."""
    response: m.OffsetFetchResponse = decoded(
        m.OffsetFetchResponse(groups=[group]), version
    )
    return response.groups[0]
