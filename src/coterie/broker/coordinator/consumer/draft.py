"""A handler's draft of a consumer group: its records, and the group after them.

A handler does not modify the group. It collects on a `ConsumerDraft` the records in the
order they are written, the timers, and as much of the group after them as later
decisions of the same request need. The cost of a draft depends on the changes of the
request, not on the group's size; only a new target iterates over all members.

The changes (`result.Change`) concern state that the log does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from coterie.broker.coordinator.client_side.values import (
    NO_DETAIL,
    Computation,
    TargetDetail,
)
from coterie.broker.coordinator.consumer import timers
from coterie.broker.coordinator.consumer.group import (
    ConsumerGroup,
    Refresh,
    RegexSchedule,
    ResolvedRegex,
)
from coterie.broker.coordinator.consumer.member import Member, Target
from coterie.broker.coordinator.consumer.record_builders import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from coterie.broker.coordinator.consumer.topics import hash_of_topics
from coterie.broker.coordinator.result import Context, ResultDraft
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, MemberId, TopicName


@dataclass(frozen=True, slots=True)
class RefreshSet:
    """A new time of a group's next metadata refresh."""

    group_id: GroupId
    refresh: Refresh

    def apply(self, state: State) -> None:
        """Set the time if the group exists; a new group refreshes at its next
        heartbeat."""
        assert self.refresh.deadline_ms >= 0
        group = state.consumer_groups.get(self.group_id)
        if group is not None:
            group.refresh = self.refresh
        share_group = state.share_groups.get(self.group_id)
        if share_group is not None:
            share_group.refresh = self.refresh


@dataclass(frozen=True, slots=True)
class RegexScheduleSet:
    """A new schedule of a group's regular expressions."""

    group_id: GroupId
    run: RegexSchedule

    def apply(self, state: State) -> None:
        """Set the schedule if the group exists; a new group resolves its expressions at
        once."""
        assert self.run.earliest_ms >= 0
        group = state.consumer_groups.get(self.group_id)
        if group is not None:
            group.regex_schedule = self.run


@dataclass(frozen=True, slots=True)
class ComputationSet:
    """The start, progress or end of a group's client-side computation."""

    group_id: GroupId
    computation: Computation | None

    def apply(self, state: State) -> None:
        """Set the computation, creating the group if its first member computes.

        The changes are applied before the records are replayed, so a group that the
        same request creates does not exist yet.
        """
        group = state.consumer_groups.get(self.group_id)
        if group is None:
            if self.computation is None or not self.computation.member_id:
                return
            group = state.consumer_groups[self.group_id] = ConsumerGroup(self.group_id)
        group.computation = self.computation


REFRESH_INTERVAL_MS = 300_000
"""The time after which a group refreshes the metadata of its topics.

Kafka 4.0 has the same interval; later releases refresh after a change of topics only.
"""


