"""Records of `__consumer_offsets`, read by raw requests."""

from __future__ import annotations

from typing import NamedTuple

from coterie.broker.runtime.shards import partition_for
from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, decode_records, split_batches
from tests.broker.server.harness import WireClient

OFFSETS_TOPIC = "__consumer_offsets"
LATEST = -1


class Position(NamedTuple):
    """An offset in the log partition of a group."""

    partition: int
    offset: int


def end_of_log(wire: WireClient, group: str) -> Position:
    """Return the end of the group's log partition."""
    topics = [m.MetadataRequestTopic(name=OFFSETS_TOPIC)]
    [found] = wire.call(m.MetadataRequest(topics=topics), 9).topics
    partition = partition_for(group, len(found.partitions))
    asked = m.ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    topic = m.ListOffsetsTopic(name=OFFSETS_TOPIC, partitions=[asked])
    response = wire.call(m.ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
    [end] = response.topics[0].partitions
    assert end.error_code == 0
    return Position(partition, end.offset)


def records_of(
    wire: WireClient, group: str, since: Position
) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of the group's records of offsets and metadata."""
    return [
        (record.key, record.value)
        for record in read_log(wire, group, since)
        if record.key is not None
    ]


def read_log(wire: WireClient, group: str, since: Position) -> list[LogRecord]:
    """Return the group's records of offsets and metadata."""
    asked = m.FetchPartition(
        partition=since.partition,
        fetch_offset=since.offset,
        partition_max_bytes=1 << 20,
    )
    topic = m.FetchTopic(topic=OFFSETS_TOPIC, partitions=[asked])
    request = m.FetchRequest(min_bytes=1, max_wait_ms=500, topics=[topic])
    [found] = wire.call(request, 12).responses[0].partitions
    assert found.error_code == 0
    name = group.encode()
    named = len(name).to_bytes(2, "big") + name
    return [
        record
        for header, batch in split_batches(found.records or b"")
        if not header.is_control
        for record in decode_records(batch, header)
        if record.key is not None
        and record.offset >= since.offset
        and record.key[2:].startswith(named)
    ]
