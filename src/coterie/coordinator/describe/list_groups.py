"""ListGroups, key 16: the groups of one shard.

v4 filters by state and v5 by type; both are compared without regard to case, the words
of a filter are alternatives, and a word that means nothing matches nothing (E28).
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

CLASSIC: Final = "classic"


def handle(state: State, request: ListGroupsRequest, context: Context) -> Result:
    """List the groups that pass both filters; an empty filter passes all."""
    states = {word.strip().lower() for word in request.states_filter}
    types = {word.strip().lower() for word in request.types_filter}
    groups = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in state.classic_groups.values()
        if not states or group.state.value.lower() in states
    ]
    if types and CLASSIC not in types:
        groups = []
    return Result(ListGroupsResponse(groups=groups))


def refuse(code: ErrorCode) -> ListGroupsResponse:
    """The answer that carries an error and no groups."""
    return ListGroupsResponse(error_code=code)
