"""The invariants of a world with several nodes.

What the clients of one server may rely on holds over all nodes: the shared ledger of
commits, the partitions of members, epochs and states are checked as for one server,
against the state of the node whose barrier is the newest durable one in upstream's
log. Of the other nodes it is checked that

- no response from a shard's state is sent by a node that was not the newest one to
  serve it when it handled the request;
- no response from state is sent by a node that upstream has removed from the group of
  nodes: its lease must have ended before;
- no commit is acknowledged that was handled after a newer node's barrier;
- a node that begins to serve has all acknowledged commits;
- offsets of a transaction are committed at its marker, and pending until then also
  after a takeover; a transaction that has markers ends in the state, too;
- a replay of upstream's log, without what fenced producers wrote, gives the state.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from coterie.broker.runtime.shards import CoordinatorPartition, Phase
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.broken import Broken, BugRecorder
from sim.checker import Checker, with_rows
from sim.gateway.coordinator import AppTransaction
from sim.gateway.history import History
from sim.gateway.network import error_codes, is_from_state
from sim.gateway.replays import Replays
from sim.members.member import Member
from sim.network import Call
from sim.server import ServerEnvironment
from sim.transactions import Transaction

if TYPE_CHECKING:
    from sim.gateway.node import Process
    from sim.gateway.upstream import Cluster

_UNCERTAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""The errors of a commit that may be in the log: its node may have lost the shard while
it was being written, and its topic may have been deleted meanwhile."""
_NEVER: Final = -1


