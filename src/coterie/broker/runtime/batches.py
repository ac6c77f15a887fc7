"""Results as the batches that a shard stages and replays.

The commits of one flush are one batch of their shard, except those of transactions.
Each adds its records to the staged batch and is replayed at once, as any write is; its
response waits for the flush like all others. The batch ends with the flush, with a
write of another kind, or at `OPEN_BATCH_BYTES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie.broker.coordinator.offsets.accepted import AcceptedOffsets
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.result import Origin, Result
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import Log, LogPartition
from coterie.types import LogOffset
from coterie.wire.record_batch import (
    HEADER_BYTES,
    TRANSACTIONAL,
    LogRecord,
    batch_of,
    encode_batch,
)

BATCH_RECORDS_MAX: Final = 1_000
OPEN_BATCH_BYTES: Final = 65_536
"""The size from which on no commit is added to a batch."""
_RECORD_BYTES_MIN: Final = 40
"""A size that every record of an offset has. A commit of too many is not encoded."""


def result_batch(result: Result, offset: LogOffset, now_ms: int) -> bytes:
    """Encode the records of a result as one batch at an offset."""
    commit = result.commit
    if commit is not None:
        attributes = TRANSACTIONAL if commit.producer.producer_id >= 0 else 0
        batch, _ = batch_of(
            commit.encode_records(),
            offset,
            commit.record_count,
            now_ms,
            producer=commit.producer,
            attributes=attributes,
        )
        return batch
    return encode_batch(
        [
            LogRecord(offset + index, now_ms, *encode_record(record))
            for index, record in enumerate(result.records)
        ]
    )


def apply_result(shard: Shard, result: Result, offset: LogOffset, now_ms: int) -> None:
    """Apply the changes of a result and replay its records, as staged at an offset."""
    shard.apply(result)
    if result.commit is not None:
        shard.replay_commit(result.commit, result.commit.pack(offset))
    for index, record in enumerate(result.records):
        shard.replay(record, Origin(offset + index, now_ms))


def stage_commit(
    shard: Shard,
    log: Log,
    partition: LogPartition,
    commit: AcceptedOffsets,
    now_ms: int,
    batch_bytes_max: int,
) -> int:
    """Add the records of a commit to the staged batch, or begin one, and replay them.

    Return the bytes that the log grows by; 0, and change nothing, if the batch of this
    commit alone had more than `batch_bytes_max`.
    """
    assert commit.record_count > 0
    if commit.record_count * _RECORD_BYTES_MIN > batch_bytes_max:
        return 0
    batch = log.open_batch(partition, OPEN_BATCH_BYTES)
    grown = 0
    if batch is not None:
        records = commit.encode_records(batch.record_count)
        offset = batch.base_offset + batch.record_count
        grown = len(records)
        if batch.size_bytes + grown > batch_bytes_max:
            batch = log.open_batch(partition, 0)  # it is closed
    if batch is None:
        records, offset = commit.encode_records(), log.next_offset(partition)
        grown = HEADER_BYTES + len(records)
        if grown > batch_bytes_max:
            return 0
    shard.replay_commit(commit, commit.pack(offset))
    log.append_records(partition, records, commit.record_count, now_ms)
    return grown


def split_result(result: Result) -> Iterator[Result]:
    """Split a result into parts of `BATCH_RECORDS_MAX` records."""
    records = result.records
    yield result._replace(records=records[:BATCH_RECORDS_MAX])
    for start in range(BATCH_RECORDS_MAX, len(records), BATCH_RECORDS_MAX):
        yield Result(records=records[start : start + BATCH_RECORDS_MAX])
