"""Samples from Coterie's store: its batches tell when each partition grew.

One sample for each minute in which a partition got batches, at the time of the last of
them, by the timestamps that they carry. A past log is not known to have begun anywhere
but at 0; partitions that records were deleted from have one sample more, of now.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coterie.catalog.topics import Topic
from coterie.log.sqlite import OFFSET_BITS, OFFSET_MAX
from coterie.pipeline.sources.store_file import StoreFile
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES
from coterie.types import LogOffset, TopicId

_SPAN: Final = (
    f"place BETWEEN number << {OFFSET_BITS} AND number << {OFFSET_BITS} | {OFFSET_MAX}"
)
_GREW: Final = """
SELECT topic_id, partition, max(max_timestamp_ms), 0, max(last_offset) + 1
FROM partitions JOIN batches ON {span}
WHERE topic_id NOT IN ({internal}) AND max_timestamp_ms BETWEEN ? AND ?
GROUP BY number, max_timestamp_ms / 60000
ORDER BY number, max_timestamp_ms / 60000
"""
_WERE_CUT: Final = """
SELECT topic_id, partition, ?, log_start_offset, max(next_offset, coalesce(
    (SELECT max(last_offset) + 1 FROM batches WHERE {span}), 0))
FROM partitions
WHERE topic_id NOT IN ({internal}) AND log_start_offset > 0
ORDER BY number
"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Found(NamedTuple):
    topic_id: TopicId
    partition: int
    at_ms: int
    start: LogOffset
    end: LogOffset


def sample_store(file: StoreFile, after_ts: datetime | None = None) -> Any:
    """A row for each partition and minute after `after_ts`. Raises LogError."""
    topics = file.topics()
    internal = [each.topic_id for each in topics if each.is_internal]
    after_ms = 0
    if after_ts is not None:
        after_ms = (after_ts - _EPOCH) // timedelta(milliseconds=1) + 1
    now_ms = time.time_ns() // 1_000_000
    parts = {"span": _SPAN, "internal": ", ".join("?" * len(internal))}
    grew = file.ask(_GREW.format(**parts), [*internal, after_ms, now_ms])
    were_cut = file.ask(_WERE_CUT.format(**parts), [now_ms, *internal])
    found = [_Found(*each) for each in (*grew, *were_cut)]
    return _table(found, {each.topic_id: each for each in topics})


def _table(found: Iterable[_Found], topics: Mapping[TopicId, Topic]) -> Any:
    rows = []
    for _, of_partition in groupby(found, key=lambda each: each[:2]):
        end = 0
        for each in of_partition:
            # Producers' clocks may differ; a log does not get shorter.
            end = max(end, each.end)
            if (topic := topics.get(each.topic_id)) is not None:
                rows.append(_row(each, end, topic))
    return pa.Table.from_pylist(rows, schema=PARTITION_END_SAMPLES.schema)


def _row(found: _Found, end: LogOffset, topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id.hex(),
        "partition": found.partition,
        "sample_ts": found.at_ms * 1_000,
        "log_start_offset": found.start,
        "high_watermark": end,
        "partition_count": topic.partition_count,
    }
