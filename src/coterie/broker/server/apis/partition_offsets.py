"""The APIs of log offsets.

====================  ===  ==================================================
API                   key  versions
====================  ===  ==================================================
ListOffsets           2    1-11 (2: isolation level; 7: max timestamp, KIP-734)
DeleteRecords         21   0-2 (KIP-107)
OffsetForLeaderEpoch  23   2-4 (KIP-320)
====================  ===  ==================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from coterie.auth.acl import Operation
from coterie.broker.log.log import Log
from coterie.broker.runtime.decoding import LOOP_BATCH_BYTES, LoopBudget, Outcome
from coterie.broker.runtime.partitions import Partition
from coterie.broker.server.apis.routing import LEADER_EPOCH, find_partition
from coterie.broker.server.call import Call, in_slices
from coterie.errors import ApiError, LogCorrupt, LogError, MalformedFrame
from coterie.types import LogOffset, TopicName
from coterie.wire import messages as m
from coterie.wire.compression import DECOMPRESSED_BYTES_MAX, DataTooLarge
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import BatchHeader, read_header, record_times


class SpecialTime(IntEnum):
    """The special timestamps of a ListOffsets request, which are not times."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class TimestampedOffset(NamedTuple):
    """An offset and the timestamp of its record; -1 and -1 without a record."""

    offset: LogOffset
    timestamp_ms: int


NO_OFFSET: Final = TimestampedOffset(-1, -1)
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_SPECIAL_TIME_SINCE: Final[Mapping[int, int]] = {
    SpecialTime.LATEST: 0,
    SpecialTime.EARLIEST: 0,
    SpecialTime.MAX_TIMESTAMP: 7,
    SpecialTime.EARLIEST_LOCAL: 8,
    SpecialTime.LATEST_TIERED: 9,
    SpecialTime.EARLIEST_PENDING_UPLOAD: 11,
}
_NO_LOW_WATERMARK: Final = -1
_UNDEFINED: Final = -1


# ListOffsets.


@in_slices
def list_offsets(call: Call) -> Iterator[None]:
    """Find an offset by timestamp in each partition. Requires DESCRIBE on its topic."""
    request: m.ListOffsetsRequest = call.request
    counts: Counter[tuple[TopicName, int]] = Counter()
    for topic in request.topics:
        for part in topic.partitions:
            counts[topic.name, part.partition_index] += 1
        yield
    response = m.ListOffsetsResponse()

    def steps() -> _Steps[None]:
        for topic in request.topics:
            result = m.ListOffsetsTopicResponse(name=topic.name)
            response.topics.append(result)
            for part in topic.partitions:
                is_repeated = counts[topic.name, part.partition_index] > 1
                result.partitions.append(
                    (
                        yield from _list_offset(
                            call, topic.name, part, is_repeated=is_repeated
                        )
                    )
                )
                yield None
            yield None

    done = lambda: call.respond(response)  # noqa: E731
    yield from _run_steps(call, steps(), done, LoopBudget())


class _Scan(NamedTuple):
    """The search for the first record of a batch with that timestamp or a later one,
    from `start` on."""

    batch: bytes
    start: LogOffset
    timestamp_ms: int

    def find(
        self, bytes_max: int = DECOMPRESSED_BYTES_MAX
    ) -> TimestampedOffset | LogError:
        """Search, in any thread. Raises DataTooLarge for more than `bytes_max`."""
        try:
            for offset, timestamp_ms in record_times(self.batch, bytes_max):
                if timestamp_ms >= self.timestamp_ms and offset >= self.start:
                    return TimestampedOffset(offset, timestamp_ms)
        except DataTooLarge:
            raise
        except MalformedFrame as error:
            return LogCorrupt(str(error))
        return NO_OFFSET

    def find_in_loop(self, budget: LoopBudget) -> TimestampedOffset | LogError | None:
        """Search if the batch is small; return None for the worker."""
        if not budget.fits(read_header(self.batch)):
            return None
        try:
            return self.find(LOOP_BATCH_BYTES)
        except DataTooLarge:
            return None


