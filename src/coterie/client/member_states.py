"""The values of a membership: member states, identity, subscription and steps.

The states and their transitions are those of Kafka's consumer (E7-80), except STALE,
the state of a consumer that stopped polling: this member does not poll.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from coterie.types import GroupId, MemberId, TopicId, TopicName
from coterie.wire import messages as m


class MemberState(Enum):
    """The client-side state of a member."""

    UNSUBSCRIBED = "not a member, before joining or after leaving"
    JOINING = "the heartbeat with epoch 0 has not been accepted yet"
    RECONCILING = "the owned partitions differ from the target assignment"
    ACKNOWLEDGING = "a heartbeat with the owned partitions is due"
    STABLE = "the target assignment is owned and acknowledged"
    FENCED = "the group has removed the member, which joins again after on_lost"
    PREPARE_LEAVING = "partitions are revoked before leaving"
    LEAVING = "the heartbeat that leaves the group is unanswered"
    FATAL = "the coordinator has rejected the member for good"


IN_GROUP: Final = frozenset(
    {
        MemberState.JOINING,
        MemberState.RECONCILING,
        MemberState.ACKNOWLEDGING,
        MemberState.STABLE,
    }
)
"""The states of a member that has joined or is joining."""

SILENT: Final = frozenset(
    {MemberState.UNSUBSCRIBED, MemberState.FENCED, MemberState.FATAL}
)
"""States without heartbeats."""

_OUT: Final = frozenset(
    {MemberState.FENCED, MemberState.PREPARE_LEAVING, MemberState.FATAL}
)
_SETTLED: Final = IN_GROUP - {MemberState.JOINING}

TRANSITIONS: Final[Mapping[MemberState, frozenset[MemberState]]] = {
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


def transition(state: MemberState, to: MemberState) -> MemberState:
    """Return the next state; assert that the transition is allowed."""
    assert to is state or to in TRANSITIONS[state], f"{state.name} -> {to.name}"
    return to


class OwnedPartition(NamedTuple):
    """A partition by the id of its topic, as heartbeats contain it."""

    topic_id: TopicId
    partition: int


Partitions: TypeAlias = frozenset[OwnedPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The constant properties of a member.

    A coordinator that serves no version above 0 replaces `member_id` (E10-02). A member
    with an `instance_id` is static (KIP-345).
    """

    group_id: GroupId
    member_id: MemberId
    instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None
    rebalance_timeout_ms: int = 300_000
    client_assignors: list[m.ClientAssignor] | None = None
    """The declared client-side assignors; None for none."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a member: topics by name, and by a regular expression in RE2
    syntax that matches the whole name."""

    topics: frozenset[TopicName] = frozenset()
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Backoff:
    """The backoff after consecutive failures (ms)."""

    first_ms: int = 100
    max_ms: int = 1_000

    def wait_ms(self, failures: int) -> int:
        """Return the wait after the `failures`-th failure."""
        return min(self.first_ms << min(failures - 1, 16), self.max_ms)


@dataclass(frozen=True, slots=True)
class Revoke:
    """Partitions to revoke: the application stops, then the group may reassign them."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Assign:
    """Partitions that the application may start."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Lose:
    """Partitions that the group has already reassigned: the application must stop
    without a commit."""

    partitions: Partitions


Step: TypeAlias = Revoke | Assign | Lose
