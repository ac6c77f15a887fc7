"""A group while its records are replayed: who is in it, what became of it so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from coterie.pipeline.gold.groups.ownership import GROUP_DELETED, Interval, Ownership
from coterie.pipeline.gold.groups.rebalances import Rebalance, Rebalances, restarted
from coterie.pipeline.gold.groups.record import At, Names, Part, Record
from coterie.pipeline.gold.groups.sessions import Session, Sessions

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
AWAY: Final = -2
"""The epoch of a static member that means to come back (K-06)."""
STABLE: Final = 0


@dataclass(eq=False)
class Member:
    """Who is in the group now."""

    session: Session
    epoch: int | None = None
    state: int | None = None
    subscribed_topics: Sequence[str] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    assigned: Sequence[Part] = ()
    pending_revocation: Sequence[Part] | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    current_offset: int | None = None
    """Its newest record of type 8."""

    @property
    def is_away(self) -> bool:
        """A static member that means to come back."""
        return self.epoch == AWAY


@dataclass(eq=False)
class Changes:
    """What happened since the last epoch: why there is another one."""

    came: list[Session] = field(default_factory=list)
    went: list[Session] = field(default_factory=list)
    subscription: bool = False
    assignor: bool = False
    metadata: bool = False


@dataclass(eq=False)
class GroupState:
    """See the module's docstring."""

    group_id: str
    names: Names
    protocol: str | None = None
    """classic, consumer, or None: there is no such group."""
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
    """The time of the record before."""
    last_offset: int | None = None
    base_offset: int | None = None
    members: dict[str, Member] = field(default_factory=dict)
    behind: set[str] = field(default_factory=set)
    """Members that do not have what they are to have."""
    changes: Changes = field(default_factory=Changes)
    members_before: int = 0
    """Members when the last epoch began."""
    replaced: list[tuple[Session, Session]] = field(default_factory=list)
    """In this batch: static members and who took their places."""
    closed: list[Interval] = field(default_factory=list)
    ended: list[Session] = field(default_factory=list)
    """What the tombstones of this batch ended; the next record may say why."""
    converting: str | None = None
    """upgraded or downgraded, between the first and the last record of that."""
    carried: set[str] = field(default_factory=set)
    """Members of before the conversion that were not named again yet."""
    sessions: Sessions = field(default_factory=Sessions)
    ownership: Ownership = field(default_factory=Ownership)
    rebalances: Rebalances = field(init=False)

    def __post_init__(self) -> None:
        """They watch who owns what."""
        self.rebalances = Rebalances(self.ownership)

    def at(self, record: Record, epoch: int | None) -> At:
        """Now, in an epoch."""
        return At(record, self.now_us, epoch or 0)

    def begin_session(
        self, record: Record, member_id: str, protocol: str, *, is_lower_bound: bool
    ) -> Session:
        """A member came."""
        session = Session(
            member_id, protocol, self.now_us, record.log_offset, is_lower_bound
        )
        self.changes.came.append(session)
        return self.sessions.begin(session)

    def end_session(self, session: Session, reason: str) -> None:
        """A member went, if it did not before."""
        self.sessions.end(session, self.now_us, reason)
        self.changes.went.append(session)

    def release(
        self, member: Session, keep: Iterable[Part], at: At, reason: str
    ) -> None:
        """Take from a member all but these partitions."""
        self.closed += self.ownership.release(member, keep, at, reason)

    def rebalance(
        self,
        record: Record,
        protocol: str,
        epoch: int,
        cause: str,
        *,
        epoch_gap: int = 0,
    ) -> Rebalance:
        """Another epoch, by what changed since the one before."""
        came, went = self.changes.came, self.changes.went
        rebalance = Rebalance(
            log_offset=record.log_offset,
            protocol=protocol,
            epoch=epoch,
            prev_epoch=self.epoch or None,
            cause=cause,
            start_us=self.now_us,
            members_before=self.members_before,
            members_after=len(self.members),
            epoch_gap=epoch_gap,
            joined=[each.member_id for each in came],
            left=[each.member_id for each in went],
            restarted=restarted(self.sessions, came),
        )
        for session in (*came, *went):
            session.rebalances_caused += 1
        self.changes = Changes()
        self.members_before = len(self.members)
        self.rebalances.begin(rebalance)
        return rebalance

    def note_size(self, since_us: int) -> None:
        """The group has members, or has none since then."""
        if self.members:
            self.empty_since_us = None
        elif self.empty_since_us is None:
            self.empty_since_us = since_us
            self.ownership.forget_owners()

    def switch(self, cause: str) -> None:
        """The group goes on by the other protocol, with the same members (K-07)."""
        self.converting = cause
        self.carried = set(self.members)

    def drop_carried(self, record: Record, reason: str) -> None:
        """Who was not named after the conversion is gone."""
        for member_id in sorted(self.carried):
            session = self.members.pop(member_id).session
            self.release(session, (), self.at(record, self.epoch), reason)
            self.end_session(session, "left")
        self.carried.clear()

    def delete(self, record: Record) -> None:
        """The group's own record is taken away. Members it still has go with it."""
        if self.protocol is None:
            return
        at = self.at(record, self.epoch)
        for member in self.members.values():
            self.release(member.session, (), at, GROUP_DELETED)
            self.end_session(member.session, GROUP_DELETED)
        for interval in self.closed:
            interval.end_reason = GROUP_DELETED
        for session in self.ended:
            session.end_reason = GROUP_DELETED
        self.members.clear()
        self.rebalance(record, self.protocol, self.epoch or 0, "deleted")
        self.rebalances.settle(self.now_us)
        self._forget()

    def _forget(self) -> None:
        self.protocol = self.protocol_type = self.assignor = self.leader_id = None
        self.epoch = self.assignment_epoch = self.metadata_hash = None
        self.created_us = self.empty_since_us = None
        self.ownership.forget_owners()
        self.behind.clear()
