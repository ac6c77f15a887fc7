"""OffsetFetch for many groups: the size of the response."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.offsets import fetch
from coterie.broker.server.apis import committed_offsets
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.server.apis.in_process_server import InProcessServer

INVALID = ErrorCode.INVALID_REQUEST


def server_with_offset() -> InProcessServer:
    """Return a server on which group g has an offset with 100 bytes of metadata."""
    server = InProcessServer()
    committed = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata="m" * 100
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[committed])
    server.call(OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    return server


def codes(server: InProcessServer, *groups: OffsetFetchRequestGroup) -> list[int]:
    answer = server.call(OffsetFetchRequest(groups=list(groups)), 9)
    assert [group.group_id for group in answer.groups] == ["g"] * len(groups)
    return [group.error_code for group in answer.groups]


def test_a_repeated_group_is_answered_until_the_response_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committed_offsets, "RESPONSE_BYTES_MAX", 200)
    every = OffsetFetchRequestGroup(group_id="g", topics=None)
    with server_with_offset() as server:
        assert codes(server, *[every] * 4) == [0, 0, INVALID, INVALID]
        assert codes(server, every) == [0]


def test_a_repeated_topic_is_answered_until_the_response_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "RESPONSE_BYTES_MAX", 200)
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    with server_with_offset() as server:
        for count, code in ((2, 0), (3, INVALID)):
            group = OffsetFetchRequestGroup(group_id="g", topics=[topic] * count)
            assert codes(server, group) == [code]


def test_a_topic_with_many_partitions_must_not_repeat_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "REPEATABLE_MAX", 2)
    with server_with_offset() as server:
        for indexes, code in (([0, 0], 0), ([0, 1, 2], 0), ([0, 1, 0], INVALID)):
            topic = OffsetFetchRequestTopics(name="t", partition_indexes=indexes)
            group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
            assert codes(server, group) == [code]
