"""ListGroups, key 16: the groups of one shard.

v4 filters by state and v5 by type; both are compared without regard to case, the words
of a filter are alternatives, and a word that means nothing matches nothing (E28).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie.coordinator.classic.group import CONSUMER_PROTOCOL_TYPE
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


def handle(state: State, request: ListGroupsRequest, context: Context) -> Result:
    """List the groups that pass both filters; an empty filter passes all."""
    states = {word.strip().lower() for word in request.states_filter}
    types = {word.strip().lower() for word in request.types_filter}
    groups = [
        group
        for group in _groups(state)
        if (not types or group.group_type in types)
        and (not states or group.group_state.lower() in states)
    ]
    return Result(ListGroupsResponse(groups=groups))


def refuse(code: ErrorCode) -> ListGroupsResponse:
    """The answer that carries an error and no groups."""
    return ListGroupsResponse(error_code=code)


def _groups(state: State) -> Iterator[ListedGroup]:
    for classic in state.classic_groups.values():
        yield ListedGroup(
            group_id=classic.group_id,
            protocol_type=classic.protocol_type or "",
            group_state=classic.state.value,
            group_type=CLASSIC,
        )
    for consumer in state.consumer_groups.values():
        yield ListedGroup(
            group_id=consumer.group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=consumer.state.value,
            group_type=CONSUMER,
        )
