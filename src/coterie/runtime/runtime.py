"""Drives the coordinator's shards: the one place where a shard's state is written.

For each request: decide, make the changes, replay the records, stage them as one batch,
set the timers; and let the answer go when the batch, and all that the shard wrote
before, is durable. A request that writes nothing waits behind the writes it may have
seen (E23-05).

Three failures, three mechanisms. ApiError is the protocol's own no: an answer. A failed
flush takes the shards that had something in it to be loaded from the log again. Any
other error in a shard is a bug: it is logged, the shard stops, and is loaded again too.
No code undoes anything.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from coterie.coordinator.assignors.spec import Assign
from coterie.coordinator.offsets.expire import ExpireOffsets
from coterie.coordinator.offsets.tombstones import TopicsDeleted
from coterie.coordinator.records.offset_commit import OffsetCommitKey
from coterie.coordinator.records.serde import encode_record
from coterie.coordinator.result import (
    Context,
    GroupConfigView,
    Origin,
    Result,
    TopicView,
)
from coterie.errors import ApiError, LogError, LogFull
from coterie.log.log import BatchInfo, Log, LogPartition
from coterie.runtime.deferred import Answer, Deferred, Waiting
from coterie.runtime.flusher import Flusher
from coterie.runtime.metrics import Metrics
from coterie.runtime.router import partition_for
from coterie.runtime.shards import PHASE_ERRORS, Coordinator, DrivenShard, Phase
from coterie.runtime.timers import Scheduler, Timers
from coterie.settings import Settings
from coterie.types import GroupId, ProducerId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
)
from coterie.wire.schema import Struct

_LOGGER = logging.getLogger(__name__)
_OWN_VERSION: Final = -1
BATCH_RECORDS_MAX: Final = 1_000
RETRY_S: Final = 5.0
"""How long after it could not be loaded a shard is loaded anew."""
_ACTIVE: Final = Phase.ACTIVE


class Caller(Protocol):
    """What the coordinator may know of who sent a request."""

    @property
    def api_version(self) -> int:
        """The version of the request."""

    @property
    def client_id(self) -> str:
        """What the client calls itself."""

    @property
    def client_host(self) -> str:
        """Where it is, as in "/127.0.0.1"."""

    def may_describe(self, topic: TopicName) -> bool:
        """Whether it may know of a topic."""


class Environment(Protocol):
    """What the runtime needs beside the log: time, topics, shards, and who to tell."""

    settings: Settings
    topics: TopicView
    configs: GroupConfigView
    assignors: Mapping[str, Assign]
    scheduler: Scheduler

    def clock(self) -> int:
        """Ms since the epoch; never steps back."""

    def make_shard(self) -> Coordinator:
        """An empty shard."""

    def grew(self, where: LogPartition, size_bytes: int) -> None:
        """Bytes have become durable in a partition."""

    def load(self, driven: DrivenShard) -> None:
        """Fill an empty shard from the log in the background, then `activate` it."""

    def hurry(self, driven: DrivenShard) -> None:
        """Load this one before others."""


_IN_PARTS: Final = (ExpireOffsets, TopicsDeleted)
"""They may have tombstones for any number of offsets, and each stands for itself."""


def _in_batches(result: Result) -> Iterator[Result]:
    """A result in parts of `BATCH_RECORDS_MAX`."""
    records = result.records
    yield result._replace(records=records[:BATCH_RECORDS_MAX])
    for at in range(BATCH_RECORDS_MAX, len(records), BATCH_RECORDS_MAX):
        yield Result(records=records[at : at + BATCH_RECORDS_MAX])


def _is_commit(result: Result) -> bool:
    """Whether the records are offsets alone. One look is enough: a step that writes
    anything else beside offsets has it last."""
    return type(result.records[-1].key) is OffsetCommitKey


def fresh_uuid() -> bytes:
    """Sixteen random bytes."""
    return uuid.uuid4().bytes


def fresh_id() -> str:
    """A random UUID as text: the end of a member id."""
    return str(uuid.uuid4())


class Runtime:
    """All shards of a process. `new_id` and `new_uuid` are where ids come from; who
    wants to see the same again passes others than the system's."""

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        environment: Environment,
        *,
        new_id: Callable[[], str] = fresh_id,
        new_uuid: Callable[[], bytes] = fresh_uuid,
    ) -> None:
        self._log = log
        self._new_id = new_id
        self._new_uuid = new_uuid
        self._flusher = flusher
        self._environment = environment
        self._settings = environment.settings
        self._topics = environment.topics
        self._configs = environment.configs
        self._assignors = environment.assignors
        self._clock = environment.clock
        self._timers = Timers(environment.scheduler, environment.clock)
        self._deferred = Deferred(flusher, self._refuse_unwritten, environment)
        self._refuser = environment.make_shard()
        self.metrics: Metrics | None = None
        """Who is told of every result that writes, if anybody."""
        self._is_over = False
        self._ticket = 0
        self.shards: list[DrivenShard] = []
        flusher.on_failure(self._flush_failed)

    def start(self, offsets_topic: TopicId, partition_count: int) -> None:
        """Begin to load every shard, each from its partition of that topic."""
        assert not self.shards
        for index in range(partition_count):
            self._add_shard(index, LogPartition(offsets_topic, index))
        for driven in self.shards:
            self._environment.load(driven)

    def _add_shard(self, index: int, where: LogPartition) -> None:
        def fire(request: Any) -> None:
            self._run(driven, request)

        shard = self._environment.make_shard()
        driven = DrivenShard(index, where, shard, self._timers.table(fire))
        self.shards.append(driven)

    def shard_of(self, group_id: GroupId) -> int:
        """The shard a group belongs to (B-16)."""
        count = len(self.shards) or self._settings.offsets_topic_num_partitions
        return partition_for(group_id, count)

    # Requests.

    def submit(self, index: int, request: Any, caller: Caller, answer: Answer) -> None:
        """Handle a request in a shard; `answer` is called once, now or later.

        While the shard is loading the answer is COORDINATOR_LOAD_IN_PROGRESS (of which
        a classic heartbeat makes success, I-16); a stopped shard answers
        NOT_COORDINATOR; before `start` it is COORDINATOR_NOT_AVAILABLE (H-112).
        """
        self._ticket += 1
        context = Context(
            self._clock(),
            self._ticket,
            caller.api_version,
            caller.client_id,
            caller.client_host,
            self._new_id,
            self._topics,
            self._settings,
            self._configs,
            self._assignors,
            self._new_uuid,
            caller.may_describe,
        )
        waiting = Waiting(request, context, answer)
        if not self.shards:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            answer(self._refuser.refuse(request, context, code))
            return
        driven = self.shards[index]
        if driven.phase is not _ACTIVE:
            code = PHASE_ERRORS[driven.phase]
            if driven.phase is Phase.LOADING:
                self._environment.hurry(driven)
            answer(self._refuser.refuse(request, context, code))
            return
        try:
            result = driven.handle(request, context)
            if result.response is None:
                driven.parked[context.ticket] = waiting
            replies = self._make_true(driven, result, context.now_ms)
            if self.metrics is not None and result.records:
                self.metrics.saw(driven.shard.state, request, result, context.now_ms)
        except ApiError as error:
            driven.parked.pop(context.ticket, None)
            response = driven.shard.refuse(request, context, error.code, error.message)
            self._release(driven, waiting, response)
            return
        except Exception:
            self._fail(driven, waiting)
            return
        if result.response is not None:
            self._release(driven, waiting, result.response)
        for parked, reply in replies:
            self._release(driven, parked, reply)

    def refusal(
        self, request: Any, caller: Caller, code: ErrorCode, message: str | None = None
    ) -> Struct:
        """The answer that carries an error which no shard was asked about."""
        context = Context(
            self._clock(),
            0,
            caller.api_version,
            caller.client_id,
            caller.client_host,
            self._new_id,
            self._topics,
            self._settings,
            self._configs,
            self._assignors,
            self._new_uuid,
            caller.may_describe,
        )
        return self._refuser.refuse(request, context, code, message)

    def notify(self, request: Any) -> None:
        """Hand an event of our own, such as a topic's end, to every shard (E23-14); to
        one that is loading when it is loaded."""
        for driven in self.shards:
            if driven.phase is _ACTIVE:
                self._run(driven, request)
            else:
                driven.events.append(request)

    def end_transaction(
        self, shard: int, producer_id: ProducerId, producer_epoch: int, commit: bool
    ) -> None:
        """Stage the marker that ends a transaction in a shard, and replay it.

        A shard that is loading will find the marker in the log.
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

    def _run(self, driven: DrivenShard, request: Any) -> None:
        """Handle a request of our own; nobody waits for its answer."""
        if driven.phase is not _ACTIVE:
            return
        context = self._own_context()
        try:
            result = driven.handle(request, context)
            parts = _in_batches(result) if type(request) in _IN_PARTS else (result,)
            for part in parts:
                self._settle(driven, part, context.now_ms)
            if self.metrics is not None and result.records:
                self.metrics.saw(driven.shard.state, request, result, context.now_ms)
        except ApiError as error:
            _LOGGER.warning("%s: %r was refused: %s", driven.name, request, error)
        except Exception:
            self._stop_after_bug(driven)

    def _own_context(self) -> Context:
        assert not self._is_over, "nothing of our own is done any more"
        self._ticket += 1
        return Context(
            self._clock(),
            self._ticket,
            _OWN_VERSION,
            "",
            "",
            self._new_id,
            self._topics,
            self._settings,
            self._configs,
            self._assignors,
            self._new_uuid,
        )

    def _settle(self, driven: DrivenShard, result: Result, now_ms: int) -> None:
        """Make a result true that answers nobody but parked requests."""
        for parked, reply in self._make_true(driven, result, now_ms):
            self._release(driven, parked, reply)

    # Results.

    def _make_true(
        self, driven: DrivenShard, result: Result, now_ms: int
    ) -> Sequence[tuple[Waiting, Struct]]:
        """Everything a result does but answering; the parked requests to be answered.

        Raises ApiError as `_write` does, and anything else for a bug.
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
        pop = driven.parked.pop
        return [(pop(reply.ticket), reply.response) for reply in result.replies]

    def _release(self, driven: DrivenShard, waiting: Waiting, response: Struct) -> None:
        """Answer, once all that the shard has written is durable."""
        if driven.written_sequence <= self._flusher.durable_sequence:
            waiting.answer(response)
        else:
            self._deferred.park(driven.written_sequence, waiting, response)

    def _write(self, driven: DrivenShard, result: Result, now_ms: int) -> None:
        """Make the changes, replay the records and stage them as one batch.

        Raises ApiError, before anything has changed, when the batch is too large
        (E23-06).
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
        if result.changes or not _is_commit(result):
            driven.version += 1
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

    def _append(self, driven: DrivenShard, batch: bytes, info: BatchInfo) -> None:
        self._log.append(driven.where, batch, info)
        driven.written_sequence = self._deferred.staged(driven.where, info.size_bytes)
        driven.records_since_snapshot += info.last_offset - info.base_offset + 1

    # Loading, and going wrong.

    def activate(self, driven: DrivenShard) -> None:
        """A shard has been loaded up to the end of its log: it serves from now on."""
        assert driven.phase is Phase.LOADING
        assert self._log.bounds(driven.where).next_offset == (
            self._log.bounds(driven.where).flushed_offset
        )
        driven.phase = Phase.ACTIVE
        try:
            context = self._own_context()
            result = driven.shard.after_load(context)
            self._settle(driven, result, context.now_ms)
        except Exception:
            self._stop_after_bug(driven)
        events, driven.events = driven.events, []
        for request in events:
            self._run(driven, request)

    def loading_failed(self, driven: DrivenShard) -> None:
        """A shard could not be loaded: it is tried again after a while."""
        self._stop(driven)
        self._environment.scheduler.call_later(RETRY_S, lambda: self._reload(driven))

    def stop(self) -> None:
        """Fire no timers and serve no requests any more."""
        self._is_over = True
        self._timers.stop()
        for driven in self.shards:
            self._stop(driven)

    def _flush_failed(self, error: LogError) -> None:
        durable = self._flusher.durable_sequence
        for driven in self.shards:
            if driven.written_sequence > durable:
                self._stop(driven)
                self._reload(driven)

    def _fail(self, driven: DrivenShard, waiting: Waiting) -> None:
        """Answer the request that a bug was found by, and stop the shard."""
        request, context, answer = waiting
        driven.parked.pop(context.ticket, None)
        self._stop_after_bug(driven)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        answer(driven.shard.refuse(request, context, code))

    def _stop_after_bug(self, driven: DrivenShard) -> None:
        _LOGGER.exception(
            "%s: a bug; the shard stops and is loaded from the log again", driven.name
        )
        self._stop(driven)
        self._flusher.when_durable(lambda _: self._reload(driven))

    def _stop(self, driven: DrivenShard) -> None:
        """Drop timers, and send away whoever waits in the shard."""
        if driven.phase is Phase.STOPPED:
            return
        driven.phase = Phase.STOPPED
        driven.version += 1
        driven.timers.clear()
        parked, driven.parked = driven.parked, {}
        for request, context, answer in parked.values():
            code = ErrorCode.NOT_COORDINATOR
            answer(driven.shard.refuse(request, context, code))

    def _reload(self, driven: DrivenShard) -> None:
        if driven.phase is Phase.STOPPED and not self._is_over:
            driven.reset(self._environment.make_shard())
            self._environment.load(driven)

    def _refuse_unwritten(
        self, waiting: Waiting, error: LogError | TimeoutError
    ) -> None:
        """What an answer said is not durable: refuse instead (E23-13)."""
        request, context, answer = waiting
        code = ErrorCode.NOT_COORDINATOR
        if isinstance(error, LogFull | TimeoutError):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer(self._refuser.refuse(request, context, code, str(error)))
