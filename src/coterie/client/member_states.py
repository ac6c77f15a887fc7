"""The states of a member, seen from the client, and the moves between them (E7-80).

Kafka's consumer has one more, STALE, for an application that stopped polling: here
nothing polls, and a member is stale only when its process is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    """Where a member stands."""

    UNSUBSCRIBED = "no member: not yet, or not any more"
    JOINING = "its first heartbeat, with epoch 0, was not accepted yet"
    RECONCILING = "what it owns is not what the group gave it"
    ACKNOWLEDGING = "it has to tell the group what it owns"
    STABLE = "it owns what the group gave it, and said so"
    FENCED = "the group has thrown it out; it loses what it owned, then joins anew"
    PREPARE_LEAVING = "it gives up what it owns, to leave"
    LEAVING = "its last heartbeat was not answered yet"
    FATAL = "the coordinator will not have it; it says no more"


IN_GROUP: Final = frozenset(
    {
        MemberState.JOINING,
        MemberState.RECONCILING,
        MemberState.ACKNOWLEDGING,
        MemberState.STABLE,
    }
)
"""States of one that is a member or about to be."""

SILENT: Final = frozenset(
    {MemberState.UNSUBSCRIBED, MemberState.FENCED, MemberState.FATAL}
)
"""States in which no heartbeat is sent."""

_OUT: Final = frozenset(
    {MemberState.FENCED, MemberState.PREPARE_LEAVING, MemberState.FATAL}
)
_SETTLED: Final = IN_GROUP - {MemberState.JOINING}

MOVES: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    MemberState.UNSUBSCRIBED: frozenset({MemberState.JOINING}),
    MemberState.JOINING: _OUT | _SETTLED,
    MemberState.RECONCILING: _OUT | _SETTLED,
    MemberState.ACKNOWLEDGING: _OUT | _SETTLED,
    MemberState.STABLE: _OUT | _SETTLED,
    MemberState.FENCED: frozenset(
        {MemberState.JOINING, MemberState.PREPARE_LEAVING, MemberState.FATAL}
    ),
    MemberState.PREPARE_LEAVING: frozenset(
        {MemberState.LEAVING, MemberState.UNSUBSCRIBED}
    ),
    MemberState.LEAVING: frozenset({MemberState.UNSUBSCRIBED}),
    MemberState.FATAL: frozenset(),
}


def move(state: MemberState, to: MemberState) -> MemberState:
    """The state after a move; staying is none."""
    assert to is state or to in MOVES[state], f"{state.name} -> {to.name}"
    return to
