"""The committed offsets of all groups of a shard, and those of open transactions.

Rules of this file: it holds data and decides nothing; only the replay of records and
markers (replay.py) calls what changes it. Looking at one partition costs the same
whatever the number of groups, topics and partitions.

An offset is kept packed, which is its answer to a fetch with a head (packed.py). A
group's offsets may be adopted: they are read from a snapshot when the group's
offsets are first looked at, so that a restarted server does not replay them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coterie.coordinator.offsets.packed import Packed, pack, unpack
from coterie.coordinator.offsets.values import CommittedOffset
from coterie.types import GroupId, ProducerId, TopicName, TopicPartition

GroupOffsets: TypeAlias = dict[TopicName, dict[int, Packed]]
"""The offsets of one group by topic and partition; no topic has none."""
Loader: TypeAlias = Callable[[], GroupOffsets]
"""Reads the offsets that a snapshot holds of one group."""

_NO_TOPICS: Mapping[TopicName, Mapping[int, Packed]] = {}
_NO_PARTITIONS: Mapping[int, Packed] = {}


class Stored:
    """The committed offsets by group. A group without any is not in it."""

    __slots__ = ("_groups", "_waiting")

    def __init__(self) -> None:
        self._groups: dict[GroupId, GroupOffsets] = {}
        self._waiting: dict[GroupId, Loader] = {}

    def adopt(self, group_id: GroupId, loader: Loader) -> None:
        """Take over a group's offsets; they are loaded when first looked at."""
        assert group_id not in self._groups, group_id
        self._waiting[group_id] = loader

    def group(self, group_id: GroupId) -> Mapping[TopicName, Mapping[int, Packed]]:
        """All offsets of a group, to look at; empty when it has none."""
        if self._waiting and group_id in self._waiting:
            self._load(group_id)
        return self._groups.get(group_id, _NO_TOPICS)

    def items(
        self, group_id: GroupId
    ) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """All offsets of a group, one after the other."""
        for topic, of_topic in self.group(group_id).items():
            for partition, packed in of_topic.items():
                yield TopicPartition(topic, partition), unpack(packed)

    def partitions(self, group_id: GroupId, topic: TopicName) -> Mapping[int, Packed]:
        """The offsets of a topic, to look at; empty when there is none."""
        return self.group(group_id).get(topic, _NO_PARTITIONS)

    def __contains__(self, group_id: GroupId) -> bool:
        return group_id in self._groups or group_id in self._waiting

    def __iter__(self) -> Iterator[GroupId]:
        yield from self._groups
        yield from self._waiting

    def get(
        self, group_id: GroupId, topic: TopicName, partition: int
    ) -> CommittedOffset | None:
        """The offset of one partition; None when there is none."""
        packed = self.partitions(group_id, topic).get(partition)
        return None if packed is None else unpack(packed)

    def put(
        self,
        group_id: GroupId,
        topic: TopicName,
        partition: int,
        committed: CommittedOffset,
    ) -> None:
        """Keep an offset in the place of an older one."""
        if self._waiting and group_id in self._waiting:
            self._load(group_id)
        of_group = self._groups.get(group_id)
        if of_group is None:
            of_group = self._groups[group_id] = {}
        of_topic = of_group.get(topic)
        if of_topic is None:
            of_topic = of_group[topic] = {}
        of_topic[partition] = pack(partition, committed)

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> None:
        """Forget an offset, if there is one."""
        if self._waiting and group_id in self._waiting:
            self._load(group_id)
        of_group = self._groups.get(group_id, {})
        of_topic = of_group.get(topic, {})
        if of_topic.pop(partition, None) is None:
            return
        if not of_topic:
            del of_group[topic]
        if not of_group:
            del self._groups[group_id]

    def loaded_count(self) -> int:
        """How many offsets there are of groups that have been looked at."""
        return sum(
            len(of_topic)
            for of_group in self._groups.values()
            for of_topic in of_group.values()
        )

    def _load(self, group_id: GroupId) -> None:
        loaded = self._waiting.pop(group_id)()
        if loaded:
            self._groups[group_id] = loaded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stored):
            return NotImplemented
        for stored in (self, other):
            for group_id in tuple(stored._waiting):
                stored._load(group_id)
        return self._groups == other._groups

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class OpenTransaction:
    """What one producer's open transaction has committed, by group."""

    producer_epoch: int
    groups: dict[GroupId, dict[TopicPartition, CommittedOffset]] = field(
        default_factory=dict
    )


