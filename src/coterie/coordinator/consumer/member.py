"""A member of a consumer group as a value, and what its states mean (KIP-848).

Members are frozen: a step of the protocol makes a new one, and the group swaps it in.
A partition that a member holds stands with the epoch at which the member got it, so
that a commit of a partition it kept can be told from a zombie's (KIP-1251, E3-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, TypeAlias

from coterie.coordinator.consumer.client_side.values import ClientAssignor
from coterie.types import MemberId, TopicId, TopicName

Held: TypeAlias = Mapping[TopicId, Mapping[int, int]]
"""Partitions of a member by topic, each with the epoch at which it was assigned."""
Target: TypeAlias = Mapping[TopicId, frozenset[int]]
"""The partitions a member shall own, by topic; no topic without a partition."""

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""What a member epoch says when it is not the epoch of a target (E3-04)."""


class MemberState(IntEnum):
    """Where a member stands on the way to its target; the values of record 8 (E5.1)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        """A state that a later version wrote."""
        return cls.UNKNOWN


_MAY_REVOKE: Final = (MemberState.UNREVOKED_PARTITIONS, MemberState.UNKNOWN)
"""The states in which a member has partitions that it must still give up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicFace:
    """What a member that still speaks the classic protocol has besides (E2-02)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def names(self) -> frozenset[str]:
        """The assignment strategies it can do."""
        return frozenset(name for name, _ in self.protocols)

    @property
    def first(self) -> tuple[str, bytes]:
        """The strategy it wants most, with its subscription; in a consumer group all
        of its protocols say the same (E20-24)."""
        assert self.protocols, "a member can do at least one protocol"
        return self.protocols[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member: what it said of itself, and what it holds.

    `topic_names` are sorted (E2-07); `client_assignors` are as preferred (E2.1).
    `classic` is None for a member that speaks the consumer protocol.
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
    classic: ClassicFace | None = None
    state: MemberState = MemberState.STABLE
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    assigned: Held = field(default_factory=dict)
    pending_revocation: Held = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the names sorted, whoever gave them; check what must hold."""
        assert self.epoch >= STATIC_LEAVE_EPOCH, self.epoch
        assert not self.pending_revocation or self.state in _MAY_REVOKE, self.state
        for topic, pending in self.pending_revocation.items():
            assert pending.keys().isdisjoint(self.assigned.get(topic, ())), topic
        names = tuple(sorted(set(self.topic_names)))
        object.__setattr__(self, "topic_names", names)

    def at(
        self,
        epoch: int,
        state: MemberState,
        *,
        assigned: Held,
        pending_revocation: Held | None = None,
    ) -> Member:
        """The member with a new current assignment; what was its epoch is now its
        previous one, even when they are the same (E3-10)."""
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation or {},
        )

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Whether the member has all that the target of this epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch
