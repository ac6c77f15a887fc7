"""A consumer group as data (KIP-848): its members, its target, and what follows.

Only replay changes a group, through the methods below; handlers read it. What can be
derived is kept up to date member by member and never written to the log (E2-05). A
relation that records can break is asserted: a log that hands a partition to two members
must stop the shard, not pass in silence (H-51).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from coterie.coordinator.classic.group import CONSUMER_PROTOCOL_TYPE
from coterie.coordinator.consumer.client_side.values import (
    NO_DETAIL,
    Computation,
    Offer,
    TargetDetail,
    offer_of,
)
from coterie.coordinator.consumer.member import Held, Member, Target
from coterie.coordinator.consumer.reconcile import FREE
from coterie.types import GroupId, MemberId, TopicId, TopicName

_Key = TypeVar("_Key")
_Subscription: TypeAlias = tuple[tuple[TopicName, ...], str | None]
_NOTHING: Final[Mapping[int, int]] = {}
_NO_TARGET: Final[Target] = {}
UNASSIGNED: Final = -1
"""The assignment epoch of a group whose target was taken away (E22-44)."""


class ConsumerGroupState(Enum):
    """The states of a group, as they are spelled in answers (E4-03)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class SubscriptionType(Enum):
    """Whether all members want the same topics."""

    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


class ResolvedRegex(NamedTuple):
    """The topics, sorted, that a regular expression matched among the topics of a
    version, and when it was asked (E14-07)."""

    topics: tuple[TopicName, ...]
    version: int
    timestamp_ms: int


class Refresh(NamedTuple):
    """When a group has to look at its topics again; as it was loaded, at once (E15-06).

    The log does not hold it. It was set at a group epoch; one that is ahead of the
    group's was set by a step that was lost, and counts for nothing (E15-05).
    """

    deadline_ms: int = 0
    epoch: int = 0


class RegexRun(NamedTuple):
    """When a group's regular expressions are resolved again; the log does not hold it.

    All are due at `due_ms`: after a load, and when topics were made, at once (E14-11).
    None is before `earliest_ms`. `planned_ms` is when the run that is set will be, or
    should have been; None when none is.
    """

    due_ms: int = 0
    earliest_ms: int = 0
    planned_ms: int | None = None


