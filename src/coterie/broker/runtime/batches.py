"""Results as the batches that a shard stages and replays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.result import Origin, Result
from coterie.broker.coordinator.shard import Shard
from coterie.types import LogOffset
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
)

BATCH_RECORDS_MAX: Final = 1_000


def result_batch(result: Result, offset: LogOffset, now_ms: int) -> bytes:
    """Encode the records of a result as one batch at an offset."""
    transactional = result.producer_id >= 0
    return encode_batch(
        [
            LogRecord(offset + index, now_ms, *encode_record(record))
            for index, record in enumerate(result.records)
        ],
        producer=Producer(result.producer_id, result.producer_epoch),
        attributes=TRANSACTIONAL if transactional else 0,
    )


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
