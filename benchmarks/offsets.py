"""Requests about offsets as frames, and where their answers carry the error."""

from __future__ import annotations

from benchmarks.peer import frame
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
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

COMMIT, COMMIT_ERROR_AT = 9, -5  # of the last partition, before three empty tags
OFFSET_FETCH, OFFSET_FETCH_ERROR_AT = 8, -4  # of the last group
FETCH = 12


def fetch_error_at(topic: str) -> int:
    """Where a Fetch v12 of one topic carries the error of its first partition.

    Correlation id, tags, throttle, error, session, one array, the name, one array,
    the partition's number.
    """
    return 4 + 1 + 4 + 2 + 4 + 1 + (1 + len(topic.encode())) + 1 + 4


def commit(
    group: str,
    topic: str,
    partitions: int,
    *,
    member_id: str = "",
    generation: int = -1,
) -> OffsetCommitRequest:
    """Commit the first so many partitions of a topic."""
    rows = [
        OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=1_000 + number,
            committed_metadata="",
        )
        for number in range(partitions)
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
    )


def commit_frame(group: str, topic: str, partitions: int) -> bytes:
    """A commit of a group without members."""
    return frame(commit(group, topic, partitions), COMMIT)


def offset_fetch(group: str, topic: str, partition: int) -> OffsetFetchRequest:
    """Ask for one committed offset."""
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])]
    )


def fetch_frame(topic: str) -> bytes:
    """Read the first records of partition 0, at once, without a session."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=4_096)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return frame(request, FETCH)
