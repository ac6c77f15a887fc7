"""Results and transaction markers as the batches that a shard stages and replays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.result import Origin, Result
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import BatchInfo
from coterie.types import LogOffset, ProducerId
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
)

BATCH_RECORDS_MAX: Final = 1_000


class StagedBatch(NamedTuple):
    """An encoded batch and the fields that a log stores beside it."""

    batch: bytes
    info: BatchInfo


def result_batch(result: Result, offset: LogOffset, now_ms: int) -> StagedBatch:
    """Encode the records of a result as one batch at an offset."""
    transactional = result.producer_id >= 0
    batch = encode_batch(
        [
            LogRecord(offset + index, now_ms, *encode_record(record))
            for index, record in enumerate(result.records)
        ],
        producer=Producer(result.producer_id, result.producer_epoch),
        attributes=TRANSACTIONAL if transactional else 0,
    )
    info = BatchInfo(
        base_offset=offset,
        last_offset=offset + len(result.records) - 1,
        max_timestamp_ms=now_ms,
        size_bytes=len(batch),
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
        is_transactional=transactional,
    )
    return StagedBatch(batch, info)


def marker_batch(
    offset: LogOffset,
    now_ms: int,
    producer_id: ProducerId,
    producer_epoch: int,
    *,
    commit: bool,
) -> StagedBatch:
    """Encode the marker that ends a transaction."""
    batch = encode_marker(offset, now_ms, producer_id, producer_epoch, commit=commit)
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
    return StagedBatch(batch, info)


def apply_result(shard: Shard, result: Result, offset: LogOffset, now_ms: int) -> None:
    """Apply the changes of a result and replay its records, as staged at an offset."""
    shard.apply(result)
    for index, record in enumerate(result.records):
        origin = Origin(
            offset + index, now_ms, result.producer_id, result.producer_epoch
        )
        shard.replay(record, origin)


def split_result(result: Result) -> Iterator[Result]:
    """Split a result into parts of `BATCH_RECORDS_MAX` records."""
    records = result.records
    yield result._replace(records=records[:BATCH_RECORDS_MAX])
    for start in range(BATCH_RECORDS_MAX, len(records), BATCH_RECORDS_MAX):
        yield Result(records=records[start : start + BATCH_RECORDS_MAX])
