"""A consumer group as data (KIP-848): its members, its target, and derived indexes.

Only replay changes a group, by the methods below; handlers read it. Derived fields are
updated with each member and never written to the log. Invariants that a record
could violate are asserted: a log that assigns a partition to two members must stop the
shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from coterie.broker.coordinator.classic.group import CONSUMER_PROTOCOL_TYPE
from coterie.broker.coordinator.client_side.values import (
    NO_DETAIL,
    Computation,
    Offer,
    TargetDetail,
    offer_of,
)
from coterie.broker.coordinator.consumer.member import (
    Member,
    MemberState,
    Target,
)
from coterie.broker.coordinator.consumer.reconcile import FREE
from coterie.types import GroupId, MemberId, TopicId, TopicName

_Key = TypeVar("_Key")
_NOTHING: Final[Mapping[int, int]] = {}
_NO_TARGET: Final[Target] = {}
UNASSIGNED: Final = -1
"""The assignment epoch of a group whose target assignment was deleted."""


class ConsumerGroupState(Enum):
    """The states of a consumer group, with Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedRegex(NamedTuple):
    """The topics, sorted, that a regular expression matches.

    `version` is the version of the topics at that time.
    """

    topics: tuple[TopicName, ...]
    version: int
    timestamp_ms: int


class Refresh(NamedTuple):
    """The time of the next refresh of the topics' metadata; at once after a load.

    It is not in the log. `epoch` is the group epoch at which it was set. When that is
    above the group's epoch, the records of that step were lost, and the refresh is due
    at once.
    """

    deadline_ms: int = 0
    epoch: int = 0


class RegexSchedule(NamedTuple):
    """The times at which a group's regular expressions are resolved; not in the log.

    A resolution is due at `due_ms`: at once after a load and when topics were created.
    None runs before `earliest_ms`. `planned_ms` is the deadline of the timer that is
    set or failed; None without one.
    """

    due_ms: int = 0
    earliest_ms: int = 0
    planned_ms: int | None = None


FIELDS: Final = (
    "_owner_epochs",
    "_reconciled",
    "assigned_ms",
    "assignment_epoch",
    "assignor_counts",
    "classic_count",
    "classic_protocols",
    "computation",
    "epoch",
    "group_id",
    "is_loading",
    "members",
    "metadata_hash",
    "offers",
    "refresh",
    "regex_counts",
    "regex_schedule",
    "regexes",
    "static_members",
    "target_details",
    "targets",
    "topic_counts",
)
"""The attributes of a consumer group. Compiled classes have no `__slots__`."""


