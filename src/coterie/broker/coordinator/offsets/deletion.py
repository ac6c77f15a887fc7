"""Delete offsets: OffsetDelete, deleted topics, and offsets that expire.

OffsetDelete, key 47, deletes the offsets that an admin client specifies (KIP-496).

When an offset expires depends on its group (E17-18, `OffsetExpirationCondition`):

| group                                            | the retention time counts from   |
| ------------------------------------------------ | -------------------------------- |
| any, the commit has a retention time of its own  | (the commit's expire timestamp)  |
| simple: it never had a member                    | the commit                       |
| consumer group (KIP-848), topic not subscribed   | the commit                       |
| classic, Empty                                   | the time it became Empty, or the |
|                                                  | commit if that is unknown        |
| classic, Stable, consumers, topic not subscribed | the commit                       |
| any other                                        | never                            |

A pending offset prevents the expiration of its partition's stored offset, and the
removal of its group (E17-19). Both sweeps iterate over the groups in slices, so that no
other request waits long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from coterie.broker.coordinator.classic import group_metadata
from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.consumer import record_builders
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.offsets.committed import CommittedOffset, topic_id_of
from coterie.broker.coordinator.offsets.division import Division
from coterie.broker.coordinator.records import OffsetCommitKey
from coterie.broker.coordinator.result import Context, Record, Result, Timer, TimerKey
from coterie.broker.coordinator.share.initialization import forget_topics
from coterie.broker.coordinator.state import OffsetGroup, State
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import GroupId, TopicId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import ZERO_UUID

TOPIC_SLICE_GROUPS: Final = 50
"""The number of groups that a slice searches for offsets of a deleted topic."""


def tombstone(group_id: GroupId, topic: TopicName, partition: int) -> Record:
    """Return the tombstone of an offset, stored or pending (E17-17)."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return Record(key, None)


def all_tombstones(state: State, group_id: GroupId) -> list[Record]:
    """Return the tombstones of all offsets of a group, stored or pending (D-15)."""
    return [tombstone(group_id, *name) for name in state.offsets.partitions(group_id)]


def group_tombstones(group: OffsetGroup) -> list[Record]:
    """Return the tombstones of a group, without its offsets (E22-29)."""
    if isinstance(group, ConsumerGroup):
        return record_builders.group_tombstones(group)
    return [group_metadata.tombstone(group.group_id)]


def is_subscribed(state: State, group: OffsetGroup, topic: TopicName) -> bool:
    """Return whether members of the group may consume the topic.

    Return True also while the subscriptions of a classic group of consumers are
    unknown: until its first generation has a protocol (D-53).
    """
    if isinstance(group, ConsumerGroup):
        return group.group_id in state.topic_index.groups(topic)
    topics = group.subscribed_topics()
    if topics is None:
        return group.uses_consumer_protocol
    return topic in topics


class DeletedTopic(NamedTuple):
    """The name and id of a deleted topic."""

    name: TopicName
    topic_id: TopicId


class TopicsDeleted(NamedTuple):
    """The request that is broadcast to all shards after topics were deleted.

    `group_ids` are the groups that remain to be searched; None for all.
    """

    topics: tuple[DeletedTopic, ...]
    group_ids: tuple[GroupId, ...] | None = None


def delete_topics_offsets(
    state: State, request: TopicsDeleted, context: Context
) -> Result:
    """Write tombstones for all offsets of deleted topics (E17-21, H-100), and remove
    the topics from share groups.

    Stored and pending offsets are deleted; an offset with the id of another topic of
    the same name stays. The groups are searched in slices, as their offsets may have
    to be read from a snapshot first.
    """
    offsets = state.offsets
    remaining = request.group_ids
    of_share_groups: list[Record] = []
    if remaining is None:
        deleted = [topic.topic_id for topic in request.topics]
        of_share_groups = forget_topics(state, deleted)
        remaining = (*dict.fromkeys((*offsets.stored, *offsets.pending.groups())),)
    ids: dict[TopicName, set[TopicId]] = {}
    for topic in request.topics:
        ids.setdefault(topic.name, {ZERO_UUID}).add(topic.topic_id)
    records = (
        *of_share_groups,
        *(
            tombstone(group_id, *partition)
            for group_id in remaining[:TOPIC_SLICE_GROUPS]
            for partition in _partitions_of(state, group_id, ids)
        ),
    )
    rest = remaining[TOPIC_SLICE_GROUPS:]
    if not rest:
        return Result(records=records)
    key = ("topics-deleted", *(topic.topic_id.hex() for topic in request.topics))
    go_on = Timer(key, context.now_ms, TopicsDeleted(request.topics, rest))
    return Result(records=records, timers=(go_on,))


def _partitions_of(
    state: State, group_id: GroupId, ids: Mapping[TopicName, Collection[TopicId]]
) -> dict[TopicPartition, None]:
    """Return the partitions with an offset of the group whose topic has one of these
    names and ids, each once."""
    stored = state.offsets.stored.group(group_id)
    names = ids if len(ids) < len(stored) else stored
    found = {
        TopicPartition(name, partition): None
        for name in names
        if name in ids and name in stored
        for partition, packed in stored[name].items()
        if topic_id_of(packed) in ids[name]
    }
    for partition, committed in state.offsets.pending.items(group_id):
        if committed.topic_id in ids.get(partition.topic, ()):
            found[partition] = None
    return found


