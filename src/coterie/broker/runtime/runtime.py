"""The runtime of the coordinator's shards, and the only writer of their state.

For each request: call the handler, apply the volatile changes, replay the records,
stage them as one batch and set the timers. The response is sent when that batch and all
earlier writes of the shard are durable. A request that writes nothing waits for the
writes it may have read (E23-05).

There are three kinds of failure. An ApiError is a response of the protocol. A failed
flush reloads from the log every shard that had records in it. Any other exception in a
shard is a bug: it is logged, the shard stops, and is reloaded too. Nothing is ever
undone in memory.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from coterie.broker.coordinator.classic import heartbeat as classic_heartbeat
from coterie.broker.coordinator.consumer import heartbeat as consumer_heartbeat
from coterie.broker.coordinator.offsets.deletion import ExpireOffsets, TopicsDeleted
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.broker.coordinator.offsets.fetch_bytes import Fetched
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import OffsetCommitKey
from coterie.broker.coordinator.result import (
    Context,
    CoordinatorEnvironment,
    Origin,
    Result,
    Session,
    Ticket,
)
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import BatchInfo, Log, LogPartition
from coterie.broker.runtime.deferred import DeferredResponses, PendingRequest, Respond
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.loader import Loader
from coterie.broker.runtime.metrics import Metrics
from coterie.broker.runtime.plain_commits import write_plain_commit
from coterie.broker.runtime.rebalance_log import (
    RebalanceLog,
    groups_before,
    may_rebalance,
)
from coterie.broker.runtime.shards import (
    PHASE_ERRORS,
    DrivenShard,
    Phase,
    Renew,
    partition_for,
    session_renewal,
)
from coterie.broker.runtime.system import Scheduler, Timekeeping
from coterie.broker.runtime.timers import Timers, TimerTable
from coterie.errors import ApiError, LogError, LogFull
from coterie.types import GroupId, ProducerId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.plain_commit import PlainCommit, write_plain_response
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
)
from coterie.wire.schema import Struct

_LOGGER = logging.getLogger(__name__)
BATCH_RECORDS_MAX: Final = 1_000
RETRY_S: Final = 5.0
"""The delay before a shard that could not be loaded is loaded again."""
_ACTIVE: Final = Phase.ACTIVE
_HEARTBEATS: Final = frozenset({HeartbeatRequest, ConsumerGroupHeartbeatRequest})
_IN_BATCHES: Final = (ExpireOffsets, TopicsDeleted)
"""Events whose results may have any number of independent tombstones."""

GrowthListener = Callable[[LogPartition, int], None]
"""A callback with a partition and the number of bytes that became durable in it."""


class Caller(Protocol):
    """The interface of a request's client that the coordinator uses."""

    @property
    def api_version(self) -> int:
        """The version of the request."""

    @property
    def client_id(self) -> str:
        """The client id in the request's header."""

    @property
    def client_host(self) -> str:
        """The client's address, as in "/127.0.0.1"."""

    def may_describe(self, topic: TopicName) -> bool:
        """Return whether DESCRIBE on a topic is authorized (E14-08)."""


