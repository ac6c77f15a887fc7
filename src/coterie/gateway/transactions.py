"""Commit offsets in transactions of the upstream cluster (KIP-98, KIP-447, KIP-890).

An application's transaction is coordinated upstream, and offsets become a part of it by
a batch in the shard's partition with the application's producer id and epoch:

| request           | upstream                                                         |
| ----------------- | ---------------------------------------------------------------- |
| AddOffsetsToTxn   | AddPartitionsToTxn with the shard's partition                    |
| TxnOffsetCommit   | the shard checks it and makes the records; they are produced as  |
|                   | a transactional batch, and replayed as pending once upstream has |
|                   | acknowledged it. From v5 on, AddPartitionsToTxn comes first      |
| EndTxn            | forwarded: upstream's coordinator writes a marker into the       |
|                   | partition, with which the shard commits or drops them            |

A refusal of upstream is the response to the application and changes nothing here: an
application that is fenced must not stop a shard.

The batches of a producer in a partition have consecutive sequence numbers, from 0 with
each producer epoch. A producer has one batch in flight for each shard, so that a
refused one leaves no gap. A node that has taken a shard over asks upstream for the
sequences of its predecessor's batches before it writes the first: a number that is too
low could be taken for the repetition of an earlier batch, and would be acknowledged
without being written.

The module imports no event loop: its callbacks run in that of its caller.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from coterie.broker import (
    AcceptedOffsets,
    Call,
    CheckedCommit,
    CoordinatorPartition,
    Handler,
    PendingRequest,
    Result,
    Runtime,
    Scheduler,
    State,
    check_commit,
    check_offsets_to_txn,
    code_of_missing_partition,
    commit_adds_partition,
    refuse_offsets_to_txn,
    result_batch,
)
from coterie.errors import ApiError, CoterieError, LogError, code_of
from coterie.gateway.log.shard_writer import ShardWriter
from coterie.gateway.upstream.transactions import Application
from coterie.types import GroupId, LogOffset, ProducerId, TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.commit import CommitResponse
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import INT32_MAX, Producer, stamped

_LOGGER = logging.getLogger(__name__)

QUEUED_MAX: Final = 1_000
"""The TxnOffsetCommit requests of one shard that wait or are in flight."""
PRODUCERS_MAX: Final = 10_000
"""The producers of one shard whose sequences are kept, or twice as many as upstream
has: it forgets those that write nothing for a day."""
_TRIES: Final = 2
"""A batch with a wrong sequence is written once more, after upstream was asked."""

_ANSWERED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
"""The errors of upstream that applications get as they are, from both APIs."""
_OFFSETS_ANSWERED: Final = _ANSWERED | {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_REQUEST,
}
_WRONG_SEQUENCE: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)
_RIGHTS: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""The errors of a gateway whose own principal lacks rights."""


class TransactionRequests(Protocol):
    """The requests about transactions to upstream. `upstream.transactions` has them on
    sockets, and tests have a model of upstream. Each calls `done` once, later."""

    def add_partition(
        self,
        application: Application,
        shard: int,
        done: Callable[[CoterieError | None], None],
    ) -> None:
        """Add a shard's partition to the transaction of an application."""

    def producers(
        self,
        shard: int,
        done: Callable[[Mapping[ProducerId, Producer] | CoterieError], None],
    ) -> None:
        """List the producers of a shard's partition, with their next sequences."""


@dataclass(slots=True, eq=False)
class _Commit:
    """A TxnOffsetCommit request until its response."""

    call: Call
    checked: CheckedCommit
    tries: int = 0


class _Prepared(NamedTuple):
    """The result of a request that is written upstream, and what it was made with."""

    partition: CoordinatorPartition
    result: Result
    offsets: AcceptedOffsets
    now_ms: int
    present: frozenset[TopicPartition | GroupId]
    """See `_present`."""