class ConsumerGroup:
    """A consumer group: durable fields, and indexes derived from them."""

    __slots__ = FIELDS

    def __init__(self, group_id: GroupId, *, is_loading: bool = False) -> None:
        self.group_id = group_id
        self.is_loading = is_loading
        """Whether the owners of partitions are not known yet: see `end_load`."""
        self.epoch = 0
        self.assignment_epoch = 0
        self.assigned_ms = 0
        """The time of the target assignment; 0 if unknown."""
        self.metadata_hash = 0
        """The hash of the topics' metadata at the last bump of the epoch (KIP-1101)."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.refresh = Refresh()
        self.target_details: dict[MemberId, TargetDetail] = {}
        """The metadata and errors of client-side assignors, by member."""
        self.computation: Computation | None = None
        """The client-side computation of the next target, if one is under way."""
        self.offers: Counter[Offer] = Counter()
        """The number of members with each list of client-side assignors."""
        self.regex_schedule = RegexSchedule()
        self.members: dict[MemberId, Member] = {}
        self.targets: dict[MemberId, Target] = {}
        self.topic_counts: Counter[TopicName] = Counter()
        """The number of members that subscribe to each topic by name."""
        self.assignor_counts: Counter[str] = Counter()
        """The number of members that request each server-side assignor."""
        self.regex_counts: Counter[str] = Counter()
        """The number of members that subscribe by each regular expression."""
        self.static_members: dict[str, MemberId] = {}
        self.classic_count = 0
        """The number of members that use the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """The number of classic members that support each protocol (assignor)."""
        self._reconciled: Counter[int] = Counter()
        """The number of members that have reconciled with the target of each epoch."""
        self._owner_epochs: dict[TopicId, dict[int, int]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConsumerGroup) and all(
            getattr(self, name) == getattr(other, name) for name in FIELDS
        )

    __hash__ = None  # type: ignore[assignment]  # a group changes

    @property
    def state(self) -> ConsumerGroupState:
        """The state, in the order of Kafka's `ConsumerGroup.maybeUpdateGroupState`."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if self._reconciled[self.assignment_epoch] == len(self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def target(self, member_id: MemberId) -> Target:
        """Return the target assignment of a member; empty without one."""
        return self.targets.get(member_id, _NO_TARGET)

    def detail(self, member_id: MemberId) -> TargetDetail:
        """Return the metadata that a client-side assignor sent to a member with its
        partitions.
        """
        return self.target_details.get(member_id, NO_DETAIL)

    def owner_epoch(self, topic: TopicId, partition: int) -> int:
        """Return the epoch of the member that owns a partition or has yet to revoke
        it.

        `FREE` (-1) without an owner.
        """
        return self._owner_epochs.get(topic, _NOTHING).get(partition, FREE)

    def is_refresh_due(self, now_ms: int) -> bool:
        """Return whether the topics' metadata must be refreshed."""
        return now_ms >= self.refresh.deadline_ms or self.epoch < self.refresh.epoch

    def is_resolved(self, regex: str | None) -> bool:
        """Return whether the topics of a regular expression are known; true without
        one."""
        return not regex or regex in self.regexes

    @property
    def has_unresolved(self) -> bool:
        """True when the topics of an expression that members subscribe to are not
        known."""
        return len(self.regexes) < len(self.regex_counts)

    @property
    def quiet_until_ms(self) -> int:
        """The time until which no step of the group is due without a change."""
        if not self.regex_counts:
            return self.refresh.deadline_ms
        return min(self.refresh.deadline_ms, self.regex_schedule.due_ms)

    def preferred_assignor(self, configured: Sequence[str]) -> str:
        """Return the configured assignor that most members prefer.

        The order of configuration breaks ties, and applies when no member requests an
        assignor.
        """
        assert configured, "a server offers one assignor at least"
        return max(configured, key=lambda name: self.assignor_counts[name])

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a classic member with these protocols may be in the group.

        All classic members must support one of its protocols.
        """
        return protocol_type == CONSUMER_PROTOCOL_TYPE and any(
            self.classic_protocols[name] == self.classic_count for name in names
        )

    def put_member(self, member: Member) -> None:
        """Add a member, or replace the one with its id.

        Raises:
            AssertionError: Another member owns one of its partitions.
        """
        member.check()
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is not None and _has_same_metadata(before, member):
            self._release_all(before)
        else:
            self._forget(before)
            self._count(member, 1)
        if member.state is MemberState.STABLE:
            _add(self._reconciled, member.epoch, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._occupy_all(member)

    def end_load(self) -> None:
        """Find the owners of all partitions.

        While a log is loaded, a partition may have two: compaction may have removed the
        record by which the first one released it, as that one's newer record is further
        on in the log (KAFKA-19862).

        Raises:
            AssertionError: A partition has two owners.
        """
        assert self.is_loading
        assert not self._owner_epochs
        self.is_loading = False
        for member in self.members.values():
            self._occupy_all(member)

    def remove_member(self, member_id: MemberId) -> None:
        """Remove a member if it exists."""
        self._forget(self.members.pop(member_id, None))

    def remove_target(self, member_id: MemberId) -> None:
        """Remove the target of a member if it has one."""
        self.targets.pop(member_id, None)
        self.target_details.pop(member_id, None)

    def remove_targets(self) -> None:
        """Remove the targets of all members."""
        self.targets.clear()
        self.target_details.clear()

    def _forget(self, member: Member | None) -> None:
        if member is None:
            return
        self._count(member, -1)
        # The instance may be another member's by now: it was replaced.
        instance_id = member.instance_id or ""
        if self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
        self._release_all(member)

    def _release_all(self, member: Member) -> None:
        """Remove a member's current assignment from the derived fields."""
        if member.state is MemberState.STABLE:
            _add(self._reconciled, member.epoch, -1)
        if not self.is_loading:
            for topic, partition in _owned_partitions(member):
                self._release(topic, partition)

    def _count(self, member: Member, by: int) -> None:
        if member.classic is not None:
            self.classic_count += by
            assert self.classic_count >= 0
            for name in member.classic.names:
                _add(self.classic_protocols, name, by)
        if member.client_assignors:
            _add(self.offers, offer_of(member.client_assignors), by)
        for name in member.topic_names:
            _add(self.topic_counts, name, by)
        if member.topic_regex:
            _add(self.regex_counts, member.topic_regex, by)
        if member.server_assignor is not None:
            _add(self.assignor_counts, member.server_assignor, by)

    def _occupy_all(self, member: Member) -> None:
        """Set the owner epochs of a member's partitions."""
        if self.is_loading:
            return
        for topic, partition in _owned_partitions(member):
            owners = self._owner_epochs.setdefault(topic, {})
            owner_epoch = owners.get(partition, FREE)
            assert owner_epoch == FREE, (
                f"{self.group_id}: partition {topic.hex()}-{partition} cannot be owned "
                f"at epoch {member.epoch}, it is still owned at {owner_epoch}"
            )
            owners[partition] = member.epoch

    def _release(self, topic: TopicId, partition: int) -> None:
        """Free a partition."""
        owners = self._owner_epochs[topic]
        del owners[partition]
        if not owners:
            del self._owner_epochs[topic]


def _has_same_metadata(before: Member, after: Member) -> bool:
    """Return whether only the current assignment of a member differs.

    Long values are compared by identity: a member with another assignment shares them.
    """
    return (
        before.topic_names is after.topic_names
        and before.topic_regex == after.topic_regex
        and before.instance_id == after.instance_id
        and before.server_assignor == after.server_assignor
        and before.client_assignors is after.client_assignors
        and before.classic is after.classic
    )


def _owned_partitions(member: Member) -> Iterator[tuple[TopicId, int]]:
    """Yield the partitions that a member owns or has yet to revoke."""
    for assigned in (member.assigned, member.pending_revocation):
        for topic, partitions in assigned.items():
            for partition in partitions:
                yield topic, partition


def _add(counts: Counter[_Key], key: _Key, by: int) -> None:
    counts[key] += by
    assert counts[key] >= 0, key
    if not counts[key]:
        del counts[key]
