"""When a partition is compacted, and up to where.

Kafka's rules: enough of the log must be new since the last time
(`min.cleanable.dirty.ratio`), or some of it old enough (`max.compaction.lag.ms`); and
nothing younger than `min.compaction.lag.ms` is touched. Where Kafka spares the active
segment, here the last batch is spared: a reader in a gap always finds a batch after it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice, pairwise
from typing import Final, NamedTuple

from coterie.catalog.topic_configs import TopicSettings
from coterie.log.compaction import compact
from coterie.log.log import Log
from coterie.runtime.partitions import Partition, partition_key
from coterie.types import LogOffset

COMPACTED_SPACE: Final = "compacted"
"""Where the log keeps up to which offset each partition has been compacted."""
INFOS_PER_STEP: Final = 500


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
    yield from partition.catch_up()
    key = partition_key(partition.where)
    kept = log.get(COMPACTED_SPACE, key)
    start = 0 if kept is None else int.from_bytes(kept, "big")
    end = yield from _end(log, partition, settings, start=start, now_ms=now_ms)
    if before is not None:
        end = min(end, before)
    if end <= start:
        return
    assert end <= partition.last_stable_offset()
    end = yield from compact(
        log,
        partition.where,
        start=start,
        end=end,
        tombstones_before_ms=now_ms - settings.delete_retention_ms,
    )
    log.put(COMPACTED_SPACE, key, end.to_bytes(8, "big"))


class _Dirty(NamedTuple):
    """The batches not compacted yet that may be: decided, old enough and not the
    last."""

    oldest_ms: int
    size_bytes: int
    end: LogOffset


def _end(
    log: Log,
    partition: Partition,
    settings: TopicSettings,
    *,
    start: LogOffset,
    now_ms: int,
) -> Generator[None, None, LogOffset]:
    """Up to where to compact now; `start` when it is not worth it yet."""
    newest_ms = now_ms - settings.min_compaction_lag_ms
    dirty = yield from _dirty(log, partition, start, newest_ms=newest_ms)
    if dirty is None:
        return start
    is_overdue = dirty.oldest_ms < now_ms - settings.max_compaction_lag_ms
    total_bytes = log.size_bytes(partition.where)
    is_much = dirty.size_bytes >= settings.min_cleanable_dirty_ratio * total_bytes
    return dirty.end if is_overdue or is_much else start


def _dirty(
    log: Log, partition: Partition, start: LogOffset, *, newest_ms: int
) -> Generator[None, None, _Dirty | None]:
    """Looked up `INFOS_PER_STEP` at a time; others work in between."""
    stable = partition.last_stable_offset()
    oldest_ms, size_bytes, end = -1, 0, -1
    at = max(start, partition.bounds().log_start_offset)
    while infos := list(islice(log.infos(partition.where, at), INFOS_PER_STEP + 1)):
        for info, following in pairwise(infos):
            if info.last_offset >= stable or info.max_timestamp_ms > newest_ms:
                break
            oldest_ms = oldest_ms if end >= 0 else info.max_timestamp_ms
            size_bytes += info.size_bytes
            end = at = info.last_offset + 1
            assert following.base_offset >= end
        else:
            if len(infos) > INFOS_PER_STEP:
                yield
                continue
        break
    return None if end < 0 else _Dirty(oldest_ms, size_bytes, end)