T = TypeVar("T")
_Steps: TypeAlias = Generator[_Scan | None, TimestampedOffset | LogError | None, T]
"""A computation that yields the scans it needs, and receives their results; it yields
None between slices of its work."""


def _run_steps(
    call: Call,
    steps: _Steps[None],
    done: Callable[[], None],
    budget: LoopBudget,
    found: TimestampedOffset | LogError | None = None,
) -> Iterator[None]:
    """Run the steps in slices, with scans of batches over the budget in the worker,
    then call `done`. `found` is the result of the scan before."""
    while True:
        try:
            scan = steps.send(found)
        except StopIteration:
            done()
            return
        if scan is None:
            found = None
            yield
            continue
        found = scan.find_in_loop(budget)
        if found is None:
            break

    def resume(outcome: Outcome) -> None:
        found = _outcome(outcome)
        call.run_in_slices(_run_steps(call, steps, done, budget, found))

    call.node.broker.data.run_in_worker(scan.find, resume)


def _outcome(outcome: Outcome) -> TimestampedOffset | LogError:
    try:
        found: TimestampedOffset | LogError = outcome()
    except DataTooLarge as error:
        return LogCorrupt(str(error))
    return found


def _list_offset(
    call: Call, topic: TopicName, part: m.ListOffsetsPartition, *, is_repeated: bool
) -> _Steps[m.ListOffsetsPartitionResponse]:
    data = call.node.broker.data
    result = m.ListOffsetsPartitionResponse(partition_index=part.partition_index)
    try:
        if not call.authorize_topic(Operation.DESCRIBE, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if is_repeated:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if call.request.isolation_level not in {_READ_UNCOMMITTED, _READ_COMMITTED}:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, from a bug
        if not _is_supported(part.timestamp, call.api_version):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        partition = find_partition(
            call, topic, part.partition_index, part.current_leader_epoch
        )
        committed = call.request.isolation_level == _READ_COMMITTED
        position = yield from _find_offset(
            data.log, partition, part.timestamp, committed=committed
        )
        result.offset, result.timestamp = position
        if position != NO_OFFSET:
            result.leader_epoch = LEADER_EPOCH
    except ApiError as error:
        result.error_code = error.code
    except LogError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


def _is_supported(timestamp_ms: int, api_version: int) -> bool:
    since = 0 if timestamp_ms >= 0 else _SPECIAL_TIME_SINCE.get(timestamp_ms)
    return since is not None and api_version >= since


def _find_offset(
    log: Log, partition: Partition, timestamp_ms: int, *, committed: bool
) -> _Steps[TimestampedOffset]:
    """Return the first record with that timestamp or a later one, or the offset that a
    special timestamp selects.

    With `committed`, records at or after the last stable offset do not count. Raises
    LogError.
    """
    bounds = partition.bounds()
    match timestamp_ms:
        case SpecialTime.EARLIEST | SpecialTime.EARLIEST_LOCAL:
            return TimestampedOffset(bounds.log_start_offset, -1)
        case SpecialTime.LATEST if committed:
            return TimestampedOffset(partition.last_stable_offset(), -1)
        case SpecialTime.LATEST:
            return TimestampedOffset(bounds.flushed_offset, -1)
        case SpecialTime.LATEST_TIERED | SpecialTime.EARLIEST_PENDING_UPLOAD:
            return NO_OFFSET  # there is no remote storage
        case SpecialTime.MAX_TIMESTAMP:
            position = yield from _find_max_timestamp(log, partition)
        case _:
            assert timestamp_ms >= 0
            position = yield from _find_timestamp(log, partition, timestamp_ms)
    assert position == NO_OFFSET or position.offset >= bounds.log_start_offset
    before = partition.last_stable_offset() if committed else bounds.flushed_offset
    return position if position.offset < before else NO_OFFSET


def _find_timestamp(
    log: Log, partition: Partition, timestamp_ms: int
) -> _Steps[TimestampedOffset]:
    header = log.find_timestamp(partition.log_partition, timestamp_ms)
    # The first batch nearly always has the record, unless the record lies before the
    # log start or compaction removed it.
    while header is not None:
        position = yield from _first_record(log, partition, header, timestamp_ms)
        if position != NO_OFFSET:
            return position
        following = header.last_offset + 1
        header = log.find_timestamp(partition.log_partition, timestamp_ms, following)
    return NO_OFFSET


def _find_max_timestamp(log: Log, partition: Partition) -> _Steps[TimestampedOffset]:
    newest = max(
        log.headers(partition.log_partition, partition.bounds().log_start_offset),
        key=lambda header: header.max_timestamp_ms,
        default=None,
    )
    if newest is None:
        return NO_OFFSET
    return (yield from _first_record(log, partition, newest, newest.max_timestamp_ms))


def _first_record(
    log: Log, partition: Partition, header: BatchHeader, timestamp_ms: int
) -> _Steps[TimestampedOffset]:
    """Return the first record of a batch with that timestamp or a later one."""
    start = partition.bounds().log_start_offset
    for batch in log.read(partition.log_partition, header.base_offset, 1)[:1]:
        found = yield _Scan(batch, start, timestamp_ms)
        assert found is not None
        if isinstance(found, LogError):
            raise found
        return found
    return NO_OFFSET


# DeleteRecords.


@in_slices
def delete_records(call: Call) -> Iterator[None]:
    """Move the log start offset of each partition. Requires DELETE on its topic.

    The response is sent once all changes are durable.
    """
    request: m.DeleteRecordsRequest = call.request
    data = call.node.broker.data
    failures = data.failures
    response = m.DeleteRecordsResponse()
    for topic in request.topics:
        result = m.DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(result)
        for part in topic.partitions:
            result.partitions.append(_delete_records(call, topic.name, part))
            yield
        yield

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            for topic in response.topics:
                for part in topic.partitions:
                    part.error_code = part.error_code or error
                    part.low_watermark = _NO_LOW_WATERMARK
        call.respond(response)

    data.when_durable(durable, failures=failures)


def _delete_records(
    call: Call, topic: TopicName, part: m.DeleteRecordsPartition
) -> m.DeleteRecordsPartitionResult:
    data = call.node.broker.data
    result = m.DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=_NO_LOW_WATERMARK
    )
    try:
        if not call.authorize_topic(Operation.DELETE, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = find_partition(call, topic, part.partition_index)
        result.low_watermark = data.delete_records(partition, part.offset)
    except ApiError as error:
        result.error_code = error.code
    except LogError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


# OffsetForLeaderEpoch.


@in_slices
def offset_for_leader_epoch(call: Call) -> Iterator[None]:
    """Return the end offset of a leader epoch in each partition.

    Requires CLUSTER_ACTION on the cluster, or DESCRIBE on the topic. Leaders never
    change, so only the current epoch has an end offset. Earlier epochs, which are
    negative, end where the log starts, as in Kafka (LeaderEpochFileCache).
    """
    request: m.OffsetForLeaderEpochRequest = call.request
    response = m.OffsetForLeaderEpochResponse()
    for topic in request.topics:
        result = m.OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(result)
        for part in topic.partitions:
            result.partitions.append(_epoch_end(call, topic.topic, part))
            yield
        yield
    call.respond(response)


def _epoch_end(
    call: Call, topic: TopicName, part: m.OffsetForLeaderPartition
) -> m.EpochEndOffset:
    result = m.EpochEndOffset(partition=part.partition)
    try:
        if not (
            call.authorize_cluster(Operation.CLUSTER_ACTION)
            or call.authorize_topic(Operation.DESCRIBE, topic)
        ):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = find_partition(
            call, topic, part.partition, part.current_leader_epoch
        )
    except ApiError as error:
        result.error_code = error.code
        return result
    if part.leader_epoch == LEADER_EPOCH:
        result.leader_epoch = LEADER_EPOCH
        result.end_offset = partition.bounds().flushed_offset
    elif part.leader_epoch < _UNDEFINED:
        result.leader_epoch = part.leader_epoch
        result.end_offset = partition.bounds().log_start_offset
    else:
        result.leader_epoch = result.end_offset = _UNDEFINED
    return result