def delete_offsets(
    state: State, request: m.OffsetDeleteRequest, context: Context
) -> Result:
    """Write tombstones for the requested offsets, stored or pending (D-53 to D-55).

    Offsets of a topic that the group subscribes to are kept.

    Raises:
        ApiError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (D-52). The
            errors of single partitions are part of the response.
    """
    group_id = request.group_id
    group = _checked_group(state, request)
    division = Division(context.environment.topics)
    for asked in request.topics:
        division.take(asked)
    records: list[Record] = []
    topics = []
    for topic in division.existing:
        subscribed = is_subscribed(state, group, topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        topics.append(topic.response(code))
        indexes = () if subscribed else topic.partitions
        records += [
            tombstone(group_id, topic.name, each.partition_index)
            for each in indexes
            if state.offsets.holds(group_id, topic.name, each.partition_index)
        ]
    response = m.OffsetDeleteResponse(topics=division.merge(topics))
    return Result(response, records=tuple(records))


def refuse_delete(
    request: m.OffsetDeleteRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.OffsetDeleteResponse:
    """Return the response that carries an error and no topics."""
    return m.OffsetDeleteResponse(error_code=code)


def _checked_group(state: State, request: m.OffsetDeleteRequest) -> OffsetGroup:
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = state.offset_group(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ConsumerGroup):
        return group  # in any state: only offsets of subscribed topics are kept
    if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    return group


SLICE_OFFSETS: Final = 2_000
"""The number of offsets in a slice, about a millisecond's work. A group is never split,
so a slice may have more."""
SLICE_GROUPS: Final = 500
"""The number of groups in a slice at most."""
TIMER_KEY: Final[TimerKey] = ("expire-offsets",)
MINUTE_MS: Final = 60_000


class ExpireOffsets(NamedTuple):
    """The next slice of a sweep, with the groups that remain; None starts the next
    sweep."""

    group_ids: tuple[GroupId, ...] | None = None


def next_sweep(settings: Settings, now_ms: int) -> Timer:
    """Return the timer that starts the next sweep."""
    at_ms = now_ms + settings.offsets_retention_check_interval_ms
    return Timer(TIMER_KEY, at_ms, ExpireOffsets())


def expire_offsets(state: State, request: ExpireOffsets, context: Context) -> Result:
    """Write tombstones for one slice's expired offsets and removed groups."""
    remaining = request.group_ids
    if remaining is None:
        remaining = (*state.classic_groups, *state.consumer_groups)
    expired: list[Record] = []
    removed: list[Record] = []
    done = scanned = 0
    for group_id in remaining[:SLICE_GROUPS]:
        if scanned >= SLICE_OFFSETS:
            break
        done += 1
        group = state.offset_group(group_id)
        if group is None:
            continue
        of_group, kept = _expire_group(state, group, context, expired)
        scanned += of_group
        if not kept and _is_removable(state, group):
            removed += group_tombstones(group)
    timer = next_sweep(context.environment.settings, context.now_ms)
    if done < len(remaining):
        timer = Timer(TIMER_KEY, context.now_ms, ExpireOffsets(remaining[done:]))
    return Result(records=(*expired, *removed), timers=(timer,))


def _expire_group(
    state: State, group: OffsetGroup, context: Context, expired: list[Record]
) -> tuple[int, int]:
    """Collect a group's tombstones; return the number of its offsets, and how many
    remain."""
    kept = scanned = 0
    for name, committed in state.offsets.stored.items(group.group_id):
        scanned += 1
        if (
            _has_expired(group, committed, context)
            and not is_subscribed(state, group, name.topic)
            and not state.offsets.pending.contains(group.group_id, *name)
        ):
            expired.append(tombstone(group.group_id, *name))
        else:
            kept += 1
    return scanned, kept


def _is_removable(state: State, group: OffsetGroup) -> bool:
    """Return whether a group without stored offsets is to be removed (E17-20).

    It stays while it has members, pending members, or an open transaction.
    """
    if isinstance(group, ConsumerGroup):
        is_empty = not group.members
    else:
        is_empty = group.state is GroupState.EMPTY and not group.pending_members
    return is_empty and not state.offsets.pending.has_group(group.group_id)


def _has_expired(
    group: OffsetGroup,
    committed: CommittedOffset,
    context: Context,
) -> bool:
    since_ms = _since_ms(group, committed)
    if since_ms is None:
        return False
    if committed.expire_timestamp_ms != -1:
        return context.wall_ms >= committed.expire_timestamp_ms
    retention_ms = context.environment.settings.offsets_retention_minutes * MINUTE_MS
    return context.wall_ms - since_ms >= retention_ms


def _since_ms(group: OffsetGroup, committed: CommittedOffset) -> int | None:
    """Return the start of the retention time; None when the offset does not expire."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return committed.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        if group.state_timestamp_ms == -1:
            return committed.commit_timestamp_ms
        return group.state_timestamp_ms
    if group.state is GroupState.STABLE and group.uses_consumer_protocol:
        return committed.commit_timestamp_ms
    return None
