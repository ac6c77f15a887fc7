"""When a partition is compacted, and up to where.

Kafka's rules: enough of the log must be new since the last time
(`min.cleanable.dirty.ratio`), or some of it old enough (`max.compaction.lag.ms`); and
nothing younger than `min.compaction.lag.ms` is touched. Where Kafka spares the active
segment, here the last batch is spared: a reader in a gap always finds a batch after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie.catalog.topic_configs import TopicSettings
from coterie.log.compaction import compact
from coterie.log.log import BatchInfo, Log
from coterie.runtime.partitions import Partition, partition_key
from coterie.types import LogOffset

COMPACTED_SPACE: Final = "compacted"
"""Where the log keeps up to which offset each partition has been compacted."""


def compaction(
    log: Log,
    partition: Partition,
    settings: TopicSettings,
    *,
    now_ms: int,
    before: LogOffset | None = None,
) -> Iterator[None]:
    """Compact a partition if that is due, a step a batch, staging what changes.

    Nothing from `before` on is touched: who keeps a snapshot of an earlier state needs
    every tombstone since then.
    Whoever steps through it must stop for good when a flush of what it staged fails: a
    later step may drop a tombstone only because an earlier one dropped what it deletes.
    """
    if not settings.compact:
        return
    key = partition_key(partition.where)
    kept = log.get(COMPACTED_SPACE, key)
    start = 0 if kept is None else int.from_bytes(kept, "big")
    end = _end(log, partition, settings, start=start, now_ms=now_ms)
    if end is not None and before is not None:
        end = min(end, before)
    if end is None or end <= start:
        return
    assert start < end <= partition.last_stable_offset()
    yield from compact(
        log,
        partition.where,
        start=start,
        end=end,
        tombstones_before_ms=now_ms - settings.delete_retention_ms,
    )
    log.put(COMPACTED_SPACE, key, end.to_bytes(8, "big"))


def _end(
    log: Log,
    partition: Partition,
    settings: TopicSettings,
    *,
    start: LogOffset,
    now_ms: int,
) -> LogOffset | None:
    """Up to where to compact now; None when it is not worth it yet."""
    first = max(start, partition.bounds().log_start_offset)
    dirty = list(
        _cleanable(
            log, partition, first, newest_ms=now_ms - settings.min_compaction_lag_ms
        )
    )
    if not dirty:
        return None
    is_overdue = dirty[0].max_timestamp_ms < now_ms - settings.max_compaction_lag_ms
    assert first <= dirty[0].last_offset
    dirty_bytes = sum(info.size_bytes for info in dirty)
    total_bytes = log.size_bytes(partition.where)
    if (
        not is_overdue
        and dirty_bytes < settings.min_cleanable_dirty_ratio * total_bytes
    ):
        return None
    return dirty[-1].last_offset + 1


def _cleanable(
    log: Log, partition: Partition, first: LogOffset, *, newest_ms: int
) -> Iterator[BatchInfo]:
    """The batches from `first` on that are decided, old enough and not the last."""
    assert first >= partition.bounds().log_start_offset
    stable = partition.last_stable_offset()
    before: BatchInfo | None = None
    for info in log.infos(partition.where, first):
        if before is not None:
            yield before
        if info.last_offset >= stable or info.max_timestamp_ms > newest_ms:
            return
        before = info
