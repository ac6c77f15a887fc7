"""The runtime of the coordinator's shards, and the only writer of their state.

For each request: call the handler, apply the volatile changes, replay the records,
stage them as one batch and set the timers. The response is sent when that batch and all
earlier writes of the shard are durable. A request that writes nothing waits for the
writes it may have read.

There are three kinds of failure. An ApiError is a response of the protocol. A failed
flush reloads from the log every shard that had records in it. Any other exception in a
shard is a bug: it is logged, the shard stops, and is reloaded too. Nothing is ever
undone in memory.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from coterie.broker.coordinator.offsets.accepted import AcceptedOffsets
from coterie.broker.coordinator.offsets.deletion import ExpireOffsets, TopicsDeleted
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.broker.coordinator.records import OffsetCommitKey
from coterie.broker.coordinator.result import (
    Context,
    CoordinatorEnvironment,
    Result,
    Ticket,
)
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.share.state_requests import (
    NO_TICKET,
    SHARE_STATE_REQUESTS,
    ShareStateChanged,
    ShareStateRequest,
)
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.batches import (
    apply_result,
    result_batch,
    split_result,
    stage_commit,
)
from coterie.broker.runtime.deferred import (
    Caller,
    DeferredResponses,
    Lease,
    PendingRequest,
    Respond,
)
from coterie.broker.runtime.durability import Durability
from coterie.broker.runtime.metrics import Metrics
from coterie.broker.runtime.rebalance_log import (
    RebalanceLog,
    groups_before,
    may_rebalance,
)
from coterie.broker.runtime.shards import (
    PHASE_ERRORS,
    CoordinatorPartition,
    Heartbeat,
    Loaded,
    Phase,
    Renew,
    ShardStore,
    partition_for,
    session_renewal,
)
from coterie.broker.runtime.system import Scheduler, Timekeeping
from coterie.broker.runtime.timers import Timers, TimerTable
from coterie.errors import ApiError, LogError, LogFull
from coterie.types import OFFSETS_TOPIC, GroupId, LogOffset, ProducerId
from coterie.wire import messages as m
from coterie.wire.commit import Response
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import encode_marker, read_header

_LOGGER = logging.getLogger(__name__)
RETRY_S: Final = 5.0
"""The delay before a shard that could not be loaded is loaded again."""
_ACTIVE: Final = Phase.ACTIVE
_HEARTBEATS: Final = frozenset(
    {
        m.HeartbeatRequest,
        m.ConsumerGroupHeartbeatRequest,
        m.ShareGroupHeartbeatRequest,
    }
)
_IN_BATCHES: Final = (ExpireOffsets, TopicsDeleted)
"""Events whose results may have any number of independent tombstones."""


ChangeShareState: TypeAlias = Callable[
    [ShareStateRequest, Callable[[ErrorCode], None]], None
]
"""A function that changes the state of share partitions. It calls its second argument
once, with NONE when the change is durable, or with an error."""


class Runtime:
    """The shards of a process, their requests, events and failures.

    Retries and the timeouts of writes wait in `scheduler`. Once `lease` returns False,
    no request is handled, no response that depends on a write is sent, and no timer
    fires; without it the process serves its shards forever. `make_shard` returns an
    empty shard; tests replace it.
    """

    def __init__(
        self,
        environment: CoordinatorEnvironment,
        *,
        scheduler: Scheduler,
        timekeeping: Timekeeping,
        lease: Lease | None = None,
    ) -> None:
        self._environment = environment
        self._settings = environment.settings
        self._scheduler = scheduler
        self._clock = timekeeping.steady
        self._timers = Timers(timekeeping.scheduler, timekeeping.steady)
        self.lease = lease
        self._deferred: dict[Durability, DeferredResponses] = {}
        self.make_shard: Callable[[], Shard] = lambda: Shard(environment.settings)
        # An empty shard encodes errors for requests that no shard handles.
        self._error_shard = Shard(environment.settings)
        self.metrics: Metrics | None = None
        """The counters to update with every result that writes; None without them."""
        self.reloads = 0
        """The number of times a stopped shard was loaded again."""
        self.recover: Callable[[int], None] | None = None
        """The callback that releases and assigns a stopped shard again; without it, the
        shard is loaded again from its store."""
        self.share_state: ChangeShareState | None = None
        """The store of the state of share partitions; without it, a group's partitions
        count as initialized, or deleted, at once."""
        self.rebalances = RebalanceLog()
        self._growth_listeners: list[Callable[[LogPartition, int], None]] = []
        self._is_stopped = False
        self._ticket = 0
        self.shards: list[CoordinatorPartition] = []

    def on_growth(self, listener: Callable[[LogPartition, int], None]) -> None:
        """Call `listener` when bytes have become durable, with their number."""
        self._growth_listeners.append(listener)

    def start(self, shard_count: int, topic: str = OFFSETS_TOPIC) -> None:
        """Create the shards; none is assigned yet. Log lines name `topic`."""
        assert not self.shards
        for index in range(shard_count):
            self._add_shard(index, f"{topic}-{index}")

    def _add_shard(self, index: int, name: str) -> None:
        def fire(request: Any) -> None:
            self._handle_event(partition, request)

        timers = TimerTable(self._timers, fire)
        partition = CoordinatorPartition(index, name, self.make_shard(), timers)
        self.shards.append(partition)

    def assign(self, index: int, store: ShardStore) -> None:
        """Load a shard from its store, and then serve it."""
        partition = self.shards[index]
        assert partition.phase is Phase.UNASSIGNED
        partition.store = store
        partition.log_partition = store.log_partition
        partition.log = store.log
        partition.flusher = store.flusher
        partition.deferred = self._deferred_by(store.flusher)
        partition.reset(self.make_shard(), Phase.LOADING)
        self._load(partition)

    def release(self, index: int) -> None:
        """Stop serving a shard at once: all its pending requests get NOT_COORDINATOR,
        also those that wait for a write. The shard's flusher may not be shared."""
        partition = self.shards[index]
        if partition.phase is Phase.UNASSIGNED:
            return
        self._stop(partition)
        partition.reset(self.make_shard(), Phase.UNASSIGNED)
        partition.events.clear()
        del self._deferred[partition.flusher]
        partition.deferred.fail_all(LogError(f"{partition.name} was released"))

    def _deferred_by(self, flusher: Durability) -> DeferredResponses:
        """Return the responses that wait for a flusher."""
        deferred = self._deferred.get(flusher)
        if deferred is None:
            deferred = self._deferred[flusher] = DeferredResponses(
                flusher,
                self._scheduler,
                timeout_ms=self._settings.offsets_commit_timeout_ms,
                fail=self._fail_unwritten,
                growth_listeners=self._growth_listeners,
                lease=self.lease,
            )
            flusher.on_failure(lambda _: self._flush_failed(flusher))
        return deferred

    def shard_of(self, group_id: GroupId) -> int:
        """Return the index of a group's shard."""
        count = len(self.shards) or self._settings.offsets_topic_num_partitions
        return partition_for(group_id, count)

    # Requests.

    def submit(
        self, index: int, request: Any, caller: Caller, respond: Respond
    ) -> None:
        """Handle a request in a shard; `respond` is called once, now or later.

        While the shard is loading, the response is COORDINATOR_LOAD_IN_PROGRESS, but a
        classic heartbeat succeeds. From a stopped or unassigned shard, and
        after the end of the lease, it is NOT_COORDINATOR, and before `start`
        COORDINATOR_NOT_AVAILABLE.
        """
        self._ticket += 1
        context = self.context_of(caller, self._ticket)
        pending = PendingRequest(request, context, respond)
        if not self.shards:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            respond(self._error_shard.refuse(request, context, code))
            return
        partition = self.shards[index]
        if partition.phase is not _ACTIVE or (self.lease and not self.lease()):
            code = PHASE_ERRORS.get(partition.phase, ErrorCode.NOT_COORDINATOR)
            if partition.phase is Phase.LOADING and partition.store.prioritize:
                partition.store.prioritize(partition)
            respond(self._error_shard.refuse(request, context, code))
            return
        try:
            result = self._handle(partition, request, context)
            if result.response is None:
                partition.pending[context.ticket] = pending
            replies = self._apply_and_observe(
                partition, request, result, context.now_ms
            )
        except ApiError as error:
            partition.pending.pop(context.ticket, None)
            response = partition.shard.refuse(
                request, context, error.code, error.message
            )
            self.respond(partition, pending, response)
            return
        except Exception:
            partition.pending.pop(context.ticket, None)
            self.stop_after_bug(partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            respond(partition.shard.refuse(request, context, code))
            return
        if result.response is not None:
            self.respond(partition, pending, result.response)
        for waiting, reply in replies:
            self.respond(partition, waiting, reply)

    def _handle(
        self, partition: CoordinatorPartition, request: Any, context: Context
    ) -> Result:
        """Return a shard's result; nothing has changed when it raises ApiError."""
        try:
            return partition.handle(request, context)
        except LogError as error:  # the stored offsets of a group cannot be read
            _LOGGER.error("%s: a request failed: %s", partition.name, error)
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    def refusal(
        self, request: Any, caller: Caller, code: ErrorCode, message: str | None = None
    ) -> Response:
        """Return the error response to a request that no shard handles."""
        context = self.context_of(caller)
        return self._error_shard.refuse(request, context, code, message)

    def readable_shard(self, index: int) -> CoordinatorPartition | None:
        """Return a shard if it is loaded. What was read has to wait for its writes."""
        if not self.shards:
            return None
        partition = self.shards[index]
        return partition if self._is_serving(partition) else None

    def session_renewal(self, request: Heartbeat) -> Renew | None:
        """Return a function that renews the session as a repetition of this heartbeat
        would. None when a repetition may have other effects.
        """
        assert self.shards, "heartbeats are stored after start only"
        partition = self.shards[self.shard_of(request.group_id)]
        if not self._is_serving(partition):
            return None
        return session_renewal(
            partition, request, self._environment.configs, self.lease
        )

    def _is_serving(self, partition: CoordinatorPartition) -> bool:
        return partition.phase is _ACTIVE and (not self.lease or self.lease())

    def context_of(self, caller: Caller, ticket: Ticket = 0) -> Context:
        """Return the context of a request now."""
        return Context(
            self._environment,
            self._clock(),
            ticket,
            caller.api_version,
            caller.client_id,
            caller.client_host,
            caller.may_describe,
        )

    # Events.

    def broadcast(self, event: Any) -> None:
        """Handle an event, such as a topic's deletion, in every shard.

        A shard that is loading or stopped handles it once it is loaded.
        """
        for partition in self.shards:
            self._handle_when_active(partition, event)

    def _handle_when_active(self, partition: CoordinatorPartition, event: Any) -> None:
        if partition.phase is _ACTIVE:
            self._handle_event(partition, event)
        elif partition.phase is not Phase.UNASSIGNED:
            partition.events.append(event)

    def end_transaction(
        self, shard: int, producer_id: ProducerId, producer_epoch: int, commit: bool
    ) -> None:
        """Stage the marker that ends a transaction in a shard, and replay it.

        A shard that is loading reads the marker from the log.
        """
        partition = self.shards[shard]
        offset = partition.log.bounds(partition.log_partition).next_offset
        self.replay_marker(shard, producer_id, producer_epoch, commit, offset)
        now_ms = self._clock()
        ends = encode_marker(offset, now_ms, producer_id, producer_epoch, commit=commit)
        self._append(partition, ends)

    def replay_marker(
        self,
        shard: int,
        producer_id: ProducerId,
        producer_epoch: int,
        commit: bool,
        log_offset: LogOffset,
    ) -> None:
        """Replay a marker that is in the shard's log, unless the shard is loading."""
        partition = self.shards[shard]
        if partition.phase is not _ACTIVE:
            return
        try:
            partition.shard.replay_marker(
                producer_id, producer_epoch, commit=commit, log_offset=log_offset
            )
        except Exception:
            self.stop_after_bug(partition)

    def _handle_event(self, partition: CoordinatorPartition, event: Any) -> None:
        """Handle a timer or another event, which has no response."""
        if not self._is_serving(partition):
            return
        if isinstance(event, SHARE_STATE_REQUESTS):
            self._change_share_state(partition, event)
            return
        context = self._event_context()
        try:
            result = partition.handle(event, context)
            in_batches = type(event) in _IN_BATCHES
            for part in split_result(result) if in_batches else (result,):
                self._apply_and_reply(partition, event, part, context.now_ms)
        except ApiError as error:
            _LOGGER.warning("%s: %r was refused: %s", partition.name, event, error)
        except Exception:
            self.stop_after_bug(partition)

    def _change_share_state(
        self, partition: CoordinatorPartition, request: ShareStateRequest
    ) -> None:
        """Send a request of a share group to the store, and its result to the shard.

        The request that waits for it has failed if the shard was loaded again
        meanwhile.
        """
        shard = partition.shard

        def changed(code: ErrorCode) -> None:
            known = request
            if partition.shard is not shard:
                known = request._replace(ticket=NO_TICKET)
            self._handle_when_active(partition, ShareStateChanged(known, code))

        if self.share_state is None:
            changed(ErrorCode.NONE)
        else:
            self.share_state(request, changed)

    def _event_context(self) -> Context:
        assert not self._is_stopped, "no event is handled after stop"
        self._ticket += 1
        return Context(self._environment, self._clock(), self._ticket)

    def _apply_and_reply(
        self, partition: CoordinatorPartition, event: Any, result: Result, now_ms: int
    ) -> None:
        replies = self._apply_and_observe(partition, event, result, now_ms)
        for pending, reply in replies:
            self.respond(partition, pending, reply)

    # Results.

    def _apply_and_observe(
        self, partition: CoordinatorPartition, request: Any, result: Result, now_ms: int
    ) -> Sequence[tuple[PendingRequest, Response]]:
        """Apply a result as `_apply` does; count it and log rebalances."""
        has_records = result.commit is not None or bool(result.records)
        if not (has_records or result.changes):
            return self._apply(partition, result, now_ms)
        state = partition.shard.state
        before = groups_before(state, result) if may_rebalance(result) else None
        replies = self._apply(partition, result, now_ms)
        if before is not None:
            self.rebalances.observe(state, request, result, before, now_ms)
        if self.metrics is not None and has_records:
            self.metrics.count(state, request, result, now_ms)
        return replies

    def _apply(
        self, partition: CoordinatorPartition, result: Result, now_ms: int
    ) -> Sequence[tuple[PendingRequest, Response]]:
        """Apply a result; return the pending requests it completes, with responses.

        Raises ApiError as `_write` does. Any other exception is a bug.
        """
        if result.commit is not None:
            self._write_commit(partition, result, result.commit, now_ms)
        elif result.records:
            self._write(partition, result, now_ms)
        elif result.changes:
            partition.version += 1
            partition.shard.apply(result)
        for timer in result.timers:
            partition.timers.change(timer)
        if not result.replies:
            return ()
        pop = partition.pending.pop
        return [(pop(reply.ticket), reply.response) for reply in result.replies]

    def respond(
        self,
        partition: CoordinatorPartition,
        pending: PendingRequest,
        response: Response,
    ) -> None:
        """Respond once all writes of the shard are durable that the response may depend
        on. The heartbeat of a member depends on groups, and does not wait for
        commits."""
        sequence = partition.written_sequence
        if type(pending.request) in _HEARTBEATS:
            heartbeat: Any = response
            if not heartbeat.error_code:
                sequence = partition.group_sequence
        if sequence <= partition.flusher.durable_sequence:
            pending.respond(response)
        else:
            partition.deferred.defer(sequence, pending, response)

    def _write_commit(
        self,
        partition: CoordinatorPartition,
        result: Result,
        commit: AcceptedOffsets,
        now_ms: int,
    ) -> None:
        """Replay the records of a commit and stage them. Raises as `_write` does."""
        assert not result.records
        if commit.producer.producer_id >= 0:
            self._write(partition, result, now_ms)
            return
        size_bytes = stage_commit(
            partition.shard,
            partition.log,
            partition.log_partition,
            commit,
            now_ms,
            self._settings.message_max_bytes,
        )
        if not size_bytes:
            raise self._too_large(partition)
        partition.written_sequence = partition.deferred.staged(
            partition.log_partition, size_bytes
        )
        partition.records_since_snapshot += commit.record_count

    def _too_large(self, partition: CoordinatorPartition) -> ApiError:
        _LOGGER.error(
            "%s: a batch is over message.max.bytes (%d)",
            partition.name,
            self._settings.message_max_bytes,
        )
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _write(
        self, partition: CoordinatorPartition, result: Result, now_ms: int
    ) -> None:
        """Apply the changes, replay the records and stage them as one batch.

        Raises ApiError, before anything has changed, when the batch is too large.
        """
        offset = partition.log.bounds(partition.log_partition).next_offset
        batch = result_batch(result, offset, now_ms)
        if len(batch) > self._settings.message_max_bytes:
            raise self._too_large(partition)
        may_change_groups = bool(result.changes)
        if result.records:
            last = result.records[-1].key  # handlers put offset commits first
            may_change_groups |= type(last) is not OffsetCommitKey
        partition.version += may_change_groups
        apply_result(partition.shard, result, offset, now_ms)
        self._append(partition, batch)
        if may_change_groups:
            partition.group_sequence = partition.written_sequence

    def replay(
        self,
        partition: CoordinatorPartition,
        result: Result,
        offset: LogOffset,
        now_ms: int,
    ) -> None:
        """Apply a result whose records are in the log from `offset` on."""
        partition.version += 1
        apply_result(partition.shard, result, offset, now_ms)
        if result.commit is not None:
            partition.records_since_snapshot += result.commit.record_count
        partition.records_since_snapshot += len(result.records)
        others = result._replace(records=(), changes=(), commit=None)
        self._apply(partition, others, now_ms)

    def _append(self, partition: CoordinatorPartition, batch: bytes) -> None:
        header = read_header(batch)
        partition.log.append(partition.log_partition, batch, header)
        partition.written_sequence = partition.deferred.staged(
            partition.log_partition, len(batch)
        )
        partition.records_since_snapshot += header.record_count

    # Loading and failures.

    def _load(self, partition: CoordinatorPartition) -> None:
        shard = partition.shard

        def unless_replaced(callback: Loaded) -> Loaded:
            # The shard may be released, and even assigned again, while it loads.
            return lambda _: callback(partition) if partition.shard is shard else None

        partition.store.load(
            partition,
            unless_replaced(self._activate),
            unless_replaced(self._loading_failed),
        )

    def _activate(self, partition: CoordinatorPartition) -> None:
        """Serve requests with a shard that is loaded up to the end of its log."""
        assert partition.phase is Phase.LOADING
        bounds = partition.log.bounds(partition.log_partition)
        assert bounds.next_offset == bounds.flushed_offset
        partition.phase = Phase.ACTIVE
        try:
            context = self._event_context()
            result = partition.shard.after_load(context)
            for pending, reply in self._apply(partition, result, context.now_ms):
                self.respond(partition, pending, reply)
        except Exception:
            self.stop_after_bug(partition)
        events, partition.events = partition.events, []
        for event in events:
            self._handle_event(partition, event)

    def reload_shard(self, index: int) -> None:
        """Load an active shard again and fail pending requests with NOT_COORDINATOR."""
        partition = self.shards[index]
        if partition.phase is _ACTIVE:
            self._stop(partition)
            partition.flusher.when_durable(lambda _: self._reload(partition))

    def _loading_failed(self, partition: CoordinatorPartition) -> None:
        self._stop(partition)
        if self.recover is not None:
            self.recover(partition.index)
            return
        self._scheduler.call_later(RETRY_S, lambda: self._reload(partition))

    def stop(self) -> None:
        """Stop firing timers and handling requests."""
        self._is_stopped = True
        self._timers.stop()
        for partition in self.shards:
            self._stop(partition)

    def _flush_failed(self, flusher: Durability) -> None:
        durable = flusher.durable_sequence
        for partition in self.shards:
            if partition.written_sequence > durable and partition.flusher is flusher:
                self._stop(partition)
                self._reload(partition)

    def stop_after_bug(self, partition: CoordinatorPartition) -> None:
        error = sys.exception()
        if isinstance(error, LogError):
            _LOGGER.error("%s stops and is loaded again: %s", partition.name, error)
        else:
            _LOGGER.exception(
                "%s: a bug; the shard stops and is loaded from the log again",
                partition.name,
            )
        self._stop(partition)
        partition.flusher.when_durable(lambda _: self._reload(partition))

    def _stop(self, partition: CoordinatorPartition) -> None:
        """Remove the shard's timers and fail its pending requests."""
        if partition.phase in {Phase.STOPPED, Phase.UNASSIGNED}:
            return
        partition.phase = Phase.STOPPED
        partition.version += 1
        partition.timers.clear()
        requests, partition.pending = partition.pending, {}
        for request, context, respond in requests.values():
            code = ErrorCode.NOT_COORDINATOR
            respond(partition.shard.refuse(request, context, code))

    def _reload(self, partition: CoordinatorPartition) -> None:
        if partition.phase is Phase.STOPPED and not self._is_stopped:
            self.reloads += 1
            if self.recover is not None:
                self.recover(partition.index)
                return
            partition.reset(self.make_shard(), Phase.LOADING)
            self._load(partition)

    def _fail_unwritten(
        self, pending: PendingRequest, error: LogError | TimeoutError
    ) -> None:
        """Respond with an error, as a write it depends on failed."""
        request, context, respond = pending
        code = ErrorCode.NOT_COORDINATOR
        is_fetch = isinstance(request, FetchOffsets)
        if isinstance(error, LogFull | TimeoutError) and not is_fetch:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        respond(self._error_shard.refuse(request, context, code, str(error)))
