"""Changes to a classic group that the log does not hold (`result.Change`).

A rebalance in flight is lost on restart by design (E19-08): the generation becomes
durable when its leader's sync is written. Each change names what happened in the
domain and is applied once; the same change is first made on the handler's draft.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from coterie.coordinator.classic.group import (
    ClassicGroup,
    GroupState,
    HasGroups,
    Member,
    MemberProtocol,
)
from coterie.coordinator.result import Ticket
from coterie.types import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class GroupChange(ABC):
    """A change to one group that exists."""

    group_id: GroupId

    def apply(self, state: HasGroups) -> None:
        """Make the change on the shard's group."""
        self.make(state.classic_groups[self.group_id])

    @abstractmethod
    def make(self, group: ClassicGroup) -> None:
        """Make the change on this group."""


@dataclass(frozen=True, slots=True)
class GroupCreated(GroupChange):
    """The first join to a group nobody knew; a record of the empty group follows."""

    def apply(self, state: HasGroups) -> None:
        """Put an empty group in the shard."""
        assert self.group_id not in state.classic_groups, self.group_id
        state.classic_groups[self.group_id] = ClassicGroup(self.group_id)

    def make(self, group: ClassicGroup) -> None:
        """A draft begins as an empty group."""
        assert group.state is GroupState.EMPTY


@dataclass(frozen=True, slots=True)
class GroupDowngraded(GroupChange):
    """A consumer group becomes this one (E20.4). The records that make it so follow;
    they do not say which other protocols each member can do."""

    group: ClassicGroup

    def apply(self, state: HasGroups) -> None:
        """Put the group in the shard."""
        assert self.group_id not in state.classic_groups, self.group_id
        state.classic_groups[self.group_id] = self.group

    def make(self, group: ClassicGroup) -> None:
        """No draft of a classic group makes it."""
        raise AssertionError(f"{group.group_id} is a classic group")


@dataclass(frozen=True, slots=True)
class MemberPending(GroupChange):
    """A new member was told its id and is to come back with it (KIP-394)."""

    member_id: MemberId

    def make(self, group: ClassicGroup) -> None:
        """Remember the id."""
        assert self.member_id not in group.members, self.member_id
        group.pending_members[self.member_id] = None


@dataclass(frozen=True, slots=True)
class PendingMemberDropped(GroupChange):
    """A pending member left, came too late, or found the group full."""

    member_id: MemberId

    def make(self, group: ClassicGroup) -> None:
        """Forget the id."""
        del group.pending_members[self.member_id]


@dataclass(frozen=True, slots=True)
class MemberAdded(GroupChange):
    """A member joined; its join is parked."""

    member: Member
    protocol_type: str
    ticket: Ticket

    def make(self, group: ClassicGroup) -> None:
        """Add it; the first member of an empty group sets the protocol type."""
        if not group.members:
            group.protocol_type = self.protocol_type
        assert group.protocol_type == self.protocol_type
        group.add(self.member)
        group.new_members[self.member.member_id] = None
        group.joins[self.member.member_id] = self.ticket
        if group.state is GroupState.PREPARING_REBALANCE and group.initial:
            group.joined_in_delay = True


@dataclass(frozen=True, slots=True)
class MemberRejoined(GroupChange):
    """A member joined again, maybe with other protocols; its join is parked."""

    member_id: MemberId
    protocols: tuple[MemberProtocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    ticket: Ticket

    def make(self, group: ClassicGroup) -> None:
        """Take over what it now says."""
        member = replace(
            group.members[self.member_id],
            protocols=self.protocols,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
        )
        group.update(member)
        group.joins[self.member_id] = self.ticket


@dataclass(frozen=True, slots=True)
class MemberReplaced(GroupChange):
    """A static member came back as a new member id (KIP-345).

    `ticket` is its parked join; None when it is answered without a rebalance.
    """

    old_member_id: MemberId
    member: Member
    ticket: Ticket | None

    def make(self, group: ClassicGroup) -> None:
        """Put the new id wherever the old one was, leadership included."""
        led = group.leader_id == self.old_member_id
        old = group.members[self.old_member_id]
        assert old.group_instance_id == self.member.group_instance_id is not None
        group.remove(self.old_member_id)
        group.add(self.member)
        if led:
            group.leader_id = self.member.member_id
        if self.ticket is not None:
            group.joins[self.member.member_id] = self.ticket


@dataclass(frozen=True, slots=True)
class MemberRemoved(GroupChange):
    """A member left, expired, or did not come to the rebalance."""

    member_id: MemberId

    def make(self, group: ClassicGroup) -> None:
        """Forget it."""
        group.remove(self.member_id)


@dataclass(frozen=True, slots=True)
class RebalancePrepared(GroupChange):
    """A rebalance began: all members are to join again."""

    at_ms: int

    def make(self, group: ClassicGroup) -> None:
        """Give up the syncs in flight, and the assignments they waited for."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in tuple(group.members.values()):
                group.members[member.member_id] = replace(member, assignment=b"")
        group.initial = group.state is GroupState.EMPTY
        group.syncs.clear()
        group.unsynced.clear()
        group.move(GroupState.PREPARING_REBALANCE, self.at_ms)


@dataclass(frozen=True, slots=True)
class InitialDelayExtended(GroupChange):
    """Members came during the initial delay, so it was set again (E19-04)."""

    def make(self, group: ClassicGroup) -> None:
        """Only members who come from now on extend it once more."""
        assert group.joined_in_delay
        group.joined_in_delay = False


@dataclass(frozen=True, slots=True)
class GenerationStarted(GroupChange):
    """The join phase ended and the joins were answered; syncs are awaited."""

    generation: int
    protocol_name: str
    leader_id: MemberId
    at_ms: int

    def make(self, group: ClassicGroup) -> None:
        """Begin the generation with the members that are left."""
        assert self.leader_id in group.joins, "the leader is here to assign"
        assert not group.syncs
        group.generation = self.generation
        group.choose_protocol(self.protocol_name)
        group.leader_id = self.leader_id
        group.joins.clear()
        group.new_members.clear()
        group.unsynced.update(dict.fromkeys(group.members))
        group.move(GroupState.COMPLETING_REBALANCE, self.at_ms)


@dataclass(frozen=True, slots=True)
class SyncReceived(GroupChange):
    """A member sent its sync; `ticket` is set when it is parked for the leader's."""

    member_id: MemberId
    ticket: Ticket | None

    def make(self, group: ClassicGroup) -> None:
        """Stop waiting for this member."""
        assert self.member_id in group.members, self.member_id
        group.unsynced.pop(self.member_id, None)
        if self.ticket is not None:
            group.syncs[self.member_id] = self.ticket


@dataclass(frozen=True, slots=True)
class SyncsReleased(GroupChange):
    """The leader's sync came: the parked syncs are answered with its assignments.

    The record of the generation follows, and its replay makes the group stable.
    """

    def make(self, group: ClassicGroup) -> None:
        """Forget the parked syncs."""
        assert group.state is GroupState.COMPLETING_REBALANCE
        group.syncs.clear()


@dataclass(frozen=True, slots=True)
class GroupResigned(GroupChange):
    """This server no longer coordinates the group; what waited was answered."""

    at_ms: int

    def make(self, group: ClassicGroup) -> None:
        """The group is dead here; elsewhere it lives on."""
        group.joins.clear()
        group.syncs.clear()
        group.move(GroupState.DEAD, self.at_ms)
