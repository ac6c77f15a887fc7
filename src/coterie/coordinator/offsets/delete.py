"""OffsetDelete, key 47: an admin takes offsets of a group away (KIP-496)."""

from __future__ import annotations

from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.offsets.tombstones import is_subscribed, tombstone
from coterie.coordinator.result import Context, Record, Result
from coterie.coordinator.state import Group, State
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(state: State, request: OffsetDeleteRequest, context: Context) -> Result:
    """Write a tombstone for each offset, stored or pending, that may go (D-53..D-55).

    Raises:
        ApiError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (D-52). What is
            wrong with one partition is in the answer.
    """
    group_id = request.group_id
    group = _checked_group(state, request)
    records: list[Record] = []
    topics = []
    for asked in request.topics:
        count = context.topics.partition_count(asked.name)
        subscribed = is_subscribed(state, group, asked.name)
        partitions = []
        for partition in asked.partitions:
            index = partition.partition_index
            code = _code(count, index, subscribed=subscribed)
            if not code and state.offsets.holds(group_id, asked.name, index):
                records.append(tombstone(group_id, asked.name, index))
            partitions.append(
                OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            )
        topics.append(OffsetDeleteResponseTopic(name=asked.name, partitions=partitions))
    return Result(OffsetDeleteResponse(topics=topics), records=tuple(records))


def refuse(code: ErrorCode) -> OffsetDeleteResponse:
    """The answer that carries an error at its top, and no topics."""
    return OffsetDeleteResponse(error_code=code)


def _checked_group(state: State, request: OffsetDeleteRequest) -> Group:
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = state.group(request.group_id)
    if group is None or group.state is GroupState.DEAD:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ConsumerGroup):
        return group  # in any state: only what is subscribed to is kept
    if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    return group


def _code(count: int | None, partition: int, *, subscribed: bool) -> ErrorCode:
    if count is None or not 0 <= partition < count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
