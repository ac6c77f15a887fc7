"""The state of one group during the replay of its records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from coterie.pipeline.gold.groups.ownership import Interval, Ownership
from coterie.pipeline.gold.groups.rebalances import (
    Rebalance,
    Rebalances,
    restarted_members,
)
from coterie.pipeline.gold.groups.record import (
    Moment,
    Record,
    TopicNames,
    TopicPartition,
)
from coterie.pipeline.gold.groups.sessions import GROUP_DELETED, LEFT, Session, Sessions

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
AWAY: Final = -2
"""Epoch of a static member that left temporarily (K-06b)."""
STABLE: Final = 0
"""Value of `member_state`: the member has reconciled its target assignment."""


@dataclass(eq=False)
class Member:
    """A current member of the group."""

    session: Session
    epoch: int | None = None
    state: int | None = None
    subscribed_topics: Sequence[str] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    assigned: Sequence[TopicPartition] = ()
    pending_revocation: Sequence[TopicPartition] | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    current_offset: int | None = None
    """Log offset of its newest record of type 8."""

    @property
    def is_away(self) -> bool:
        """True for a static member that left temporarily."""
        return self.epoch == AWAY


@dataclass(eq=False)
class Changes:
    """Changes since the last epoch, which are possible causes of the next one."""

    joined: list[Session] = field(default_factory=list)
    left: list[Session] = field(default_factory=list)
    subscription: bool = False
    assignor: bool = False
    metadata: bool = False


@dataclass(eq=False)
class GroupState:
    """The state of a group during the replay. It covers both protocols, because a group
    may change its protocol.
    """

    group_id: str
    names: TopicNames
    protocol: str | None = None
    """classic or consumer; None while the group does not exist."""
    protocol_type: str | None = None
    assignor: str | None = None
    leader_id: str | None = None
    epoch: int | None = None
    assignment_epoch: int | None = None
    metadata_hash: int | None = None
    created_us: int | None = None
    empty_since_us: int | None = None
    first_us: int | None = None
    now_us: int = 0
    previous_us: int = 0
    """Time of the previous record."""
    last_offset: int | None = None
    base_offset: int | None = None
    members: dict[str, Member] = field(default_factory=dict)
    unreconciled: set[str] = field(default_factory=set)
    """IDs of members that have not reconciled the newest target assignment."""
    changes: Changes = field(default_factory=Changes)
    members_before: int = 0
    """Number of members when the last epoch began."""
    replaced: list[tuple[Session, Session]] = field(default_factory=list)
    """Static members replaced in this batch, each with its replacement."""
    closed_intervals: list[Interval] = field(default_factory=list)
    ended_sessions: list[Session] = field(default_factory=list)
    """The sessions and ownership that the tombstones of this batch ended. A later
    record of the batch determines the reason: the member left, was replaced, or the
    group was deleted.
    """
    conversion: str | None = None
    """upgraded or downgraded, from the first to the last record of the conversion."""
    carried_over: set[str] = field(default_factory=set)
    """IDs of members from before the conversion without a record since."""
    sessions: Sessions = field(default_factory=Sessions)
    ownership: Ownership = field(default_factory=Ownership)
    rebalances: Rebalances = field(init=False)

    def __post_init__(self) -> None:
        self.rebalances = Rebalances(self.ownership)

    def moment(self, record: Record, epoch: int | None) -> Moment:
        return Moment(record, self.now_us, epoch or 0)

    def begin_session(
        self, record: Record, member_id: str, protocol: str, *, is_lower_bound: bool
    ) -> Session:
        """Record that a member joined; return its session."""
        session = Session(
            member_id, protocol, self.now_us, record.log_offset, is_lower_bound
        )
        self.changes.joined.append(session)
        return self.sessions.begin(session)

    def end_session(self, session: Session, reason: str) -> None:
        self.sessions.end(session, self.now_us, reason)
        self.changes.left.append(session)

    def revoke(
        self,
        member: Session,
        keep: Iterable[TopicPartition],
        moment: Moment,
        reason: str,
    ) -> None:
        self.closed_intervals += self.ownership.revoke(member, keep, moment, reason)

    def begin_rebalance(
        self,
        record: Record,
        protocol: str,
        epoch: int,
        cause: str,
        *,
        epoch_gap: int = 0,
    ) -> Rebalance:
        """Begin the rebalance to an epoch, with the changes since the previous one."""
        joined, left = self.changes.joined, self.changes.left
        rebalance = Rebalance(
            log_offset=record.log_offset,
            protocol=protocol,
            epoch=epoch,
            prev_epoch=self.epoch or None,
            cause=cause,
            start_ts=self.now_us,
            members_before=self.members_before,
            members_after=len(self.members),
            epoch_gap=epoch_gap,
            joined=[session.member_id for session in joined],
            left=[session.member_id for session in left],
            restarted=restarted_members(self.sessions, joined),
        )
        for session in (*joined, *left):
            session.rebalances_caused += 1
        self.changes = Changes()
        self.members_before = len(self.members)
        self.rebalances.begin(rebalance)
        return rebalance

    def update_empty_since(self, since_us: int) -> None:
        """Set or clear the time since which the group has no members."""
        if self.members:
            self.empty_since_us = None
        elif self.empty_since_us is None:
            self.empty_since_us = since_us
            self.ownership.last_owner.clear()

    def begin_conversion(self, cause: str) -> None:
        """Begin the conversion to the other protocol, in which members stay (K-07c,
        K-07d)."""
        self.conversion = cause
        self.carried_over = set(self.members)

    def remove_carried_over(self, record: Record, reason: str) -> None:
        """Remove the members that have no record since the conversion."""
        for member_id in sorted(self.carried_over):
            session = self.members.pop(member_id).session
            self.revoke(session, (), self.moment(record, self.epoch), reason)
            self.end_session(session, LEFT)
        self.carried_over.clear()

    def delete(self, record: Record) -> None:
        if self.protocol is None:
            return
        moment = self.moment(record, self.epoch)
        for member in self.members.values():
            self.revoke(member.session, (), moment, GROUP_DELETED)
            self.end_session(member.session, GROUP_DELETED)
        for interval in self.closed_intervals:
            interval.end_reason = GROUP_DELETED
        for session in self.ended_sessions:
            session.end_reason = GROUP_DELETED
        self.members.clear()
        self.begin_rebalance(record, self.protocol, self.epoch or 0, "deleted")
        self.rebalances.complete(self.now_us)
        self.protocol = self.protocol_type = self.assignor = self.leader_id = None
        self.epoch = self.assignment_epoch = self.metadata_hash = None
        self.created_us = self.empty_since_us = None
        self.ownership.last_owner.clear()
        self.unreconciled.clear()
