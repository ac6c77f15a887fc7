"""A step's draft: the group as it will be, and the records that make it so (E22.3).

A handler changes nothing. What it decides is collected here: records in the order they
are written in, timers, and beside them just as much of the group after them as the rest
of the step asks for. A draft costs what the step changes, whatever the group's size;
only a new target looks at all members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.changes import ComputationSet, RefreshSet
from coterie.coordinator.consumer.client_side.values import (
    NO_DETAIL,
    Offer,
    TargetDetail,
    offer_of,
)
from coterie.coordinator.consumer.group import ConsumerGroup, Refresh, ResolvedRegex
from coterie.coordinator.consumer.member import Member, Target
from coterie.coordinator.consumer.metadata import hash_of
from coterie.coordinator.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from coterie.coordinator.result import (
    PARKED,
    CancelTimer,
    Change,
    Context,
    Record,
    Reply,
    Result,
    Timer,
)
from coterie.types import MemberId, TopicName
from coterie.wire.schema import Struct

REFRESH_INTERVAL_MS = 300_000
"""How long a group trusts what it was told of its topics; Kafka's constant."""


class Draft:
    """Collects a result; its methods say how the group reads after it.

    `group` is the group before the step; for a group that the step makes, an empty one.
    """

    def __init__(self, group: ConsumerGroup, context: Context) -> None:
        self.group = group
        self.context = context
        self.epoch = group.epoch
        self.assignment_epoch = group.assignment_epoch
        self.metadata_hash = group.metadata_hash
        self.computes = False
        """Whether the sender is to compute the group's next target (E13-02)."""
        self.replies: list[Reply] = []
        self._records: list[Record] = []
        self._timers: list[Timer | CancelTimer] = []
        self._changes: list[Change] = []
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
        """How many members the group has."""
        known = self.group.members
        return len(known) + sum(
            (member is not None) - (member_id in known)
            for member_id, member in self._touched.items()
        )

    def member(self, member_id: MemberId) -> Member | None:
        """The member of that id."""
        if member_id in self._touched:
            return self._touched[member_id]
        return self.group.members.get(member_id)

    def static_member(self, instance_id: str) -> Member | None:
        """The member of that instance id."""
        for member in self._touched.values():
            if member is not None and member.instance_id == instance_id:
                return member
        member_id = self.group.static_members.get(instance_id)
        member = None if member_id is None else self.member(member_id)
        assert member is None or member.instance_id == instance_id, instance_id
        return member

    def members(self) -> Mapping[MemberId, Member]:
        """All of them: for a new target, or who asks about everybody."""
        merged = {**self.group.members, **self._touched}
        return {key: member for key, member in merged.items() if member is not None}

    def target(self, member_id: MemberId) -> Target:
        """What a member shall own."""
        found = self._targets.get(member_id)
        return self.group.target(member_id) if found is None else found

    def detail(self, member_id: MemberId) -> TargetDetail:
        """What a member is told beside its target."""
        found = self._details.get(member_id)
        return self.group.detail(member_id) if found is None else found

    @property
    def new_targets(self) -> Mapping[MemberId, Target]:
        """The targets that this step has written or taken away."""
        return self._targets

    def is_subscribed_by(self, regex: str) -> bool:
        """Whether a member still subscribes by this regular expression."""
        assert regex, "no expression is no subscription"
        count = self.group.regex_counts[regex]
        for member_id, after in self._touched.items():
            before = self.group.members.get(member_id)
            count += after is not None and after.topic_regex == regex
            count -= before is not None and before.topic_regex == regex
        return count > 0

    @property
    def is_touched(self) -> bool:
        """Whether a member is new, gone, or says something else of itself."""
        return bool(self._touched)

    def topic_names(self) -> Iterable[TopicName]:
        """The topics that any member is subscribed to, by name or expression."""
        counts = self.group.topic_counts
        if self._touched:
            counts = counts.copy()
            for member_id, after in self._touched.items():
                before = self.group.members.get(member_id)
                counts.subtract(before.topic_names if before is not None else ())
                counts.update(after.topic_names if after is not None else ())
        names = {name for name, count in counts.items() if count > 0}
        for regex, resolved in {**self.group.regexes, **self._regexes}.items():
            if self.is_subscribed_by(regex):
                names.update(resolved.topics)
        return names

    def preferred_assignor(self) -> str:
        """The assignor that makes the group's next target (E12)."""
        counts = self.group.assignor_counts.copy()
        for member_id, after in self._touched.items():
            before = self.group.members.get(member_id)
            counts.subtract(_vote(before))
            counts.update(_vote(after))
        assignors = tuple(self.context.assignors)
        return max(assignors, key=lambda name: counts[name])

    def offers(self) -> Mapping[Offer, int]:
        """How many members offer each list of client-side assignors."""
        counts = self.group.offers.copy()
        for member_id, after in self._touched.items():
            before = self.group.members.get(member_id)
            counts.subtract(_offers(before))
            counts.update(_offers(after))
        return {offer: count for offer, count in counts.items() if count > 0}

    # What a step does, in the order of its records.

    def put_metadata(self, member: Member) -> None:
        """The member says something else of itself, or is new."""
        assert member.member_id, "a member has an id"
        self._touched[member.member_id] = member
        self.write(member_record(self.group_id, member))

    def put_target(
        self, member_id: MemberId, target: Target, detail: TargetDetail = NO_DETAIL
    ) -> None:
        """The member shall own something else, or is told something else beside."""
        assert self.member(member_id) is not None, f"{member_id} is no member"
        assert all(target.values()), "no topic is kept without a partition"
        self._targets[member_id] = target
        self._details[member_id] = detail
        self.write(target_record(self.group_id, member_id, target, detail))

    def put_current(self, member: Member) -> None:
        """The member owns something else, or is at another epoch."""
        assert self.member(member.member_id) is not None, member.member_id
        assert member.epoch <= self.epoch, "no member is ahead of its group"
        self._touched[member.member_id] = member
        self.write(current_record(self.group_id, member))

    def remove(self, member: Member) -> None:
        """The member is gone, with all that was written of it and its timers."""
        member_id = member.member_id
        assert self.member(member_id) is not None, f"{member_id} is no member"
        self._touched[member_id] = None
        self._targets[member_id] = {}
        self._details[member_id] = NO_DETAIL
        for record in member_tombstones(self.group_id, member_id):
            self.write(record)
        self.set(timers.cancel_session(self.group_id, member_id))
        self.set(timers.cancel_rebalance(self.group_id, member_id))
        self.relieve(member_id)
        if member.classic is not None:
            for cancel in timers.cancel_classic(self.group_id, member_id):
                self.set(cancel)

    def relieve(self, member_id: MemberId) -> None:
        """The member is gone, or away: if it was to compute the next target it is not
        any more, even if it comes back by the same id. Whoever is heard of next is."""
        chosen = self.group.computation
        if chosen is not None and chosen.member_id == member_id:
            nobody = chosen._replace(member_id="", prepared=None)
            self.make(ComputationSet(self.group_id, nobody))
            self.set(timers.cancel_computation(self.group_id))

    def forget_regex(self, regex: str | None) -> None:
        """Take away what a regular expression matched once nobody uses it (E14-10)."""
        if regex and regex in self.group.regexes and not self.is_subscribed_by(regex):
            self.write(regex_tombstone(self.group_id, regex))

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        """A regular expression matches these topics (E14-07)."""
        assert self.is_subscribed_by(regex), f"nobody subscribes by {regex}"
        self._regexes[regex] = resolved
        self.write(regex_record(self.group_id, regex, resolved))

    def look_at_topics(self) -> bool:
        """Look at the topics again; whether they are others than before (E6-32)."""
        found = hash_of(self.topic_names(), self.context.topics)
        is_other = found != self.metadata_hash
        self.metadata_hash = found
        return is_other

    def bump(self) -> None:
        """The group needs a new target: the next epoch (E3-01, E6-30)."""
        assert self.epoch >= self.assignment_epoch, "a target is ahead of its group"
        self.epoch += 1
        self.write(epoch_record(self.group_id, self.epoch, self.metadata_hash))

    def put_target_epoch(self, epoch: int | None = None) -> None:
        """The target is that of the group's epoch, or of an older one, for which a
        member has computed it (E3-03)."""
        made_for = self.epoch if epoch is None else epoch
        assert self.assignment_epoch < made_for <= self.epoch, "an epoch has one target"
        self.assignment_epoch = made_for
        now_ms = self.context.now_ms
        self.write(target_epoch_record(self.group_id, made_for, now_ms))

    def refreshed(self) -> None:
        """The topics have been looked at: not again before long."""
        deadline_ms = self.context.now_ms + REFRESH_INTERVAL_MS
        self.make(RefreshSet(self.group_id, Refresh(deadline_ms, self.epoch)))

    def make(self, change: Change) -> None:
        """Make a change that the log does not hold."""
        self._changes.append(change)

    def write(self, record: Record) -> None:
        """Write a record."""
        self._records.append(record)

    def set(self, timer: Timer | CancelTimer) -> None:
        """Set or cancel a timer; of two with one key the later counts."""
        self._timers.append(timer)

    def result(self, response: Struct | None = PARKED) -> Result:
        """Everything collected, with the answer to the request itself."""
        return Result(
            response=response,
            records=tuple(self._records),
            changes=tuple(self._changes),
            timers=tuple(self._timers),
            replies=tuple(self.replies),
        )


def _vote(member: Member | None) -> Iterable[str]:
    if member is None or member.server_assignor is None:
        return ()
    return (member.server_assignor,)


def _offers(member: Member | None) -> Iterable[Offer]:
    if member is None or not member.client_assignors:
        return ()
    return (offer_of(member.client_assignors),)