class GatewayTransactions:
    """The handlers of AddOffsetsToTxn and TxnOffsetCommit."""

    def __init__(
        self,
        runtime: Runtime,
        requests: TransactionRequests,
        scheduler: Scheduler,
    ) -> None:
        self.runtime = runtime
        self.requests = requests
        self.scheduler = scheduler
        self._shards: dict[int, _ShardCommits] = {}

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """The handlers by API key."""
        return {
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets_to_txn,
            ApiKey.TXN_OFFSET_COMMIT: self.txn_offset_commit,
        }

    def add_offsets_to_txn(self, call: Call) -> None:
        """Add a group's shard to the transaction of an application."""
        request: m.AddOffsetsToTxnRequest = call.request
        try:
            check_offsets_to_txn(call)
        except ApiError as error:
            refuse_offsets_to_txn(call, error)
            return

        def added(error: CoterieError | None) -> None:
            if error is None:
                call.respond(m.AddOffsetsToTxnResponse())
            else:
                code = _code_of(error, _OFFSETS_ANSWERED)
                refuse_offsets_to_txn(call, ApiError(code))

        application = Application(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        shard = self.runtime.shard_of(request.group_id)
        self.requests.add_partition(application, shard, added)

    def txn_offset_commit(self, call: Call) -> None:
        """Write offsets of a group as a part of the transaction of an application."""
        check_commit(call, lambda checked: self._join(call, checked))

    def _join(self, call: Call, checked: CheckedCommit) -> None:
        if checked.request.group_id == "":
            checked.refuse(ErrorCode.INVALID_GROUP_ID)
            return
        commit = _Commit(call, checked)
        admit = call.node.broker.admit
        if admit is None:
            self._join_transaction(commit)
            return

        def admitted(code: ErrorCode) -> None:
            if code:
                checked.refuse(code)
            else:
                self._join_transaction(commit)

        admit(checked.shard, checked.request.group_id, admitted)

    def _join_transaction(self, commit: _Commit) -> None:
        call, checked = commit.call, commit.checked
        if not commit_adds_partition(call):
            self._write(commit)
            return
        if self.runtime.readable_shard(checked.shard) is None:
            self._refuse_unowned(commit)
            return

        def added(error: CoterieError | None) -> None:
            if error is None:
                self._write(commit)
            else:
                checked.refuse(_commit_code(error, call))

        application = Application(*checked.claim)
        self.requests.add_partition(application, checked.shard, added)

    def _write(self, commit: _Commit) -> None:
        index = commit.checked.shard
        partition = self.runtime.readable_shard(index)
        if partition is None:
            self._refuse_unowned(commit)
            return
        writer = partition.flusher
        assert isinstance(writer, ShardWriter)
        shard = self._shards.get(index)
        if shard is None or not shard.is_of(writer):
            shard = self._shards[index] = _ShardCommits(self, index, writer)
        shard.add(commit)

    def _refuse_unowned(self, commit: _Commit) -> None:
        """Respond as the runtime does for a shard that it does not serve."""
        checked = commit.checked
        self.runtime.submit(
            checked.shard, checked.request, commit.call, checked.respond
        )


class _ShardCommits:
    """The transactional commits of a shard while one owner has it.

    Sequences are asked for while no batch is in flight, and none is written meanwhile:
    the answer would not contain it.
    """

    def __init__(
        self, transactions: GatewayTransactions, index: int, writer: ShardWriter
    ) -> None:
        self._transactions = transactions
        self._runtime = transactions.runtime
        self._index = index
        self._writer = writer
        self._owner = _owner(writer)
        self._queues: dict[ProducerId, deque[_Commit]] = {}
        self._ready: deque[ProducerId] = deque()
        """The producers whose first commit can be written."""
        self._in_flight: set[ProducerId] = set()
        self._count = 0
        self._sequences: dict[ProducerId, Producer] | None = None
        """The next sequence of each producer of the partition; None while unknown."""
        self._sequences_max = PRODUCERS_MAX
        self._is_asking = False
        self._is_scheduled = False

    def is_of(self, writer: ShardWriter) -> bool:
        """Return whether `writer` still writes for the same take-over of the shard."""
        return self._writer is writer and self._owner == _owner(writer)

    def add(self, commit: _Commit) -> None:
        """Write a commit after those of the same producer."""
        if self._count >= QUEUED_MAX:
            commit.checked.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._count += 1
        producer_id = commit.checked.request.producer_id
        queue = self._queues.setdefault(producer_id, deque())
        queue.append(commit)
        if len(queue) == 1:
            self._ready.append(producer_id)
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._transactions.scheduler.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Write what is ready, or ask for sequences first."""
        self._is_scheduled = False
        if self._sequences is None:
            if self._ready and not self._in_flight and not self._is_asking:
                self._is_asking = True
                self._transactions.requests.producers(self._index, self._learn)
            return
        while self._ready and self._sequences is not None:
            producer_id = self._ready.popleft()
            commit = self._queues[producer_id][0]
            commit.tries += 1
            prepared = self._prepare(commit)
            if prepared is None:
                self._end(producer_id)
            else:
                self._produce(commit, prepared)

    def _end(self, producer_id: ProducerId) -> None:
        """Go on with the next commit of a producer, after a response."""
        self._count -= 1
        queue = self._queues[producer_id]
        queue.popleft()
        if not queue:
            del self._queues[producer_id]
        else:
            self._ready.append(producer_id)
            self._schedule()

    # The shard's part.

    def _prepare(self, commit: _Commit) -> _Prepared | None:
        """Return the records to write. None when a response was sent."""
        runtime, checked = self._runtime, commit.checked
        request = checked.request
        partition = runtime.readable_shard(self._index)
        if partition is None or not self.is_of(self._writer):
            checked.refuse(ErrorCode.NOT_COORDINATOR)
            return None
        context = runtime.context_of(commit.call)
        pending = PendingRequest(request, context, checked.respond)
        try:
            result = partition.handle(request, context)
        except ApiError as error:
            response = partition.shard.refuse(
                request, context, error.code, error.message
            )
            runtime.respond(partition, pending, response)
            return None
        except LogError as error:  # the stored offsets of a group cannot be read
            _LOGGER.error("%s: a request failed: %s", partition.name, error)
            checked.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return None
        except Exception:
            runtime.stop_after_bug(partition)
            checked.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return None
        assert result.response is not None
        if result.commit is None:
            runtime.respond(partition, pending, result.response)
            return None
        present = _present(partition.shard.state, result.commit)
        return _Prepared(partition, result, result.commit, context.now_ms, present)

    def _produce(self, commit: _Commit, prepared: _Prepared) -> None:
        claim = commit.checked.claim
        producer_id = claim.producer_id
        sequence = self._next_sequence(producer_id, claim.producer_epoch)
        if sequence is None:
            commit.checked.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
            self._end(producer_id)
            return
        producer = Producer(producer_id, claim.producer_epoch, sequence)
        count = prepared.offsets.record_count
        unstamped = result_batch(prepared.result, 0, prepared.now_ms)
        batch = stamped(unstamped, producer)
        if len(batch) > commit.call.node.broker.settings.message_max_bytes:
            commit.checked.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka
            self._end(producer_id)
            return
        shard = prepared.partition.shard

        def written(outcome: LogOffset | CoterieError) -> None:
            self._in_flight.discard(producer_id)
            if isinstance(outcome, CoterieError):
                self._refused(commit, outcome)
                return
            following = (sequence + count) & INT32_MAX
            self._keep(producer._replace(base_sequence=following))
            if prepared.partition.shard is shard:
                self._replay(commit, prepared, outcome)
            else:
                commit.checked.refuse(ErrorCode.NOT_COORDINATOR)
            self._end(producer_id)

        self._in_flight.add(producer_id)
        self._writer.produce_transactional(
            batch, count, claim.transactional_id, written
        )

    def _replay(self, commit: _Commit, prepared: _Prepared, offset: LogOffset) -> None:
        """Make the offsets pending, and respond.

        The shard may have written tombstones of them or of their group meanwhile. It
        does not know whether the batch precedes these in the log, and is loaded again.
        """
        runtime, checked = self._runtime, commit.checked
        partition, result, offsets, now_ms, present = prepared
        if runtime.readable_shard(self._index) is not partition:
            checked.refuse(ErrorCode.NOT_COORDINATOR)
            return
        if not present <= _present(partition.shard.state, offsets):
            checked.refuse(ErrorCode.NOT_COORDINATOR)
            runtime.reload_shard(self._index)
            return
        try:
            runtime.replay(partition, result, offset, now_ms)
        except Exception:
            runtime.stop_after_bug(partition)
            checked.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        assert isinstance(result.response, CommitResponse)
        checked.respond(result.response)

    def _refused(self, commit: _Commit, error: CoterieError) -> None:
        """Respond with an error, or write the batch again after asking for its
        sequence."""
        producer_id = commit.checked.request.producer_id
        is_wrong = code_of(error) in _WRONG_SEQUENCE
        if is_wrong or not isinstance(error, ApiError):
            self._sequences = None
        if is_wrong and commit.tries < _TRIES:
            self._ready.append(producer_id)
            self._schedule()
            return
        commit.checked.refuse(_commit_code(error, commit.call))
        self._end(producer_id)
        self._schedule()

    # Sequences.

    def _next_sequence(
        self, producer_id: ProducerId, producer_epoch: int
    ) -> int | None:
        """Return the next sequence of a producer; None when a later epoch has
        written."""
        assert self._sequences is not None
        last = self._sequences.get(producer_id)
        if last is None or last.producer_epoch < producer_epoch:
            return 0
        return last.base_sequence if last.producer_epoch == producer_epoch else None

    def _keep(self, producer: Producer) -> None:
        if self._sequences is None:
            self._schedule()
            return
        self._sequences[producer.producer_id] = producer
        if len(self._sequences) > self._sequences_max:
            self._sequences = None

    def _learn(self, found: Mapping[ProducerId, Producer] | CoterieError) -> None:
        self._is_asking = False
        if not isinstance(found, CoterieError):
            self._sequences = dict(found)
            self._sequences_max = max(PRODUCERS_MAX, 2 * len(found))
            self._schedule()
            return
        _LOGGER.warning(
            "shard %d: the sequences of producers are unknown: %s", self._index, found
        )
        while self._ready:
            producer_id = self._ready.popleft()
            commit = self._queues[producer_id][0]
            commit.checked.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._end(producer_id)


def _present(
    state: State, commit: AcceptedOffsets
) -> frozenset[TopicPartition | GroupId]:
    """Return what tombstones could remove: the group of a commit, and those of its
    partitions that have an offset, stored or pending."""
    group_id, offsets = commit.group_id, state.offsets
    held: set[TopicPartition | GroupId] = {
        TopicPartition(topic.name, index)
        for topic in commit.topics
        for index in topic.rows.partitions
        if offsets.holds(group_id, topic.name, index)
    }
    if state.group(group_id) is not None:
        held.add(group_id)
    return frozenset(held)


def _owner(writer: ShardWriter) -> tuple[ProducerId, int]:
    """Return the producer of a shard, which is another one for each take-over."""
    return writer.producer.producer_id, writer.producer.producer_epoch


def _code_of(error: CoterieError, answered: frozenset[ErrorCode]) -> ErrorCode:
    """Return the code for an application; COORDINATOR_NOT_AVAILABLE for other errors,
    after which it looks the coordinator up and tries again."""
    if not isinstance(error, ApiError):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error.code in _RIGHTS:
        _LOGGER.error(
            "upstream refuses the gateway's principal a transaction: grant it WRITE on "
            "transactional ids, and on the gateway's topic: %s",
            error,
        )
    return error.code if error.code in answered else ErrorCode.COORDINATOR_NOT_AVAILABLE


def _commit_code(error: CoterieError, call: Call) -> ErrorCode:
    """Return the code of TxnOffsetCommit for an error of upstream."""
    if isinstance(error, LogError):
        return ErrorCode.NOT_COORDINATOR
    if isinstance(error, ApiError):
        if error.code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error.code is ErrorCode.TRANSACTION_ABORTABLE:
            return code_of_missing_partition(call)
        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _code_of(error, _ANSWERED)
