"""DeleteGroups, key 42, for one group: it and all its offsets go (KIP-229).

v3 has a message beside each error (KIP-1331).
"""

from __future__ import annotations

from typing import NamedTuple

from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.consumer.group import ConsumerGroupState
from coterie.coordinator.offsets.tombstones import all_tombstones, group_tombstones
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.delete_groups import DeletableGroupResult


class DeleteGroup(NamedTuple):
    """One group of a DeleteGroups request."""

    group_id: GroupId


def handle(state: State, request: DeleteGroup, context: Context) -> Result:
    """Write tombstones for the group's offsets, pending ones too, and then for itself,
    in one batch (D-12, D-15).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (D-14).
    """
    group_id = request.group_id
    group = state.group(group_id)
    if group is None or group.state is GroupState.DEAD:
        message = f"Group {group_id} not found."
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    if group.state not in (GroupState.EMPTY, ConsumerGroupState.EMPTY):
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    records = (*all_tombstones(state, group_id), *group_tombstones(group))
    return Result(DeletableGroupResult(group_id=group_id), records=records)


def refuse(
    request: DeleteGroup, code: ErrorCode, message: str | None = None
) -> DeletableGroupResult:
    """The answer that carries an error."""
    return DeletableGroupResult(
        group_id=request.group_id, error_code=code, error_message=message
    )
