"""OffsetCommit, OffsetFetch and OffsetDelete: answers and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from coterie.broker.coordinator.record_serde import decode_record
from coterie.broker.coordinator.records import OffsetCommitValue
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .log_records import Position, end_of_log, records_of
from .members import (
    commit,
    describe_classic,
    topic_id,
)

UNKNOWN_TOPIC_OR_PARTITION = 3
ILLEGAL_GENERATION = 22
INVALID_GROUP_ID = 24
GROUP_ID_NOT_FOUND = 69
UNKNOWN_TOPIC_ID = 100


def commit_to(
    wire: WireClient,
    group: str,
    topics: Iterable[tuple[str, bytes, Mapping[int, int]]],
    version: int = 9,
    **fields: Any,
) -> list[tuple[str | bytes, list[tuple[int, int]]]]:
    """Commit to topics of a name and an id; return each topic of the response, by its
    name or id, with partitions and error codes."""
    request = m.OffsetCommitRequest(
        group_id=group,
        topics=[
            m.OffsetCommitRequestTopic(
                name=name,
                topic_id=found_id,
                partitions=[
                    m.OffsetCommitRequestPartition(
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


@pytest.mark.fact("E17-09")
@pytest.mark.parametrize("version", range(2, 11))
def test_each_version_writes_the_topic_id(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    since = end_of_log(wire, group)
    found_id = topic_id(wire, topic)
    commit_to(wire, group, [(topic, found_id, {0: 5})], version)
    [(record_version, value)] = committed(wire, group, since)
    assert (record_version, value.offset, value.topic_id) == (4, 5, found_id)


@pytest.mark.fact("E17-09a")
def test_a_record_with_a_retention_time_has_no_topic_id(
    wire: WireClient, group: str, topic: str
) -> None:
    since = end_of_log(wire, group)
    fields = {"retention_time_ms": 60_000}
    commit_to(wire, group, [(topic, b"", {0: 5})], 2, **fields)
    [(record_version, value)] = committed(wire, group, since)
    assert (record_version, value.topic_id) == (1, bytes(16))
    assert value.expire_timestamp == value.commit_timestamp + 60_000


def delete_from(
    wire: WireClient, group: str, topics: Iterable[tuple[str, Iterable[int]]]
) -> tuple[int, list[tuple[str, list[tuple[int, int]]]]]:
    """Send an OffsetDelete; return its error code, and the topics with partitions and
    error codes."""
    request = m.OffsetDeleteRequest(
        group_id=group,
        topics=[
            m.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    m.OffsetDeleteRequestPartition(partition_index=index)
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )
    response = wire.call(request, 0)
    return response.error_code, [
        (
            topic.name,
            [(each.partition_index, each.error_code) for each in topic.partitions],
        )
        for topic in response.topics
    ]


@pytest.mark.parametrize("version", range(2, 11))
def test_topics_without_partitions_are_left_out_of_a_commit(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    known = (topic, topic_id(wire, topic))
    unknown = (f"{topic}-unknown", b"unknown".ljust(16, b"\0"))
    at = version >= 10
    found = commit_to(wire, group, [(*known, {})], version)
    assert found == []
    found = commit_to(
        wire, group, [(*known, {}), (*unknown, {}), (*known, {1: 5})], version
    )
    assert found == [(unknown[at], []), (known[at], [(1, 0)])]


@pytest.mark.fact("E17-08")
@pytest.mark.parametrize("version", range(2, 11))
def test_errors_of_partitions_precede_the_others(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    known = (topic, topic_id(wire, topic))
    unknown = (f"{topic}-unknown", b"unknown".ljust(16, b"\0"))
    at = version >= 10
    offsets = [(*known, {1: 5, 9: 5, 0: 5}), (*unknown, {0: 5})]
    code = UNKNOWN_TOPIC_ID if at else UNKNOWN_TOPIC_OR_PARTITION
    assert commit_to(wire, group, offsets, version) == [
        (known[at], [(9, UNKNOWN_TOPIC_OR_PARTITION), (1, 0), (0, 0)]),
        (unknown[at], [(0, code)]),
    ]
    refused = commit_to(
        wire,
        f"{group}-none",
        offsets,
        version,
        member_id="m",
        generation_id_or_member_epoch=1,
    )
    error = ILLEGAL_GENERATION if version < 9 else GROUP_ID_NOT_FOUND
    assert refused == [
        (known[at], [(9, UNKNOWN_TOPIC_OR_PARTITION), (1, error), (0, error)]),
        (unknown[at], [(0, code)]),
    ]


@pytest.mark.fact("D-54b")
def test_topics_without_partitions_are_left_out_of_a_deletion(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 5})
    unknown = f"{topic}-unknown"
    topics = [(topic, []), (unknown, []), (topic, [1, 9])]
    assert delete_from(wire, group, topics) == (
        0,
        [(unknown, []), (topic, [(9, UNKNOWN_TOPIC_OR_PARTITION), (1, 0)])],
    )
    assert delete_from(wire, f"{group}-none", topics) == (GROUP_ID_NOT_FOUND, [])
    assert delete_from(wire, "", topics) == (INVALID_GROUP_ID, [])


def test_a_group_stays_when_its_only_offset_is_deleted(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 5})
    for _ in range(2):
        assert delete_from(wire, group, [(topic, [0])]) == (0, [(topic, [(0, 0)])])
        assert describe_classic(wire, group).group_state == "Empty"


def fetched(
    wire: WireClient, group: str, topic: str, topic_id: bytes, version: int
) -> list[tuple[int, int]]:
    """Return offset and error code of partition 0 as OffsetFetch returns them."""
    requested = m.OffsetFetchRequestTopics(
        name="" if version >= 10 else topic,
        topic_id=topic_id if version >= 10 else bytes(16),
        partition_indexes=[0],
    )
    asked = m.OffsetFetchRequestGroup(group_id=group, topics=[requested])
    [found] = wire.call(m.OffsetFetchRequest(groups=[asked]), version).groups
    return [
        (each.committed_offset, each.error_code)
        for of_topic in found.topics
        for each in of_topic.partitions
    ]


def test_a_repeated_topic_or_partition_is_answered_each_time(
    wire: WireClient, group: str, topic: str
) -> None:
    repeated = [(topic, b"", {0: 1}), (topic, b"", {0: 3})]
    found = commit_to(wire, group, repeated)
    assert found == [(topic, [(0, 0)]), (topic, [(0, 0)])]
    assert fetched(wire, group, topic, b"", 9) == [(3, 0)]
    # With an error anywhere, each topic is answered once.
    found = commit_to(wire, group, [*repeated, (topic, b"", {9: 1})])
    errors = [(9, UNKNOWN_TOPIC_OR_PARTITION), (0, 0), (0, 0)]
    assert found == [(topic, errors)]
    assert delete_from(wire, group, [(topic, [0, 0]), (topic, [0])]) == (
        0,
        [(topic, [(0, 0), (0, 0)]), (topic, [(0, 0)])],
    )