class Pending:
    """The offsets of open transactions: they count when the COMMIT marker comes."""

    __slots__ = ("_by_group", "transactions")

    def __init__(self) -> None:
        self.transactions: dict[ProducerId, OpenTransaction] = {}
        self._by_group: dict[GroupId, dict[ProducerId, None]] = {}

    def has_group(self, group_id: GroupId) -> bool:
        """Whether any transaction has offsets of the group."""
        return group_id in self._by_group

    def producers(self, group_id: GroupId) -> tuple[ProducerId, ...]:
        """The producers whose transactions have offsets of the group."""
        return tuple(self._by_group.get(group_id, ()))

    def contains(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Whether any transaction has an offset of the group's partition."""
        if group_id not in self._by_group:
            return False
        name = TopicPartition(topic, partition)
        return any(
            name in self.transactions[producer_id].groups[group_id]
            for producer_id in self._by_group[group_id]
        )

    def items(
        self, group_id: GroupId
    ) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """The group's offsets in all transactions; a partition may come repeatedly."""
        for producer_id in self._by_group.get(group_id, ()):
            yield from self.transactions[producer_id].groups[group_id].items()

    def groups(self) -> Iterator[GroupId]:
        """The groups with offsets in any transaction."""
        return iter(self._by_group)

    def put(
        self,
        producer: tuple[ProducerId, int],
        group_id: GroupId,
        name: TopicPartition,
        committed: CommittedOffset,
    ) -> None:
        """Keep an offset of a transaction; `producer` is its id and epoch."""
        producer_id, producer_epoch = producer
        transaction = self.transactions.get(producer_id)
        if transaction is None:
            transaction = OpenTransaction(producer_epoch)
            self.transactions[producer_id] = transaction
        transaction.producer_epoch = producer_epoch
        transaction.groups.setdefault(group_id, {})[name] = committed
        self._by_group.setdefault(group_id, {})[producer_id] = None

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> None:
        """Forget a partition of a group in every transaction (E17-17)."""
        name = TopicPartition(topic, partition)
        for producer_id in self.producers(group_id):
            transaction = self.transactions[producer_id]
            transaction.groups[group_id].pop(name, None)
            if not transaction.groups[group_id]:
                self._forget(producer_id, group_id)

    def end(
        self, producer_id: ProducerId
    ) -> dict[GroupId, dict[TopicPartition, CommittedOffset]]:
        """Close a producer's transaction and hand over what it had, by group."""
        transaction = self.transactions.get(producer_id)
        if transaction is None:
            return {}
        groups = dict(transaction.groups)
        for group_id in groups:
            self._forget(producer_id, group_id)
        return groups

    def _forget(self, producer_id: ProducerId, group_id: GroupId) -> None:
        transaction = self.transactions[producer_id]
        del transaction.groups[group_id]
        if not transaction.groups:
            del self.transactions[producer_id]
        del self._by_group[group_id][producer_id]
        if not self._by_group[group_id]:
            del self._by_group[group_id]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pending):
            return NotImplemented
        return self.transactions == other.transactions

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Offsets:
    """All offsets of a shard. `stored` count; `pending` wait for a marker."""

    stored: Stored = field(default_factory=Stored)
    pending: Pending = field(default_factory=Pending)

    def has(self, group_id: GroupId) -> bool:
        """Whether the group has any offset, stored or pending."""
        return group_id in self.stored or self.pending.has_group(group_id)

    def holds(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Whether the partition has an offset of the group, stored or pending."""
        if partition in self.stored.partitions(group_id, topic):
            return True
        return self.pending.contains(group_id, topic, partition)

    def partitions(self, group_id: GroupId) -> list[TopicPartition]:
        """Every partition with an offset of the group, stored or pending, once."""
        names = {
            TopicPartition(topic, partition): None
            for topic, of_topic in self.stored.group(group_id).items()
            for partition in of_topic
        }
        names.update((name, None) for name, _ in self.pending.items(group_id))
        return [*names]
