"""OffsetFetch of each version: the size of the response, and stable offsets."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from coterie.broker.coordinator.offsets import fetch
from coterie.broker.server.apis import committed_offsets
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.in_process_server import InProcessServer

INVALID = ErrorCode.INVALID_REQUEST


def server_with_offset() -> InProcessServer:
    """Return a server on which group g has an offset with 100 bytes of metadata."""
    server = InProcessServer()
    committed = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata="m" * 100
    )
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[committed])
    server.call(m.OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    return server


@pytest.mark.parametrize("version", range(1, 8))
def test_versions_of_one_group_have_the_same_partitions(version: int) -> None:
    topic = m.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])
    request = m.OffsetFetchRequest(group_id="g", topics=[topic])
    with server_with_offset() as server:
        response = server.call(request, version)
    [found] = response.topics
    rows = [(each.committed_offset, each.metadata) for each in found.partitions]
    assert (found.name, rows) == ("t", [(5, "m" * 100), (-1, "")])
    assert response.error_code == 0


def codes(server: InProcessServer, *groups: m.OffsetFetchRequestGroup) -> list[int]:
    answer = server.call(m.OffsetFetchRequest(groups=list(groups)), 9)
    assert [group.group_id for group in answer.groups] == ["g"] * len(groups)
    return [group.error_code for group in answer.groups]


def test_a_repeated_group_is_answered_until_the_response_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committed_offsets, "RESPONSE_BYTES_MAX", 200)
    every = m.OffsetFetchRequestGroup(group_id="g", topics=None)
    with server_with_offset() as server:
        assert codes(server, *[every] * 4) == [0, 0, INVALID, INVALID]
        assert codes(server, every) == [0]


def test_a_repeated_topic_is_answered_until_the_response_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "RESPONSE_BYTES_MAX", 200)
    topic = m.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    with server_with_offset() as server:
        for count, code in ((2, 0), (3, INVALID)):
            group = m.OffsetFetchRequestGroup(group_id="g", topics=[topic] * count)
            assert codes(server, group) == [code]


def test_one_byte_beyond_the_limit_is_the_end_of_a_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = m.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = m.OffsetFetchRequestGroup(group_id="g", topics=[topic] * 2)
    with server_with_offset() as server:
        found = []
        for limit in range(100, 150):
            monkeypatch.setattr(fetch, "RESPONSE_BYTES_MAX", limit)
            found += codes(server, group)
    # A partition: 4 bytes of index, 8 of offset, 4 of leader epoch, 101 of metadata, 2
    # of error code, 1 of tags. A response of exactly the limit may go on.
    size = 4 + 8 + 4 + 101 + 2 + 1
    assert found == [INVALID] * (size - 100) + [0] * (150 - size)


def test_a_topic_with_many_partitions_must_not_repeat_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "REPEATABLE_MAX", 2)
    with server_with_offset() as server:
        for indexes, code in (([0, 0], 0), ([0, 1, 2], 0), ([0, 1, 0], INVALID)):
            topic = m.OffsetFetchRequestTopics(name="t", partition_indexes=indexes)
            group = m.OffsetFetchRequestGroup(group_id="g", topics=[topic])
            assert codes(server, group) == [code]


def commit_in_transaction(server: InProcessServer) -> None:
    """Commit an offset of t-0 in a transaction that stays open."""
    init = m.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    producer = server.call(init, 5)
    partition = m.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=9, committed_metadata=""
    )
    commit = m.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[m.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    [topic] = server.call(commit, 5).topics
    assert topic.partitions[0].error_code == 0


def fetched(server: InProcessServer, version: int, *, stable: bool) -> dict[int, Any]:
    """Return the error code and offset of t-0 and t-1, fetched with a version."""
    request = m.OffsetFetchRequest(require_stable=stable)
    if version < 8:
        request.group_id = "g"
        request.topics = [m.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    else:
        asked = m.OffsetFetchRequestTopics(partition_indexes=[0, 1])
        if version < 10:
            asked.name = "t"
        else:
            asked.topic_id = server.topic_id("t")
        request.groups = [m.OffsetFetchRequestGroup(group_id="g", topics=[asked])]
    response = server.call(request, version)
    [topic] = response.topics if version < 8 else response.groups[0].topics
    return {
        each.partition_index: (each.error_code, each.committed_offset)
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_only_partitions_with_an_open_transaction_are_unstable(version: int) -> None:
    with InProcessServer() as server:
        partitions = [
            m.OffsetCommitRequestPartition(partition_index=each, committed_offset=5)
            for each in (0, 1)
        ]
        topic = m.OffsetCommitRequestTopic(name="t", partitions=partitions)
        server.call(m.OffsetCommitRequest(group_id="g", topics=[topic]), 9)
        commit_in_transaction(server)
        assert fetched(server, version, stable=False) == {0: (0, 5), 1: (0, 5)}
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert fetched(server, version, stable=True) == {0: (unstable, -1), 1: (0, 5)}


@pytest.mark.parametrize("version", [7, 9])
def test_many_topics_are_fetched_in_parts_of_one_response(version: int) -> None:
    names = [f"topic-{at}" for at in range(349)]
    wanted = [*names[:201], "t", *names[201:]]
    with server_with_offset() as server:
        if version == 7:
            request = m.OffsetFetchRequest(
                group_id="g",
                topics=[
                    m.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
                    for name in wanted
                ],
            )
            topics = server.call(request, version).topics
        else:
            group = m.OffsetFetchRequestGroup(
                group_id="g",
                topics=[
                    m.OffsetFetchRequestTopics(name=name, partition_indexes=[0])
                    for name in wanted
                ],
            )
            [answer] = server.call(m.OffsetFetchRequest(groups=[group]), 9).groups
            topics = answer.topics
    assert [topic.name for topic in topics] == wanted
    offsets = [topic.partitions[0].committed_offset for topic in topics]
    assert offsets == [5 if name == "t" else -1 for name in wanted]


@pytest.mark.parametrize("module", [fetch, committed_offsets])
def test_parts_of_many_topics_have_the_error_of_the_group(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    # The limit is exceeded within a part, or by all parts together.
    limit = 200 if module is fetch else 3_000
    monkeypatch.setattr(module, "RESPONSE_BYTES_MAX", limit)
    topics = [
        m.OffsetFetchRequestTopics(name=f"topic-{at}", partition_indexes=[0])
        for at in range(250)
    ]
    group = m.OffsetFetchRequestGroup(group_id="g", topics=topics)
    with server_with_offset() as server:
        [answer] = server.call(m.OffsetFetchRequest(groups=[group]), 9).groups
    assert (answer.error_code, answer.topics) == (INVALID, [])
