"""Write plain commits: the commits of one loop iteration are one batch of their shard.

Each commit adds its records to the staged batch of the shard's partition and is
replayed at once, as any write is. Its response waits for the flush like all others. The
batch ends with the iteration, with a write of another kind, or at `OPEN_BATCH_BYTES`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.broker.coordinator.offsets.plain import commit_plain
from coterie.broker.coordinator.result import Context
from coterie.broker.runtime.shards import CoordinatorPartition, Phase
from coterie.wire.plain_commit import PlainCommit
from coterie.wire.record_batch import HEADER_BYTES

OPEN_BATCH_BYTES: Final = 65_536
"""The size from which on no commit is added to a batch."""


class Written(NamedTuple):
    """The bytes and the records that a commit adds to the log."""

    size_bytes: int
    record_count: int


def write_plain_commit(
    partition: CoordinatorPartition,
    request: PlainCommit,
    context: Context,
    batch_bytes_max: int,
) -> Written | None:
    """Stage the records of a commit, replay them and set the timers.

    Return None, and change nothing, when the general path has to handle the commit: it
    may be refused, or its batch would have more than `batch_bytes_max`.
    """
    assert partition.phase is Phase.ACTIVE
    log, log_partition, shard = partition.log, partition.log_partition, partition.shard
    batch = log.open_batch(log_partition, OPEN_BATCH_BYTES)
    if batch is None:
        base_offset, delta = log.next_offset(log_partition), 0
        batch_bytes, new_bytes = 0, HEADER_BYTES
    else:
        base_offset, delta = batch.base_offset, batch.record_count
        batch_bytes, new_bytes = batch.size_bytes, 0
    commit = commit_plain(shard.state, request, context, base_offset, delta)
    if commit is None:
        return None
    records, record_count, offsets, timers = commit
    new_bytes += len(records)
    if batch_bytes + new_bytes > batch_bytes_max:
        return None
    assert record_count > 0
    shard.store_commit(request.group_id, offsets)
    for timer in timers:
        partition.timers.change(timer)
    log.append_records(log_partition, records, record_count, context.now_ms)
    partition.records_since_snapshot += record_count
    return Written(new_bytes, record_count)