class Runtime:
    """The shards of a process, their requests, events and failures.

    Retries and the timeouts of writes wait in `scheduler`. `make_shard` returns an
    empty shard; tests replace it.
    """

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        loader: Loader,
        environment: CoordinatorEnvironment,
        *,
        scheduler: Scheduler,
        timekeeping: Timekeeping,
    ) -> None:
        self._log = log
        self._flusher = flusher
        self._loader = loader
        self._environment = environment
        self._settings = environment.settings
        self._scheduler = scheduler
        self._clock = timekeeping.steady
        self._timers = Timers(timekeeping.scheduler, timekeeping.steady)
        self._deferred = DeferredResponses(
            flusher,
            scheduler,
            timeout_ms=environment.settings.offsets_commit_timeout_ms,
            fail=self._fail_unwritten,
            notify_growth=self._notify_growth,
        )
        self.make_shard: Callable[[], Shard] = lambda: Shard(environment.settings)
        # An empty shard encodes errors for requests that no shard handles.
        self._error_shard = Shard(environment.settings)
        self.metrics: Metrics | None = None
        """The counters to update with every result that writes; None without them."""
        self.reloads = 0
        """The number of times a stopped shard was loaded again."""
        self.rebalances = RebalanceLog()
        self._growth_listeners: list[GrowthListener] = []
        self._is_stopped = False
        self._ticket = 0
        self.shards: list[DrivenShard] = []
        flusher.on_failure(self._flush_failed)

    def on_growth(self, listener: GrowthListener) -> None:
        """Call `listener` when bytes of a shard have become durable."""
        self._growth_listeners.append(listener)

    def start(self, offsets_topic: TopicId, partition_count: int) -> None:
        """Start loading every shard, each from its partition of
        `__consumer_offsets`."""
        assert not self.shards
        for index in range(partition_count):
            self._add_shard(index, LogPartition(offsets_topic, index))
        for driven in self.shards:
            self._load(driven)

    def _add_shard(self, index: int, where: LogPartition) -> None:
        def fire(request: Any) -> None:
            self._handle_event(driven, request)

        driven = DrivenShard(
            index, where, self.make_shard(), TimerTable(self._timers, fire)
        )
        self.shards.append(driven)

    def shard_of(self, group_id: GroupId) -> int:
        """Return the index of a group's shard (B-16)."""
        count = len(self.shards) or self._settings.offsets_topic_num_partitions
        return partition_for(group_id, count)

    # Requests.

    def submit(
        self, index: int, request: Any, caller: Caller, respond: Respond
    ) -> None:
        """Handle a request in a shard; `respond` is called once, now or later.

        While the shard is loading, the response is COORDINATOR_LOAD_IN_PROGRESS, but a
        classic heartbeat succeeds (H-121a). From a stopped shard it is NOT_COORDINATOR,
        and before `start` COORDINATOR_NOT_AVAILABLE (H-112).
        """
        self._ticket += 1
        context = self._context(self._ticket, caller)
        pending = PendingRequest(request, context, respond)
        if not self.shards:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            respond(self._error_shard.refuse(request, context, code))
            return
        driven = self.shards[index]
        if driven.phase is not _ACTIVE:
            code = PHASE_ERRORS[driven.phase]
            if driven.phase is Phase.LOADING:
                self._loader.prioritize(driven)
            respond(self._error_shard.refuse(request, context, code))
            return
        if type(request) is PlainCommit:
            if self._submit_plain(driven, pending):
                return
            pending = PendingRequest(request.general(), context, respond)
        self._submit_general(driven, pending)

    def _submit_general(self, driven: DrivenShard, pending: PendingRequest) -> None:
        request, context, respond = pending
        try:
            result = self._handle(driven, request, context)
            if result.response is None:
                driven.pending[context.ticket] = pending
            replies = self._apply_and_observe(driven, request, result, context.now_ms)
        except ApiError as error:
            driven.pending.pop(context.ticket, None)
            response = driven.shard.refuse(request, context, error.code, error.message)
            self._respond(driven, pending, response)
            return
        except Exception:
            driven.pending.pop(context.ticket, None)
            self._stop_after_bug(driven)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            respond(driven.shard.refuse(request, context, code))
            return
        if result.response is not None:
            self._respond(driven, pending, result.response)
        for waiting, reply in replies:
            self._respond(driven, waiting, reply)

    def _submit_plain(self, driven: DrivenShard, pending: PendingRequest) -> bool:
        """Write a plain commit and respond; return False, and change nothing, if the
        general path has to handle it."""
        request, context, respond = pending
        try:
            written = write_plain_commit(
                self._log, driven, request, context, self._settings.message_max_bytes
            )
        except Exception:
            self._stop_after_bug(driven)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            respond(driven.shard.refuse(request, context, code))
            return True
        if written is None:
            return False
        size_bytes, record_count = written
        driven.written_sequence = self._deferred.staged(driven.where, size_bytes)
        if self.metrics is not None:
            self.metrics.offset_commits += record_count
        self._respond(driven, pending, write_plain_response(request))
        return True

    def _handle(self, driven: DrivenShard, request: Any, context: Context) -> Result:
        """Return a shard's result; nothing has changed when it raises ApiError."""
        try:
            return driven.handle(request, context)
        except LogError as error:  # the stored offsets of a group cannot be read
            _LOGGER.error("%s: a request failed: %s", driven.name, error)
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    def refusal(
        self, request: Any, caller: Caller, code: ErrorCode, message: str | None = None
    ) -> Struct:
        """Return the error response to a request that no shard handles."""
        context = self._context(0, caller)
        return self._error_shard.refuse(request, context, code, message)

    def readable_shard(self, index: int) -> DrivenShard | None:
        """Return a shard if it is loaded. What was read has to wait for its writes."""
        if not self.shards:
            return None
        driven = self.shards[index]
        return driven if driven.phase is _ACTIVE else None

    def respond_when_written(
        self, sequence: int, read: Fetched, caller: Caller, respond: Respond
    ) -> None:
        """Respond with what was read once the write with that number is durable.

        The write must be staged, durable or in progress.
        """
        if sequence <= self._flusher.durable_sequence:
            respond(read.body)
            return
        pending = PendingRequest(read, self._context(0, caller), respond)
        self._deferred.defer(sequence, pending, read.body)

    def session_renewal(
        self, request: HeartbeatRequest | ConsumerGroupHeartbeatRequest
    ) -> Renew | None:
        """Return a function that renews the session as a repetition of this heartbeat
        would. None when a repetition may have other effects.
        """
        assert self.shards, "heartbeats are stored after start only"
        driven = self.shards[self.shard_of(request.group_id)]
        if driven.phase is not _ACTIVE:
            return None
        state = driven.shard.state
        session: Session | None
        if isinstance(request, HeartbeatRequest):
            session = classic_heartbeat.session_of(state, request)
        else:
            configs = self._environment.configs
            session = consumer_heartbeat.session_of(state, request, configs)
        entry = None if session is None else driven.timers.entries.get(session.key)
        if session is None or entry is None:
            return None
        return session_renewal(driven, entry, session, self._flusher)

    def _context(self, ticket: Ticket, caller: Caller) -> Context:
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
        """Handle an event, such as a topic's deletion, in every shard (E23-14).

        A shard that is not active handles it once it is loaded.
        """
        for driven in self.shards:
            if driven.phase is _ACTIVE:
                self._handle_event(driven, event)
            else:
                driven.events.append(event)

    def end_transaction(
        self, shard: int, producer_id: ProducerId, producer_epoch: int, commit: bool
    ) -> None:
        """Stage the marker that ends a transaction in a shard, and replay it.

        A shard that is loading reads the marker from the log.
        """
        driven = self.shards[shard]
        offset = self._log.bounds(driven.where).next_offset
        if driven.phase is _ACTIVE:
            try:
                driven.shard.replay_marker(
                    producer_id, producer_epoch, commit=commit, log_offset=offset
                )
            except Exception:
                self._stop_after_bug(driven)
        now_ms = self._clock()
        batch = encode_marker(
            offset, now_ms, producer_id, producer_epoch, commit=commit
        )
        info = BatchInfo(
            base_offset=offset,
            last_offset=offset,
            max_timestamp_ms=now_ms,
            size_bytes=len(batch),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=True,
            is_control=True,
        )
        self._append(driven, batch, info)

    def _handle_event(self, driven: DrivenShard, event: Any) -> None:
        """Handle a timer or another event, which has no response."""
        if driven.phase is not _ACTIVE:
            return
        context = self._event_context()
        try:
            result = driven.handle(event, context)
            in_batches = type(event) in _IN_BATCHES
            for part in _batches(result) if in_batches else (result,):
                self._apply_and_reply(driven, event, part, context.now_ms)
        except ApiError as error:
            _LOGGER.warning("%s: %r was refused: %s", driven.name, event, error)
        except Exception:
            self._stop_after_bug(driven)

    def _event_context(self) -> Context:
        assert not self._is_stopped, "no event is handled after stop"
        self._ticket += 1
        return Context(self._environment, self._clock(), self._ticket)

    def _apply_and_reply(
        self, driven: DrivenShard, event: Any, result: Result, now_ms: int
    ) -> None:
        replies = self._apply_and_observe(driven, event, result, now_ms)
        for pending, reply in replies:
            self._respond(driven, pending, reply)

    # Results.

    def _apply_and_observe(
        self, driven: DrivenShard, request: Any, result: Result, now_ms: int
    ) -> Sequence[tuple[PendingRequest, Struct]]:
        """Apply a result as `_apply` does; count it and log rebalances."""
        if not (result.records or result.changes):
            return self._apply(driven, result, now_ms)
        state = driven.shard.state
        before = groups_before(state, result) if may_rebalance(result) else None
        replies = self._apply(driven, result, now_ms)
        if before is not None:
            self.rebalances.observe(state, request, result, before, now_ms)
        if self.metrics is not None and result.records:
            self.metrics.count(state, request, result, now_ms)
        return replies

    def _apply(
        self, driven: DrivenShard, result: Result, now_ms: int
    ) -> Sequence[tuple[PendingRequest, Struct]]:
        """Apply a result; return the pending requests it completes, with responses.

        Raises ApiError as `_write` does. Any other exception is a bug.
        """
        if result.records:
            self._write(driven, result, now_ms)
        elif result.changes:
            driven.version += 1
            driven.shard.apply(result)
        for timer in result.timers:
            driven.timers.change(timer)
        if not result.replies:
            return ()
        pop = driven.pending.pop
        return [(pop(reply.ticket), reply.response) for reply in result.replies]

    def _respond(
        self, driven: DrivenShard, pending: PendingRequest, response: Struct | bytes
    ) -> None:
        """Respond once all writes of the shard are durable that the response may depend
        on. The heartbeat of a member depends on groups, and does not wait for
        commits."""
        sequence = driven.written_sequence
        if type(pending.request) in _HEARTBEATS:
            heartbeat: Any = response
            if not heartbeat.error_code:
                sequence = driven.group_sequence
        if sequence <= self._flusher.durable_sequence:
            pending.respond(response)
        else:
            self._deferred.defer(sequence, pending, response)

    def _write(self, driven: DrivenShard, result: Result, now_ms: int) -> None:
        """Apply the changes, replay the records and stage them as one batch.

        Raises ApiError, before anything has changed, when the batch is too large
        (E23-06b).
        """
        offset = self._log.bounds(driven.where).next_offset
        producer = Producer(result.producer_id, result.producer_epoch)
        transactional = result.producer_id >= 0
        batch = encode_batch(
            [
                LogRecord(offset + at, now_ms, *encode_record(record))
                for at, record in enumerate(result.records)
            ],
            producer=producer,
            attributes=TRANSACTIONAL if transactional else 0,
        )
        if len(batch) > self._settings.message_max_bytes:
            _LOGGER.error(
                "%s: a batch of %d bytes is over message.max.bytes (%d)",
                driven.name,
                len(batch),
                self._settings.message_max_bytes,
            )
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        last = result.records[-1].key  # handlers put offset commits first
        may_change_groups = bool(result.changes) or type(last) is not OffsetCommitKey
        driven.version += may_change_groups
        driven.shard.apply(result)
        for at, record in enumerate(result.records):
            origin = Origin(
                offset + at, now_ms, result.producer_id, result.producer_epoch
            )
            driven.shard.replay(record, origin)
        info = BatchInfo(
            base_offset=offset,
            last_offset=offset + len(result.records) - 1,
            max_timestamp_ms=now_ms,
            size_bytes=len(batch),
            producer_id=result.producer_id,
            producer_epoch=result.producer_epoch,
            is_transactional=transactional,
        )
        self._append(driven, batch, info)
        if may_change_groups:
            driven.group_sequence = driven.written_sequence

    def _append(self, driven: DrivenShard, batch: bytes, info: BatchInfo) -> None:
        self._log.append(driven.where, batch, info)
        driven.written_sequence = self._deferred.staged(driven.where, info.size_bytes)
        driven.records_since_snapshot += info.last_offset - info.base_offset + 1

    def _notify_growth(self, where: LogPartition, size_bytes: int) -> None:
        for listener in self._growth_listeners:
            listener(where, size_bytes)

    # Loading and failures.

    def _load(self, driven: DrivenShard) -> None:
        self._loader.load(driven, self._activate, self._loading_failed)

    def _activate(self, driven: DrivenShard) -> None:
        """Serve requests with a shard that is loaded up to the end of its log."""
        assert driven.phase is Phase.LOADING
        assert self._log.bounds(driven.where).next_offset == (
            self._log.bounds(driven.where).flushed_offset
        )
        driven.phase = Phase.ACTIVE
        try:
            context = self._event_context()
            result = driven.shard.after_load(context)
            for pending, reply in self._apply(driven, result, context.now_ms):
                self._respond(driven, pending, reply)
        except Exception:
            self._stop_after_bug(driven)
        events, driven.events = driven.events, []
        for event in events:
            self._handle_event(driven, event)

    def reload_shard(self, index: int) -> None:
        """Load an active shard again and fail pending requests with NOT_COORDINATOR."""
        driven = self.shards[index]
        if driven.phase is _ACTIVE:
            self._stop(driven)
            self._flusher.when_durable(lambda _: self._reload(driven))

    def _loading_failed(self, driven: DrivenShard) -> None:
        self._stop(driven)
        self._scheduler.call_later(RETRY_S, lambda: self._reload(driven))

    def stop(self) -> None:
        """Stop firing timers and handling requests."""
        self._is_stopped = True
        self._loader.stop()
        self._timers.stop()
        for driven in self.shards:
            self._stop(driven)

    def _flush_failed(self, error: LogError) -> None:
        durable = self._flusher.durable_sequence
        for driven in self.shards:
            if driven.written_sequence > durable:
                self._stop(driven)
                self._reload(driven)

    def _stop_after_bug(self, driven: DrivenShard) -> None:
        error = sys.exception()
        if isinstance(error, LogError):
            _LOGGER.error("%s stops and is loaded again: %s", driven.name, error)
        else:
            _LOGGER.exception(
                "%s: a bug; the shard stops and is loaded from the log again",
                driven.name,
            )
        self._stop(driven)
        self._flusher.when_durable(lambda _: self._reload(driven))

    def _stop(self, driven: DrivenShard) -> None:
        """Remove the shard's timers and fail its pending requests."""
        if driven.phase is Phase.STOPPED:
            return
        driven.phase = Phase.STOPPED
        driven.version += 1
        driven.timers.clear()
        requests, driven.pending = driven.pending, {}
        for request, context, respond in requests.values():
            code = ErrorCode.NOT_COORDINATOR
            respond(driven.shard.refuse(request, context, code))

    def _reload(self, driven: DrivenShard) -> None:
        if driven.phase is Phase.STOPPED and not self._is_stopped:
            self.reloads += 1
            driven.reset(self.make_shard())
            self._load(driven)

    def _fail_unwritten(
        self, pending: PendingRequest, error: LogError | TimeoutError
    ) -> None:
        """Respond with an error, as a write it depends on failed (E23-13, A-49)."""
        request, context, respond = pending
        code = ErrorCode.NOT_COORDINATOR
        is_fetch = isinstance(request, FetchOffsets | Fetched)
        if isinstance(error, LogFull | TimeoutError) and not is_fetch:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        respond(self._error_shard.refuse(request, context, code, str(error)))


def _batches(result: Result) -> Iterator[Result]:
    """Split a result into parts of `BATCH_RECORDS_MAX` records."""
    records = result.records
    yield result._replace(records=records[:BATCH_RECORDS_MAX])
    for at in range(BATCH_RECORDS_MAX, len(records), BATCH_RECORDS_MAX):
        yield Result(records=records[at : at + BATCH_RECORDS_MAX])
