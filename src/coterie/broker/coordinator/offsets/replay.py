"""Replay offset records and transaction markers: the only way offsets change.

Compaction may have removed any earlier record, so a tombstone without an offset, a
marker without a transaction and a commit to an unknown group are not errors.
"""

from __future__ import annotations

from coterie.broker.coordinator.offsets.accepted import AcceptedOffsets, PackedOffsets
from coterie.broker.coordinator.offsets.committed import CommittedOffset, unpack
from coterie.broker.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.broker.coordinator.result import Origin
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, ProducerId, TopicPartition


def replay(
    state: State,
    key: OffsetCommitKey,
    value: OffsetCommitValue | None,
    origin: Origin,
) -> None:
    """Store a committed offset, as pending if it is part of a transaction (E17-16).

    A tombstone removes stored and pending offsets (E17-17). As in Kafka's
    `OffsetMetadataManager`, a group that a commit created stays without offsets until
    the next sweep.
    """
    if value is None:
        state.offsets.stored.remove(key.group, key.topic, key.partition)
        state.offsets.pending.remove(key.group, key.topic, key.partition)
        return
    committed = CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        origin.log_offset,
        value.topic_id,
    )
    group_id = key.group
    state.ensure_group(group_id)
    if origin.producer_id < 0:
        state.offsets.stored.put(group_id, key.topic, key.partition, committed)
        return
    producer = (origin.producer_id, origin.producer_epoch)
    name = TopicPartition(key.topic, key.partition)
    state.offsets.pending.put(producer, group_id, name, committed)


def replay_commit(
    state: State, commit: AcceptedOffsets, offsets: PackedOffsets
) -> None:
    """Store the packed offsets of a commit, as the replay of its records does."""
    group_id, producer = commit.group_id, commit.producer
    state.ensure_group(group_id)
    for topic, of_topic in offsets:
        if producer.producer_id < 0:
            state.offsets.stored.put_all(group_id, topic, of_topic)
            continue
        for partition, packed in of_topic.items():
            name = TopicPartition(topic, partition)
            state.offsets.pending.put(producer[:2], group_id, name, unpack(packed))


def replay_marker(
    state: State, producer_id: ProducerId, *, commit: bool
) -> tuple[GroupId, ...]:
    """End a producer's transaction; return the groups that had offsets in it.

    On COMMIT each offset replaces the stored one, unless that has a higher log offset
    (E17-16, H-90). On ABORT they are dropped.
    """
    ended = state.offsets.pending.end(producer_id)
    for group_id, offsets in ended.items():
        if commit:
            for name, committed in offsets.items():
                _settle(state, group_id, name, committed)
    return tuple(ended)


def _settle(
    state: State, group_id: GroupId, name: TopicPartition, committed: CommittedOffset
) -> None:
    stored = state.offsets.stored
    present = stored.get(group_id, name.topic, name.partition)
    if present is None or committed.record_offset > present.record_offset:
        stored.put(group_id, name.topic, name.partition, committed)