class ConsumerDraft(ResultDraft):
    """The collected result of a handler, and the group after it.

    `group` is the group before the request; an empty one for a new group.
    """

    def __init__(self, group: ConsumerGroup, context: Context) -> None:
        super().__init__(context)
        self.group = group
        self.epoch = group.epoch
        self.assignment_epoch = group.assignment_epoch
        self.metadata_hash = group.metadata_hash
        self.computes = False
        """Whether the sender is to compute the group's next target."""
        self._touched: dict[MemberId, Member | None] = {}
        self._targets: dict[MemberId, Target] = {}
        self._details: dict[MemberId, TargetDetail] = {}
        self._regexes: dict[str, ResolvedRegex] = {}

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.group.members) + sum(
            (after is not None) - (before is not None)
            for before, after in self.changed_members()
        )

    def changed_members(self) -> Iterator[tuple[Member | None, Member | None]]:
        """Yield each member that the request touches, before and after it."""
        members = self.group.members
        for member_id, after in self._touched.items():
            yield members.get(member_id), after

    def member(self, member_id: MemberId) -> Member | None:
        """Return a member by its id."""
        if member_id in self._touched:
            return self._touched[member_id]
        return self.group.members.get(member_id)

    def members(self) -> Mapping[MemberId, Member]:
        """Return all members."""
        merged = {**self.group.members, **self._touched}
        return {key: member for key, member in merged.items() if member is not None}

    def target(self, member_id: MemberId) -> Target:
        """Return the target assignment of a member."""
        found = self._targets.get(member_id)
        return self.group.target(member_id) if found is None else found

    def detail(self, member_id: MemberId) -> TargetDetail:
        """Return the metadata that a client-side assignor sent to a member with its
        target.
        """
        found = self._details.get(member_id)
        return self.group.detail(member_id) if found is None else found

    @property
    def new_targets(self) -> Mapping[MemberId, Target]:
        """The targets that this request has written or deleted."""
        return self._targets

    def is_subscribed_by(self, regex: str) -> bool:
        """Return whether a member subscribes by this regular expression."""
        assert regex, "no expression is no subscription"
        count = self.group.regex_counts[regex]
        for before, after in self.changed_members():
            count += after is not None and after.topic_regex == regex
            count -= before is not None and before.topic_regex == regex
        return count > 0

    def topic_names(self) -> Iterable[TopicName]:
        """Return the topics that any member subscribes to, by name or expression."""
        counts = self.group.topic_counts
        if self._touched:
            counts = counts.copy()
            for before, after in self.changed_members():
                counts.subtract(before.topic_names if before is not None else ())
                counts.update(after.topic_names if after is not None else ())
        names = {name for name, count in counts.items() if count > 0}
        for regex, resolved in {**self.group.regexes, **self._regexes}.items():
            if self.is_subscribed_by(regex):
                names.update(resolved.topics)
        return names

    def preferred_assignor(self) -> str:
        """Return the assignor for the group's next target."""
        counts = self.group.assignor_counts.copy()
        for before, after in self.changed_members():
            counts.subtract(_vote(before))
            counts.update(_vote(after))
        assignors = tuple(self.context.environment.assignors)
        return max(assignors, key=lambda name: counts[name])

    # The changes of a request, in the order of their records.

    def put_metadata(self, member: Member) -> None:
        """Add a member, or change its metadata and subscription (record 5)."""
        assert member.member_id, "a member has an id"
        self._touched[member.member_id] = member
        self.write(member_record(self.group_id, member))

    def put_target(
        self, member_id: MemberId, target: Target, detail: TargetDetail = NO_DETAIL
    ) -> None:
        """Change a member's target assignment (record 7)."""
        assert self.member(member_id) is not None, f"{member_id} is not a member"
        assert all(target.values()), "no topic is kept without a partition"
        self._targets[member_id] = target
        self._details[member_id] = detail
        self.write(target_record(self.group_id, member_id, target, detail))

    def put_current(self, member: Member) -> None:
        """Change a member's current assignment (record 8)."""
        assert self.member(member.member_id) is not None, member.member_id
        assert member.epoch <= self.epoch, "no member is ahead of its group"
        self._touched[member.member_id] = member
        self.write(current_record(self.group_id, member))

    def replace_static_member(self, replaced: Member, member: Member) -> None:
        """Write a static member under its new member id, and delete the old one.

        The new member has the target of the old one.
        """
        target, detail = (
            self.target(replaced.member_id),
            self.detail(replaced.member_id),
        )
        self.remove(replaced)
        self.put_metadata(member)
        self.put_target(member.member_id, target, detail)
        self.put_current(member)

    def remove(self, member: Member) -> None:
        """Remove a member with its records and timers."""
        member_id = member.member_id
        assert self.member(member_id) is not None, f"{member_id} is not a member"
        self._touched[member_id] = None
        self._targets[member_id] = {}
        self._details[member_id] = NO_DETAIL
        for record in member_tombstones(self.group_id, member_id):
            self.write(record)
        self.set(timers.cancel_session(self.group_id, member_id))
        self.set(timers.cancel_rebalance(self.group_id, member_id))
        self.stop_computing(member_id)
        if member.classic is not None:
            for cancel in timers.cancel_classic(self.group_id, member_id):
                self.set(cancel)

    def stop_computing(self, member_id: MemberId) -> None:
        """End the client-side computation of a member that leaves, even temporarily.

        The next member that sends a heartbeat computes instead.
        """
        chosen = self.group.computation
        if chosen is not None and chosen.member_id == member_id:
            nobody = chosen._replace(member_id="", prepared=None)
            self.make(ComputationSet(self.group_id, nobody))
            self.set(timers.cancel_computation(self.group_id))

    def delete_regex_if_unused(self, regex: str | None) -> None:
        """Delete the topics of a regular expression without a subscriber."""
        if regex and regex in self.group.regexes and not self.is_subscribed_by(regex):
            self.write(regex_tombstone(self.group_id, regex))

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        """Change the topics of a regular expression (record 16)."""
        assert self.is_subscribed_by(regex), f"no member subscribes by {regex}"
        self._regexes[regex] = resolved
        self.write(regex_record(self.group_id, regex, resolved))

    def refresh_topics(self) -> bool:
        """Hash the topics' metadata again; return whether the hash changed."""
        topics = self.context.environment.topics
        old = self.metadata_hash
        self.metadata_hash = hash_of_topics(self.topic_names(), topics)
        return self.metadata_hash != old

    def bump(self) -> None:
        """Bump the group epoch, as the group needs a new target."""
        assert self.epoch >= self.assignment_epoch, "a target is ahead of its group"
        self.epoch += 1
        self.write(epoch_record(self.group_id, self.epoch, self.metadata_hash))

    def put_target_epoch(self, epoch: int | None = None) -> None:
        """Set the epoch of the target assignment (record 6).

        It is the group epoch, or an older epoch for which a member has computed the
        target.
        """
        made_for = self.epoch if epoch is None else epoch
        assert self.assignment_epoch < made_for <= self.epoch, "an epoch has one target"
        self.assignment_epoch = made_for
        now_ms = self.context.now_ms
        self.write(target_epoch_record(self.group_id, made_for, now_ms))

    def put_first_epoch(self) -> None:
        """Set the epochs of a new group whose first member needs no target yet."""
        self.bump()
        self.put_empty_target()

    def put_empty_target(self) -> None:
        """Set the epoch of a target without partitions.

        It has no timestamp, so that it does not delay the next target.
        """
        self.assignment_epoch = self.epoch
        self.write(target_epoch_record(self.group_id, self.epoch, 0))

    def schedule_refresh(self) -> None:
        """Set the time of the next metadata refresh."""
        deadline_ms = self.context.now_ms + REFRESH_INTERVAL_MS
        self.make(RefreshSet(self.group_id, Refresh(deadline_ms, self.epoch)))


def _vote(member: Member | None) -> Iterable[str]:
    if member is None or member.server_assignor is None:
        return ()
    return (member.server_assignor,)