class GatewayChecker(Checker):
    """A checker of all invariants of a world with several nodes."""

    def __init__(
        self,
        environment: ServerEnvironment,
        recorder: BugRecorder,
        ended: Callable[[Member], None],
        cluster: Cluster,
        foreign_shard: int | None,
        rng: Random,
    ) -> None:
        super().__init__(environment, recorder, ended)
        self.ledger.uncertain = _UNCERTAIN
        self.ledger.transactions_are_upstream = True
        self._cluster = cluster
        self._foreign_shard = foreign_shard
        self._newest_serving = [_NEVER] * cluster.partition_count
        """The order of the newest producer whose node has served, by shard."""
        self.takeovers = 0
        self.logs = Replays(cluster, rng)
        self.history = History(environment.topics, _UNCERTAIN)

    # Requests.

    def serve_at(
        self,
        process: Process,
        call: Call,
        answer: Callable[[Any], None],
        transaction: Transaction | None = None,
    ) -> None:
        """Submit a request to a node, and check its effects."""
        runtime = process.runtime
        index = runtime.shard_of(call.group_id)
        partition = runtime.shards[index]
        was_active = partition.phase is Phase.ACTIVE
        order = process.order(index)
        is_stale = order < self._newest_serving[index]
        answer = self.history.watch(call.request, answer)
        is_fenced = order < self._cluster.newest_durable(index)

        process.unanswered[call] = partition.shard

        def answered(response: Any) -> None:
            process.unanswered.pop(call, None)
            is_unloaded = (
                isinstance(call.request, m.HeartbeatRequest) and not was_active
            )
            if is_from_state(response) and not is_unloaded:
                self._check_response(process, call, response, is_stale=is_stale)
            answer(response)

        if was_active and not is_fenced:
            self.serve(process, call, answered, transaction)
            return

        def refused(response: Any) -> None:
            if hasattr(response, "topics") and not error_codes(response):
                self._check_unrecorded(process, call)
            answered(response)

        request, respond = with_rows(call.request, call.caller.api_version, refused)
        runtime.submit(index, request, call.caller, respond)
        self.check_changes(process)

    def serve_in_transaction(
        self,
        process: Process,
        call: Call,
        answer: Callable[[Any], None],
        transaction: AppTransaction,
    ) -> None:
        """Submit a TxnOffsetCommit to a node, which writes it later."""
        index = process.runtime.shard_of(call.group_id)
        watched = self.ledger.handled(None, call.request, transaction)
        answer = self.history.watch(call.request, answer, transaction, index)
        process.committing.add((transaction, call))

        def answered(response: Any) -> None:
            process.committing.discard((transaction, call))
            watched(response)
            if not error_codes(response):
                is_stale = process.order(index) < self._newest_serving[index]
                self._check_response(process, call, response, is_stale=is_stale)
                self._compare_log(process, process.runtime.shards[index])
            answer(response)

        request, respond = with_rows(call.request, call.caller.api_version, answered)
        process.submit_transactional(request, call.caller, respond)
        self.check_changes(process)

    def _check_response(
        self, process: Process, call: Call, response: Any, *, is_stale: bool
    ) -> None:
        name = type(response).__name__
        if is_stale:
            raise Broken(
                f"{process.name} answers with {name} to {call.who} from the state of a "
                "shard that a newer node serves"
            )
        if process.is_removed:
            raise Broken(
                f"{process.name} answers with {name} to {call.who}, and upstream has "
                "removed it from the group of nodes"
            )

    def _check_unrecorded(self, process: Process, call: Call) -> None:
        if "Commit" in type(call.request).__name__:
            raise Broken(
                f"{process.name} acknowledges a commit of {call.who} that it handled "
                "after a newer node's barrier"
            )

    # States.

    def check_changes(self, server: Any, cause: Any = None) -> None:
        """Check what has changed in a process since the last check."""
        process: Process = server
        self._recorder.check()
        self._check_unanswered(process)
        for partition in process.runtime.shards:
            if partition.phase is not Phase.ACTIVE:
                continue
            order = process.order(partition.index)
            newest_durable = self._cluster.newest_durable(partition.index)
            if order > self._newest_serving[partition.index]:
                self._check_begin(process, partition, order, newest_durable)
            if order == newest_durable:
                self._check_shard(process, partition, cause)
                self._find_ended(process, partition)

    def _find_ended(self, process: Process, partition: CoordinatorPartition) -> None:
        """Note the transactions whose markers a shard has replayed."""
        coordinator, index = self._cluster.transactions, partition.index
        committing = {each for each, _ in process.committing}
        pending = partition.shard.state.offsets.pending.transactions
        for each in coordinator.transactions:
            if (
                index in each.shards
                and each.is_marked(index)
                and each not in committing
                and each.producer_id not in pending
            ):
                each.shards.discard(index)
                self.history.transaction_ended(each, index)
        coordinator.forget_ended()

    def _check_unanswered(self, process: Process) -> None:
        """Raise Broken when a request is still pending in a shard that the process has
        released.
        """
        if not process.unanswered:
            return
        served = {partition.shard for partition in process.runtime.shards}
        for call, shard in process.unanswered.items():
            if shard not in served:
                raise Broken(
                    f"{process.name} has released a shard and does not answer "
                    f"{call.who}"
                )

    def _check_begin(
        self,
        process: Process,
        partition: CoordinatorPartition,
        order: int,
        newest_durable: int,
    ) -> None:
        """Check a node that begins to serve a shard."""
        self.takeovers += 1
        self._newest_serving[partition.index] = order
        if partition.index == self._foreign_shard:
            raise Broken(f"{process.name} serves a shard of another cluster")
        if order > newest_durable:
            raise Broken(
                f"{process.name} serves shard {partition.index} before its barrier is "
                "durable"
            )
        if order == newest_durable:
            self._check_commits(partition)
            self._compare_log(process, partition)

    def _check_commits(self, partition: CoordinatorPartition) -> None:
        state = partition.shard.state
        for group_id in {**state.classic_groups, **state.consumer_groups}:
            self.ledger.check(group_id, state)
        for group_id in self.ledger.group_ids():
            if self._is_of(partition, group_id):
                self.ledger.check(group_id, state)

    def _is_of(self, partition: CoordinatorPartition, group_id: str) -> bool:
        return self._cluster.shard_of(group_id) == partition.index

    def _fires_timers(self, server: Any) -> bool:
        process: Process = server
        return process.has_lease and not process.loop.is_resuming

    def _compare_log(self, process: Process, partition: CoordinatorPartition) -> None:
        self.replays += self.logs.compare(process, partition)

    def compare(self, server: Any, rng: Random) -> None:
        """Compare replays of upstream's log with the states of a process."""
        process: Process = server
        for partition in process.runtime.shards:
            self._compare_log(process, partition)
            is_newest = process.order(partition.index) == self._cluster.newest_durable(
                partition.index
            )
            if (
                partition.phase is Phase.ACTIVE
                and process.is_quiet(partition)
                and is_newest
            ):
                self._check_commits(partition)
