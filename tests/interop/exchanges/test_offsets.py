"""OffsetCommit, OffsetFetch and OffsetDelete: answers and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from coterie.broker.coordinator.record_serde import decode_record
from coterie.broker.coordinator.records import OffsetCommitValue
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.server.harness import WireClient

from .log_records import Position, end_of_log, records_of
from .members import topic_id


def commit_to(
    wire: WireClient,
    group: str,
    topics: Iterable[tuple[str, bytes, Mapping[int, int]]],
    version: int = 9,
    **fields: Any,
) -> list[tuple[str | bytes, list[tuple[int, int]]]]:
    """Commit to topics of a name and an id; return each topic of the response, by its
    name or id, with partitions and error codes."""
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=found_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_metadata="",
                    )
                    for index, offset in offsets.items()
                ],
            )
            for name, found_id, offsets in topics
        ],
        **fields,
    )
    return [
        (
            topic.name if version < 10 else topic.topic_id,
            [(each.partition_index, each.error_code) for each in topic.partitions],
        )
        for topic in wire.call(request, version).topics
    ]


def committed(
    wire: WireClient, group: str, since: Position
) -> list[tuple[int, OffsetCommitValue]]:
    """Return the version and the value of each record of a commit."""
    values = []
    for key, value in records_of(wire, group, since):
        record = decode_record(key, value)
        assert value is not None
        assert record is not None
        assert isinstance(record.value, OffsetCommitValue)
        values.append((int.from_bytes(value[:2], "big"), record.value))
    return values


@pytest.mark.parametrize("version", range(2, 11))
def test_each_version_writes_the_topic_id(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    since = end_of_log(wire, group)
    found_id = topic_id(wire, topic)
    commit_to(wire, group, [(topic, found_id, {0: 5})], version)
    [(record_version, value)] = committed(wire, group, since)
    assert (record_version, value.offset, value.topic_id) == (4, 5, found_id)


def test_a_record_with_a_retention_time_has_no_topic_id(
    wire: WireClient, group: str, topic: str
) -> None:
    since = end_of_log(wire, group)
    fields = {"retention_time_ms": 60_000}
    commit_to(wire, group, [(topic, b"", {0: 5})], 2, **fields)
    [(record_version, value)] = committed(wire, group, since)
    assert (record_version, value.topic_id) == (1, bytes(16))
    assert value.expire_timestamp == value.commit_timestamp + 60_000