class ConsumerGroup:
    """One group. See the module's docstring."""

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.assigned_ms = 0
        """When the target was made; 0 if that is not known."""
        self.metadata_hash = 0
        """What the group saw of its topics when its epoch was last bumped (E15-03)."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.refresh = Refresh()
        self.target_details: dict[MemberId, TargetDetail] = {}
        """What client-side assignors told members beside their partitions."""
        self.computation: Computation | None = None
        """Who computes the next target, where members do (E13)."""
        self.offers: Counter[Offer] = Counter()
        """How many members offer each list of client-side assignors."""
        self.regex_run = RegexRun()
        self.members: dict[MemberId, Member] = {}
        self.targets: dict[MemberId, Target] = {}
        self.topic_counts: Counter[TopicName] = Counter()
        """How many members name each topic."""
        self.assignor_counts: Counter[str] = Counter()
        """How many members name each server-side assignor."""
        self.regex_counts: Counter[str] = Counter()
        """How many members subscribe by each regular expression."""
        self.static_members: dict[str, MemberId] = {}
        self.classic_count = 0
        """How many members speak the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """How many of those can do each assignment strategy."""
        self._subscriptions: Counter[_Subscription] = Counter()
        self._owner_epochs: dict[TopicId, dict[int, int]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConsumerGroup) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # a group changes

    @property
    def state(self) -> ConsumerGroupState:
        """The first that applies, in Kafka's order (E4)."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        members = self.members.values()
        if all(each.is_reconciled(self.assignment_epoch) for each in members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def subscription_type(self) -> SubscriptionType:
        """Homogeneous if all members are subscribed alike, or there is none."""
        if len(self._subscriptions) > 1:
            return SubscriptionType.HETEROGENEOUS
        return SubscriptionType.HOMOGENEOUS

    def target(self, member_id: MemberId) -> Target:
        """What a member shall own; nothing, if no target says."""
        return self.targets.get(member_id, _NO_TARGET)

    def detail(self, member_id: MemberId) -> TargetDetail:
        """What a member is told beside its target."""
        return self.target_details.get(member_id, NO_DETAIL)

    def owner_epoch(self, topic: TopicId, partition: int) -> int:
        """The epoch of the member that holds a partition, or has yet to revoke it;
        `FREE` (-1) if nobody does (E2-06)."""
        return self._owner_epochs.get(topic, _NOTHING).get(partition, FREE)

    def is_refresh_due(self, now_ms: int) -> bool:
        """Whether the group has to look at its topics again (E6-32)."""
        return now_ms >= self.refresh.deadline_ms or self.epoch < self.refresh.epoch

    def is_resolved(self, regex: str | None) -> bool:
        """Whether it is known what a member that says this is subscribed to."""
        return not regex or regex in self.regexes

    @property
    def quiet_until_ms(self) -> int:
        """Until when the group has nothing to look at, if nothing happens to it."""
        if not self.regex_counts:
            return self.refresh.deadline_ms
        return min(self.refresh.deadline_ms, self.regex_run.due_ms)

    def preferred_assignor(self, configured: Sequence[str]) -> str:
        """The configured assignor that most members name; of several, and if nobody
        names one, the one that is configured first (E12-02 to E12-04)."""
        assert configured, "a server offers one assignor at least"
        return max(configured, key=lambda name: self.assignor_counts[name])

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these strategies may be among those that speak the
        classic protocol: all of them can do one of its strategies (E20-22)."""
        return protocol_type == CONSUMER_PROTOCOL_TYPE and any(
            self.classic_protocols[name] == self.classic_count for name in names
        )

    def put_member(self, member: Member) -> None:
        """Add a member, or put it in the place of the one with its id.

        Raises:
            AssertionError: It holds a partition that another member holds (H-51).
        """
        self._forget(self.members.get(member.member_id))
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for topic, partition in _held(member):
            self._occupy(topic, partition, member.epoch)

    def remove_member(self, member_id: MemberId) -> None:
        """Take a member away, if it is there."""
        self._forget(self.members.pop(member_id, None))

    def _forget(self, member: Member | None) -> None:
        if member is None:
            return
        self._count(member, -1)
        # The instance may be another member's by now: it was replaced (E9-05).
        instance_id = member.instance_id or ""
        if self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
        for topic, partition in _held(member):
            self._release(topic, partition, member.epoch)

    def _count(self, member: Member, by: int) -> None:
        if member.classic is not None:
            self.classic_count += by
            assert self.classic_count >= 0
            for name in member.classic.names:
                _add(self.classic_protocols, name, by)
        if member.client_assignors:
            _add(self.offers, offer_of(member.client_assignors), by)
        _add(self._subscriptions, (member.topic_names, member.topic_regex), by)
        for name in member.topic_names:
            _add(self.topic_counts, name, by)
        if member.topic_regex:
            _add(self.regex_counts, member.topic_regex, by)
        if member.server_assignor is not None:
            _add(self.assignor_counts, member.server_assignor, by)

    def _occupy(self, topic: TopicId, partition: int, epoch: int) -> None:
        """Note who holds a partition. One that is held at an older epoch is taken over:
        compaction may have left out the record by which its owner let it go, as
        that owner's newer one is further on in the log (KAFKA-19862)."""
        owners = self._owner_epochs.setdefault(topic, {})
        held_at = owners.get(partition, FREE)
        assert held_at == FREE or held_at < epoch, (
            f"{self.group_id}: partition {topic.hex()}-{partition} cannot be held at "
            f"epoch {epoch}, it is still held at {held_at}"
        )
        owners[partition] = epoch

    def _release(self, topic: TopicId, partition: int, epoch: int) -> None:
        """Free a partition, unless it was taken over at another epoch."""
        owners = self._owner_epochs.get(topic, {})
        if owners.get(partition) != epoch:
            return
        del owners[partition]
        if not owners:
            del self._owner_epochs[topic]


def _held(member: Member) -> Iterator[tuple[TopicId, int]]:
    """All that a member holds or has yet to revoke."""
    both: tuple[Held, Held] = (member.assigned, member.pending_revocation)
    for held in both:
        for topic, partitions in held.items():
            for partition in partitions:
                yield topic, partition


def _add(counts: Counter[_Key], key: _Key, by: int) -> None:
    counts[key] += by
    assert counts[key] >= 0, key
    if not counts[key]:
        del counts[key]
