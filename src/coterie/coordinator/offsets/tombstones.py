"""Taking offsets away: the tombstones, and which topics a group still needs."""

from __future__ import annotations

from typing import NamedTuple

from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.offsets.packed import topic_id_of
from coterie.coordinator.records.offset_commit import OffsetCommitKey
from coterie.coordinator.result import Context, Record, Result
from coterie.coordinator.state import State
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.schema import ZERO_UUID


def tombstone(group_id: GroupId, topic: TopicName, partition: int) -> Record:
    """The offset is gone, whether stored or pending (E17-17)."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return Record(key, None)


def all_tombstones(state: State, group_id: GroupId) -> list[Record]:
    """One for each partition with an offset of the group, stored or pending (D-15)."""
    return [tombstone(group_id, *name) for name in state.offsets.partitions(group_id)]


def is_subscribed(group: ClassicGroup, topic: TopicName) -> bool:
    """Whether members may be reading the topic: yes, too, when a consumer group's
    subscriptions are not known yet (D-53)."""
    topics = group.subscribed_topics()
    if topics is None:
        return group.uses_consumer_protocol
    return topic in topics


class DeletedTopic(NamedTuple):
    """A topic that was deleted."""

    name: TopicName
    topic_id: TopicId


class TopicsDeleted(NamedTuple):
    """The catalog's word to every shard, after topics were deleted."""

    topics: tuple[DeletedTopic, ...]


def forget_topics(state: State, request: TopicsDeleted, context: Context) -> Result:
    """Tombstones for all their offsets in all groups, the pending too (E17-21, H-100).

    An offset that carries the id of another topic of that name stays.
    """
    records: dict[tuple[GroupId, TopicName, int], Record] = {}
    for topic in request.topics:
        for name in _offsets_of(state, topic):
            records[name] = tombstone(*name)
    return Result(records=tuple(records.values()))


def _offsets_of(
    state: State, topic: DeletedTopic
) -> list[tuple[GroupId, TopicName, int]]:
    stored, pending = state.offsets.stored, state.offsets.pending
    wanted = (ZERO_UUID, topic.topic_id)
    found = [
        (group_id, topic.name, partition)
        for group_id in tuple(stored)
        for partition, packed in stored.partitions(group_id, topic.name).items()
        if topic_id_of(packed) in wanted
    ]
    for transaction in pending.transactions.values():
        for group_id, offsets in transaction.groups.items():
            found += [
                (group_id, topic.name, name.partition)
                for name, committed in offsets.items()
                if name.topic == topic.name and committed.topic_id in wanted
            ]
    return found
