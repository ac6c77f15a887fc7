"""The `simple` assignor of share groups (KIP-932), as Kafka 4.4's `SimpleAssignor`.

A partition may have several members. Every partition gets the same number of members,
and the members get about the same number of partitions. Partitions stay with their
members as far as possible. If all members subscribe to the same topics, the topics
are balanced together; otherwise each on its own.

Kafka iterates over hash maps. Here members and partitions are in ascending order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TypeAlias

from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.types import MemberId, TopicId

_Partition: TypeAlias = tuple[TopicId, int]


def assign(spec: GroupSpec) -> Assignment:
    """Assign the assignable partitions of the subscribed topics.

    Raises:
        KeyError: A member is subscribed to a topic that does not exist.
    """
    members = [spec.members[member_id] for member_id in sorted(spec.members)]
    subscribed = {topic for member in members for topic in member.subscribed_topic_ids}
    if not subscribed:
        return {}
    is_uniform = len({member.subscribed_topic_ids for member in members}) == 1
    assigned = {
        member.member_id: {
            (topic, partition)
            for topic, partitions in member.partitions.items()
            # With different subscriptions Kafka keeps topics that no member subscribes
            # to any more in the target.
            if topic in subscribed or not is_uniform
            for partition in partitions
        }
        for member in members
    }
    parts = (
        [sorted(subscribed)] if is_uniform else [[each] for each in sorted(subscribed)]
    )
    for topics in parts:
        _Sharing(
            [
                (topic, partition)
                for topic in topics
                for partition in spec.topics[topic].assignable
            ],
            [
                member.member_id
                for member in members
                if member.subscribed_topic_ids.issuperset(topics)
            ],
            frozenset(topics),
            assigned,
        ).run()
    return {member_id: _by_topic(some) for member_id, some in assigned.items()}


def _by_topic(partitions: set[_Partition]) -> dict[TopicId, set[int]]:
    found: dict[TopicId, set[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, set()).add(partition)
    return found


class _Sharing:
    """The assignment of some topics to their subscribers; `run` updates `assigned`."""

    def __init__(
        self,
        partitions: Sequence[_Partition],
        subscribers: Sequence[MemberId],
        topics: frozenset[TopicId],
        assigned: dict[MemberId, set[_Partition]],
    ) -> None:
        self._assigned = assigned
        self._owned = {
            member_id: {each for each in some if each[0] in topics}
            for member_id, some in assigned.items()
        }
        count = len(subscribers)
        assert count, "a topic without a subscriber is not balanced"
        self._sharing = ceil(count / len(partitions)) if partitions else 0
        """The number of members of each partition."""
        # In floating point numbers, as Kafka does.
        precise = self._sharing * len(partitions) / count
        self._desired = dict.fromkeys(assigned, 0)
        for index, member_id in enumerate(subscribers):
            self._desired[member_id] = ceil(precise * (index + 1)) - ceil(
                precise * index
            )
        self._owners: dict[_Partition, set[MemberId]] = {}
        for member_id, some in self._owned.items():
            for partition in some:
                self._owners.setdefault(partition, set()).add(member_id)
        for partition in partitions:
            self._owners.setdefault(partition, set())

    def run(self) -> None:
        """Revoke what is too much, and assign what is missing."""
        self._revoke_from_overfilled_members()
        self._revoke_overshared_partitions()
        self._assign_missing()

    def _revoke_from_overfilled_members(self) -> None:
        for member_id, owned in self._owned.items():
            excess = len(owned) - self._desired[member_id]
            for partition in sorted(owned)[: max(excess, 0)]:
                self._revoke(partition, member_id)

    def _revoke_overshared_partitions(self) -> None:
        for partition, owners in self._owners.items():
            excess = len(owners) - self._sharing
            for member_id in sorted(owners)[: max(excess, 0)]:
                self._revoke(partition, member_id)

    def _revoke(self, partition: _Partition, member_id: MemberId) -> None:
        assert partition in self._owned[member_id], partition
        self._owned[member_id].remove(partition)
        self._assigned[member_id].remove(partition)
        self._owners[partition].remove(member_id)

    def _assign_missing(self) -> None:
        """Assign partitions that have too few members, round-robin to the members that
        have too few partitions.

        As in Kafka, a member that got the partition in this step may be counted again,
        and the first partition that no member can take ends the step.
        """
        unfilled = {
            member_id: None
            for member_id, owned in self._owned.items()
            if len(owned) < self._desired[member_id]
        }
        ring = _Ring(unfilled)
        for partition in sorted(self._owners):
            owners = self._owners[partition]
            for _ in range(self._sharing - len(owners)):
                taker = next((one for one in ring if one not in owners), None)
                if taker is None:
                    return
                ring.has_taken = True
                owned = self._owned[taker]
                owned.add(partition)
                self._assigned[taker].add(partition)
                if len(owned) >= self._desired[taker]:
                    del unfilled[taker]


class _Ring:
    """An endless walk over members, which may be removed meanwhile.

    It ends when no member has taken a partition since its last start.
    """

    def __init__(self, members: dict[MemberId, None]) -> None:
        self._members = members
        self._round: Iterator[MemberId] = iter([*members])
        self.has_taken = False

    def __iter__(self) -> Iterator[MemberId]:
        return self

    def __next__(self) -> MemberId:
        for member_id in self._round:
            return member_id
        if not self.has_taken or not self._members:
            raise StopIteration
        self._round = iter([*self._members])
        self.has_taken = False
        return next(self._round)
