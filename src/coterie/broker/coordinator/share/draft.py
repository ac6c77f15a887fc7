"""A handler's draft of a share group: its records, and the group after them.

A request changes one member at most, which the draft holds beside the unchanged group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from coterie.broker.coordinator.assignors import simple
from coterie.broker.coordinator.assignors.spec import GroupSpec, MemberSpec, TopicSpec
from coterie.broker.coordinator.consumer.draft import RefreshSet
from coterie.broker.coordinator.consumer.group import Refresh
from coterie.broker.coordinator.consumer.member import Target
from coterie.broker.coordinator.consumer.target import build_target
from coterie.broker.coordinator.consumer.timers import cancel_session
from coterie.broker.coordinator.consumer.topics import existing_topics, hash_of_topics
from coterie.broker.coordinator.result import Context, ResultDraft
from coterie.broker.coordinator.share.group import (
    NO_PARTITIONS,
    PartitionStates,
    ShareGroup,
    ShareMember,
)
from coterie.broker.coordinator.share.record_builders import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    partitions_record,
    target_epoch_record,
    target_record,
)
from coterie.types import MemberId, TopicId, TopicName

REFRESH_INTERVAL_MS: Final = 2**31 - 1
"""The time after which a group refreshes the metadata of its topics without a change
of topics, as Kafka's `METADATA_REFRESH_INTERVAL_MS`."""


class ShareDraft(ResultDraft):
    """The collected result of a handler, and the group after it."""

    def __init__(self, group: ShareGroup, context: Context) -> None:
        super().__init__(context)
        self.group = group
        self.epoch = group.epoch
        self.assignment_epoch = group.assignment_epoch
        self.metadata_hash = group.metadata_hash
        self.partitions = group.partitions or NO_PARTITIONS
        self._changed: dict[MemberId, ShareMember | None] = {}
        self._targets: Mapping[MemberId, Target] = group.targets

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    def has_member(self, member_id: MemberId) -> bool:
        """Return whether the group has a member, new ones included."""
        return member_id in self.group.members or member_id in self._changed

    def target(self, member_id: MemberId) -> Target:
        """Return the target assignment of a member."""
        return self._targets.get(member_id, {})

    def topic_names(self) -> Iterable[TopicName]:
        """Return the topics that any member subscribes to."""
        counts = self.group.topic_counts
        if self._changed:
            counts = counts.copy()
            for member_id, after in self._changed.items():
                before = self.group.members.get(member_id)
                counts.subtract(() if before is None else before.topic_names)
                counts.update(() if after is None else after.topic_names)
        return {name for name, count in counts.items() if count > 0}

    # The changes of a request, in the order of their records.

    def put_metadata(self, member: ShareMember) -> None:
        """Add a member, or change its metadata and subscription (record 10)."""
        assert member.member_id, "a member has an id"
        self._changed[member.member_id] = member
        self.write(member_record(self.group_id, member))

    def refresh_topics(self) -> bool:
        """Hash the topics' metadata again; return whether the hash changed."""
        old = self.metadata_hash
        topics = self.context.environment.topics
        self.metadata_hash = hash_of_topics(self.topic_names(), topics)
        return self.metadata_hash != old

    def bump(self) -> None:
        """Bump the group epoch (record 11)."""
        assert self.epoch == self.group.epoch, "a request bumps the epoch once"
        self.epoch += 1
        self.write(epoch_record(self.group_id, self.epoch, self.metadata_hash))

    def schedule_refresh(self) -> None:
        """Set the time of the next metadata refresh."""
        deadline_ms = self.context.now_ms + REFRESH_INTERVAL_MS
        self.make(RefreshSet(self.group_id, Refresh(deadline_ms, self.epoch)))

    def make_target(self) -> None:
        """Compute the target of the group epoch (records 13 and 12).

        Raises:
            ApiError: UNKNOWN_SERVER_ERROR: the assignor failed.
        """
        new = build_target(self._spec(), self.group.targets, simple.assign)
        for member_id, target in sorted(new.changed.items()):
            self.write(target_record(self.group_id, member_id, target))
        self._targets = new.targets
        self.put_target_epoch(self.context.now_ms)

    def put_target_epoch(self, at_ms: int) -> None:
        """Set the epoch and the time of the target (record 12)."""
        assert self.epoch > self.assignment_epoch, "an epoch has one target"
        self.assignment_epoch = self.epoch
        self.write(target_epoch_record(self.group_id, self.epoch, at_ms))

    def _spec(self) -> GroupSpec:
        """Return the input of the assignor; members with equal subscriptions share one
        set of topics."""
        members = {**self.group.members, **self._changed}
        environment = self.context.environment
        ids: dict[TopicName, TopicId] = {}
        topics: dict[TopicId, TopicSpec] = {}
        for name, topic_id, count, _ in existing_topics(
            self.topic_names(), environment.topics
        ):
            ids[name] = topic_id
            known = self.partitions.initialized.get(topic_id)
            assignable = () if known is None else sorted(known.partitions)
            topics[topic_id] = TopicSpec(
                count, assignable=[each for each in assignable if each < count]
            )
        wanted: dict[tuple[TopicName, ...], frozenset[TopicId]] = {}
        specs: dict[MemberId, MemberSpec] = {}
        for member_id, member in sorted(members.items()):
            if member is None:
                continue
            names = member.topic_names
            if names not in wanted:
                wanted[names] = frozenset(ids[name] for name in names if name in ids)
            specs[member_id] = MemberSpec(
                member_id, None, member.rack_id, wanted[names], self.target(member_id)
            )
        return GroupSpec(specs, topics)

    def put_current(self, member: ShareMember) -> None:
        """Change a member's current assignment (record 14)."""
        assert self.has_member(member.member_id), member.member_id
        assert member.epoch <= self.assignment_epoch, "a member is ahead of the target"
        self._changed[member.member_id] = member
        self.write(current_record(self.group_id, member))

    def put_partitions(self, partitions: PartitionStates) -> None:
        """Change the states of the group's partitions (record 15)."""
        self.partitions = partitions
        self.write(partitions_record(self.group_id, partitions))

    def remove(self, member: ShareMember) -> None:
        """Remove a member with its records and its session, and bump the epoch."""
        member_id = member.member_id
        assert member_id in self.group.members, f"{member_id} is not a member"
        self._changed[member_id] = None
        for record in member_tombstones(self.group_id, member_id):
            self.write(record)
        self.refresh_topics()
        self.bump()
        if len(self.group.members) == 1:
            # Without a timestamp, so that it does not delay the next target
            # (KAFKA-20442).
            self.put_target_epoch(0)
        self.set(cancel_session(self.group_id, member_id))
