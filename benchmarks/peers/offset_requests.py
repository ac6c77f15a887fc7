"""Frames of offset requests, and the position of the error code in their responses."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.peers.connection import Connection, frame
from coterie.wire import messages as m

COMMIT, COMMIT_ERROR_AT = 9, -5  # of the last partition, before three empty tag buffers
OFFSET_FETCH, OFFSET_FETCH_ERROR_AT = 8, -4  # of the last group
FETCH = 12


def fetch_error_at(topic: str) -> int:
    """Return the position of the first partition's error code in a Fetch v12 response.

    Before it: correlation id, tags, throttle time, error code, session id, array size,
    topic name, array size, partition index.
    """
    return 4 + 1 + 4 + 2 + 4 + 1 + (1 + len(topic.encode())) + 1 + 4


def commit(
    group: str,
    topic: str,
    partitions: int,
    *,
    member_id: str = "",
    generation: int = -1,
) -> m.OffsetCommitRequest:
    """Return an OffsetCommit request for the first partitions of a topic."""
    rows = [
        m.OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=1_000 + number,
            committed_metadata="",
        )
        for number in range(partitions)
    ]
    return m.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[m.OffsetCommitRequestTopic(name=topic, partitions=rows)],
    )


def commit_frame(group: str, topic: str, partitions: int) -> bytes:
    """Return the frame of an OffsetCommit request for a group without members."""
    return frame(commit(group, topic, partitions), COMMIT)


def offset_fetch(
    groups: Iterable[str], topic: str, partitions: Iterable[int]
) -> m.OffsetFetchRequest:
    """Return an OffsetFetch request for committed offsets of a topic, in each group."""
    wanted = m.OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))
    return m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequestGroup(group_id=group, topics=[wanted])
            for group in groups
        ]
    )


def commit_offsets(
    address: str, groups: Iterable[str], topic: str, partitions: int
) -> None:
    """Commit offsets of groups without members."""
    with Connection(address) as connection:
        for group in groups:
            request = commit(group, topic, partitions)
            response = connection.call(request, m.OffsetCommitResponse, COMMIT)
            errors = {
                part.error_code for each in response.topics for part in each.partitions
            }
            assert errors == {0}, errors


def fetch_frame(topic: str) -> bytes:
    """Return the frame of a Fetch request for partition 0, with no wait time and no
    fetch session.
    """
    partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=4_096)
    request = m.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[m.FetchTopic(topic=topic, partitions=[partition])],
    )
    return frame(request, FETCH)
