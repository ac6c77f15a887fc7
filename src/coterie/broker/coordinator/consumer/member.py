"""A member of a consumer group as a value, and its states (KIP-848).

Members are frozen: each step of the protocol makes a new one, which replaces the old
one in the group. Every assigned partition has the epoch at which the member got it, so
that a commit for a partition that the member kept differs from a zombie's (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.client_side.values import ClientAssignor
from coterie.types import MemberId, TopicId, TopicName

AssignedPartitions: TypeAlias = Mapping[TopicId, Mapping[int, int]]
"""Partitions of a member by topic, each with the epoch at which it was assigned."""
Target: TypeAlias = Mapping[TopicId, frozenset[int]]
"""The target assignment of a member by topic; no topic is without a partition."""

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""The member epochs of a heartbeat that joins, leaves, or leaves temporarily."""


class MemberState(IntEnum):
    """The reconciliation state of a member; the values of record 8."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        """Return UNKNOWN for a state of a later version."""
        return cls.UNKNOWN


_NOTHING: Final[AssignedPartitions] = {}
_MAY_REVOKE: Final = (MemberState.UNREVOKED_PARTITIONS, MemberState.UNKNOWN)
"""The states in which a member has partitions pending revocation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberInfo:
    """The additional fields of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def names(self) -> frozenset[str]:
        """The protocols (assignors) that the member supports."""
        return frozenset(name for name, _ in self.protocols)

    @property
    def first(self) -> tuple[str, bytes]:
        """The preferred protocol with its subscription.

        In a consumer group all protocols of a member have the same subscription.
        """
        assert self.protocols, "a member can do at least one protocol"
        return self.protocols[0]


class Member(NamedTuple):
    """A member: its subscription, and its current assignment.

    `topic_names` are sorted and unique. `client_assignors` are in order of
    preference. `classic` is None for a member that uses the consumer protocol.

    It is a tuple because several are made for a request: a frozen dataclass takes three
    times as long.
    """

    member_id: MemberId
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[TopicName, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    client_assignors: tuple[ClientAssignor, ...] = ()
    classic: ClassicMemberInfo | None = None
    state: MemberState = MemberState.STABLE
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    assigned: AssignedPartitions = _NOTHING
    pending_revocation: AssignedPartitions = _NOTHING

    def check(self) -> None:
        """Assert that the fields fit together."""
        assert self.epoch >= STATIC_LEAVE_EPOCH, self.epoch
        assert not self.pending_revocation or self.state in _MAY_REVOKE, self.state
        for topic, pending in self.pending_revocation.items():
            assert pending.keys().isdisjoint(self.assigned.get(topic, ())), topic

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether the member is reconciled with the target assignment of this
        epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


def unique_names(names: Iterable[TopicName]) -> tuple[TopicName, ...]:
    """Return the topics of a subscription, sorted and without repetitions."""
    return tuple(sorted(set(names)))
