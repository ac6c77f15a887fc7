"""ListOffsets: from a time, or a special value that means one, to an offset."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from coterie.errors import ApiError
from coterie.log.log import Log
from coterie.runtime.partitions import Partition
from coterie.types import LogOffset
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import decode_records


class SpecialTime(IntEnum):
    """The timestamps of a ListOffsets request that are not times."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class Found(NamedTuple):
    """An offset and the time of its record; -1 and -1 for none."""

    offset: LogOffset
    timestamp_ms: int


NOTHING: Final = Found(-1, -1)


def find_offset(
    log: Log, partition: Partition, timestamp_ms: int, *, committed: bool
) -> Found:
    """The first record of that time or later, or what a special value stands for.

    Nothing at or after the last stable offset counts with `committed`. Raises ApiError
    UNSUPPORTED_VERSION for a special value that does not exist, and LogError.
    """
    bounds = partition.bounds()
    match timestamp_ms:
        case SpecialTime.EARLIEST | SpecialTime.EARLIEST_LOCAL:
            return Found(bounds.log_start_offset, -1)
        case SpecialTime.LATEST if committed:
            return Found(partition.last_stable_offset(), -1)
        case SpecialTime.LATEST:
            return Found(bounds.flushed_offset, -1)
        case SpecialTime.LATEST_TIERED | SpecialTime.EARLIEST_PENDING_UPLOAD:
            return NOTHING  # there is no remote storage
        case SpecialTime.MAX_TIMESTAMP:
            found = _find_max_timestamp(log, partition)
        case _ if timestamp_ms < 0:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        case _:
            found = _find_time(log, partition, timestamp_ms)
    assert found == NOTHING or found.offset >= bounds.log_start_offset
    before = partition.last_stable_offset() if committed else bounds.flushed_offset
    return found if found.offset < before else NOTHING


def _find_time(log: Log, partition: Partition, timestamp_ms: int) -> Found:
    first = log.find_timestamp(partition.where, timestamp_ms)
    if first is None:
        return NOTHING
    start = partition.bounds().log_start_offset
    # Nearly always the first batch has it. Not when the record in question lies before
    # the log start, or compaction took it out.
    for info in log.infos(partition.where, first.base_offset):
        assert info.last_offset >= first.base_offset
        if info.max_timestamp_ms < timestamp_ms:
            continue
        [batch, *_] = log.read(partition.where, info.base_offset, 1)
        for record in decode_records(batch):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start:
                return Found(record.offset, record.timestamp_ms)
    return NOTHING


def _find_max_timestamp(log: Log, partition: Partition) -> Found:
    start = partition.bounds().log_start_offset
    newest = max(
        log.infos(partition.where, start),
        key=lambda info: info.max_timestamp_ms,
        default=None,
    )
    if newest is None:
        return NOTHING
    [batch, *_] = log.read(partition.where, newest.base_offset, 1)
    for record in decode_records(batch):
        if record.timestamp_ms == newest.max_timestamp_ms and record.offset >= start:
            return Found(record.offset, record.timestamp_ms)
    return NOTHING
