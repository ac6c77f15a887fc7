"""Taking offsets away: the tombstones, and which topics a group still needs."""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.coordinator.classic import records as classic_records
from coterie.coordinator.consumer import records as consumer_records
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.offsets.packed import topic_id_of
from coterie.coordinator.records.offset_commit import OffsetCommitKey
from coterie.coordinator.result import Context, Record, Result, Timer
from coterie.coordinator.state import Group, State
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.schema import ZERO_UUID

SLICE_GROUPS: Final = 50
"""How many groups are looked through for a deleted topic before others have a turn."""


def tombstone(group_id: GroupId, topic: TopicName, partition: int) -> Record:
    """The offset is gone, whether stored or pending (E17-17)."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return Record(key, None)


def all_tombstones(state: State, group_id: GroupId) -> list[Record]:
    """One for each partition with an offset of the group, stored or pending (D-15)."""
    return [tombstone(group_id, *name) for name in state.offsets.partitions(group_id)]


def group_tombstones(group: Group) -> list[Record]:
    """All that takes a group away, its offsets apart (E22-29)."""
    if isinstance(group, ConsumerGroup):
        return consumer_records.group_tombstones(group)
    return [classic_records.tombstone(group.group_id)]


def is_subscribed(state: State, group: Group, topic: TopicName) -> bool:
    """Whether members may be reading the topic: yes, too, when the subscriptions of a
    classic group of consumers are not known yet (D-53)."""
    if isinstance(group, ConsumerGroup):
        return group.group_id in state.topic_index.groups(topic)
    topics = group.subscribed_topics()
    if topics is None:
        return group.uses_consumer_protocol
    return topic in topics


class DeletedTopic(NamedTuple):
    """A topic that was deleted."""

    name: TopicName
    topic_id: TopicId


class TopicsDeleted(NamedTuple):
    """The catalog's word to every shard, after topics were deleted.

    `group_ids` are yet to be looked through; None when none has been.
    """

    topics: tuple[DeletedTopic, ...]
    group_ids: tuple[GroupId, ...] | None = None


def forget_topics(state: State, request: TopicsDeleted, context: Context) -> Result:
    """Tombstones for all their offsets in all groups, the pending too (E17-21, H-100).

    An offset that carries the id of another topic of that name stays. Goes in slices,
    as a group's offsets may have to be read from a snapshot first.
    """
    offsets = state.offsets
    todo = request.group_ids
    if todo is None:
        todo = (*dict.fromkeys((*offsets.stored, *offsets.pending.groups())),)
    records = tuple(
        tombstone(group_id, topic.name, partition)
        for group_id in todo[:SLICE_GROUPS]
        for topic in request.topics
        for partition in _partitions_of(state, group_id, topic)
    )
    rest = todo[SLICE_GROUPS:]
    if not rest:
        return Result(records=records)
    key = ("topics-deleted", *(topic.topic_id.hex() for topic in request.topics))
    go_on = Timer(key, context.now_ms, TopicsDeleted(request.topics, rest))
    return Result(records=records, timers=(go_on,))


def _partitions_of(
    state: State, group_id: GroupId, topic: DeletedTopic
) -> dict[int, None]:
    """The partitions with an offset of the group for this very topic, each once."""
    wanted = (ZERO_UUID, topic.topic_id)
    stored = state.offsets.stored.partitions(group_id, topic.name)
    found = dict.fromkeys(
        partition
        for partition, packed in stored.items()
        if topic_id_of(packed) in wanted
    )
    for name, committed in state.offsets.pending.items(group_id):
        if name.topic == topic.name and committed.topic_id in wanted:
            found[name.partition] = None
    return found
