"""A share group as data (KIP-932): its members, its target, and its partitions.

Only replay changes a group, by the methods below; handlers read it. Unlike in a
consumer group, a partition may be assigned to several members, and a member has no
partitions to revoke: its assignment is replaced in one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.consumer.group import Refresh
from coterie.broker.coordinator.consumer.member import JOIN_EPOCH, Target
from coterie.types import GroupId, MemberId, TopicId, TopicName

SHARE_PROTOCOL_TYPE: Final = "share"
"""The protocol type and the group type of share groups."""
FIRST_EPOCH: Final = 1
"""The epoch of a group and of its target before the first member joins."""
_NO_EPOCH: Final = -1
_NO_TARGET: Final[Target] = {}


class ShareGroupState(Enum):
    """The states of a share group, with Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareMember(NamedTuple):
    """A member: its subscription, and its current assignment.

    `topic_names` are sorted and unique.
    """

    member_id: MemberId
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[TopicName, ...] = ()
    epoch: int = JOIN_EPOCH
    previous_epoch: int = _NO_EPOCH
    assigned: Target = _NO_TARGET


class ShareTopic(NamedTuple):
    """The name of a topic, and those of its partitions that are in the same state."""

    name: TopicName
    partitions: frozenset[int]


ShareTopics: TypeAlias = Mapping[TopicId, ShareTopic]
_NO_TOPICS: Final[ShareTopics] = {}
_NO_NAMES: Final[Mapping[TopicId, TopicName]] = {}


class PartitionStates(NamedTuple):
    """The partitions of a group by their state: the content of record 15.

    Partitions can be assigned once they are `initialized`. `initializing_ms` is the
    time of the record, from which the retry of an initialization counts.
    """

    initializing: ShareTopics = _NO_TOPICS
    initialized: ShareTopics = _NO_TOPICS
    deleting: Mapping[TopicId, TopicName] = _NO_NAMES
    initializing_ms: int = 0


NO_PARTITIONS: Final = PartitionStates()

FIELDS: Final = (
    "assigned_ms",
    "assignment_epoch",
    "epoch",
    "group_id",
    "members",
    "metadata_hash",
    "partitions",
    "refresh",
    "targets",
    "topic_counts",
)
"""The attributes of a share group that are compared."""


class ShareGroup:
    """A share group: durable fields, and indexes derived from them."""

    __slots__ = (*FIELDS, "_is_pending")

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_ms = 0
        """The time of the target assignment; 0 if the next one need not wait."""
        self.metadata_hash = 0
        """The hash of the topics' metadata at the last bump of the epoch (KIP-1101)."""
        self.refresh = Refresh()
        self.members: dict[MemberId, ShareMember] = {}
        self.targets: dict[MemberId, Target] = {}
        self.partitions: PartitionStates | None = None
        """None before the first record 15."""
        self.topic_counts: Counter[TopicName] = Counter()
        """The number of members that subscribe to each topic."""
        self._is_pending: bool | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShareGroup) and all(
            getattr(self, name) == getattr(other, name) for name in FIELDS
        )

    __hash__ = None  # type: ignore[assignment]  # a group changes

    @property
    def state(self) -> ShareGroupState:
        """The state: a share group with members is always Stable."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def initialized(self) -> ShareTopics:
        """The partitions that can be assigned."""
        return (self.partitions or NO_PARTITIONS).initialized

    def target(self, member_id: MemberId) -> Target:
        """Return the target assignment of a member; empty without one."""
        return self.targets.get(member_id, _NO_TARGET)

    def is_refresh_due(self, now_ms: int) -> bool:
        """Return whether the topics' metadata must be refreshed."""
        return now_ms >= self.refresh.deadline_ms or self.epoch < self.refresh.epoch

    @property
    def is_assignment_pending(self) -> bool:
        """True when the target lacks initialized partitions of subscribed topics, or
        has others of them (KAFKA-20291).

        It is computed once after each change of the group.
        """
        if self._is_pending is None:
            self._is_pending = self._compute_pending()
        return self._is_pending

    def _compute_pending(self) -> bool:
        if not self.members:
            return False
        wanted = {
            topic_id: topic.partitions
            for topic_id, topic in self.initialized.items()
            if topic.name in self.topic_counts
        }
        assigned: dict[TopicId, set[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                if topic_id in wanted:
                    assigned.setdefault(topic_id, set()).update(partitions)
        return assigned != wanted

    # The changes of a replay.

    def put_member(self, member: ShareMember) -> None:
        """Add a member, or replace the one with its id."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is None or before.topic_names != member.topic_names:
            self._count(() if before is None else before.topic_names, -1)
            self._count(member.topic_names, 1)
        self._is_pending = None

    def remove_member(self, member_id: MemberId) -> None:
        """Remove a member if it exists."""
        member = self.members.pop(member_id, None)
        self._count(() if member is None else member.topic_names, -1)
        self._is_pending = None

    def put_target(self, member_id: MemberId, target: Target | None) -> None:
        """Set the target of a member; None removes it."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target
        self._is_pending = None

    def put_partitions(self, partitions: PartitionStates | None) -> None:
        """Set the states of the group's partitions."""
        self.partitions = partitions
        self._is_pending = None

    def _count(self, names: tuple[TopicName, ...], by: int) -> None:
        for name in names:
            self.topic_counts[name] += by
            assert self.topic_counts[name] >= 0, name
            if not self.topic_counts[name]:
                del self.topic_counts[name]
