"""Samples of a whole cluster: every topic that is not the cluster's own, now.

Each question (first offset, last stable offset, end) is one request a leader, so the
ends of all its partitions are of one moment; `sample_ts` is that moment as we know it,
`round_trip_ms` how far it may be off.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coterie.client.admin.log_offsets import list_offsets
from coterie.client.admin.offset_values import (
    EARLIEST,
    LATEST,
    LogOffsetFound,
    PartitionDescription,
    TopicDescription,
)
from coterie.client.admin.topics import describe_topics
from coterie.client.cluster import Cluster
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES
from coterie.types import TopicPartition

_US: Final = 1_000_000


class Looked(NamedTuple):
    """When the ends were asked for, in us since 1970, and how long that took."""

    at_us: int
    round_trip_ms: int


class Found(NamedTuple):
    """The offsets of a partition; `stable` is None on brokers before 0.11."""

    start: LogOffsetFound
    stable: LogOffsetFound | None
    end: LogOffsetFound


async def sample_cluster(cluster: Cluster) -> Any:
    """A row for each partition whose offsets could be read. Raises ClientError."""
    topics = [
        topic
        for topic in (await describe_topics(cluster)).values.values()
        if not topic.is_internal
    ]
    partitions = [each for topic in topics for each in topic.all_partitions]
    starts, stables = await asyncio.gather(
        list_offsets(cluster, dict.fromkeys(partitions, EARLIEST)),
        list_offsets(cluster, dict.fromkeys(partitions, LATEST), committed_only=True),
    )
    # The ends last: no start and no stable offset lies beyond them.
    at_us, before_s = int(time.time() * _US), time.monotonic()
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    looked = Looked(at_us, int((time.monotonic() - before_s) * 1_000))
    rows = []
    for topic in topics:
        for about in topic.partitions:
            each = TopicPartition(topic.name, about.partition)
            if each in starts.values and each in ends.values:
                stable = stables.values.get(each)
                found = Found(starts.values[each], stable, ends.values[each])
                rows.append(_row(topic, about, found, looked))
    return pa.Table.from_pylist(rows, schema=PARTITION_END_SAMPLES.schema)


def _row(
    topic: TopicDescription, about: PartitionDescription, found: Found, looked: Looked
) -> dict[str, Any]:
    end = found.end
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id.hex() if topic.topic_id else None,
        "partition": about.partition,
        "sample_ts": looked.at_us,
        "log_start_offset": min(found.start.offset, end.offset),
        "high_watermark": end.offset,
        "last_stable_offset": None if found.stable is None else found.stable.offset,
        "leader_id": about.leader_id,
        "leader_epoch": end.leader_epoch,
        "partition_count": len(topic.partitions),
        "round_trip_ms": looked.round_trip_ms,
    }
