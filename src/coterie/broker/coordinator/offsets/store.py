"""The committed offsets of all groups of a shard, and those of open transactions.

This module holds data; only the replay of records and markers (replay.py) changes it.
Access to one partition costs the same whatever the number of groups and partitions.

Offsets are stored packed (committed.py). Those of a group that was loaded from a
snapshot are decoded at the first access to the group, so that a restart need not decode
all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coterie.broker.coordinator.offsets.committed import (
    CommittedOffset,
    Packed,
    pack,
    unpack,
)
from coterie.types import GroupId, ProducerId, TopicName, TopicPartition

GroupOffsets: TypeAlias = dict[TopicName, dict[int, Packed]]
"""The offsets of one group by topic and partition; no topic is without offsets."""
Loader: TypeAlias = Callable[[], GroupOffsets]
"""A function that decodes the offsets of one group from a snapshot."""

_NO_TOPICS: Mapping[TopicName, Mapping[int, Packed]] = {}
_NO_PARTITIONS: Mapping[int, Packed] = {}
_NO_PRODUCERS: Mapping[TopicPartition, set[ProducerId]] = {}


class Stored:
    """The committed offsets by group; a group without offsets is not contained."""

    __slots__ = ("_groups", "_loaders")

    def __init__(self) -> None:
        self._groups: dict[GroupId, GroupOffsets] = {}
        self._loaders: dict[GroupId, Loader] = {}

    def adopt(self, group_id: GroupId, loader: Loader) -> None:
        """Add a group whose offsets are loaded at the first access."""
        assert group_id not in self._groups, group_id
        self._loaders[group_id] = loader

    def group(self, group_id: GroupId) -> Mapping[TopicName, Mapping[int, Packed]]:
        """Return a view of all offsets of a group; empty when it has none."""
        if self._loaders and group_id in self._loaders:
            self._load(group_id)
        return self._groups.get(group_id, _NO_TOPICS)

    def items(
        self, group_id: GroupId
    ) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """Yield all offsets of a group."""
        for topic, of_topic in self.group(group_id).items():
            for partition, packed in of_topic.items():
                yield TopicPartition(topic, partition), unpack(packed)

    def partitions(self, group_id: GroupId, topic: TopicName) -> Mapping[int, Packed]:
        """Return a view of a group's offsets of a topic; empty without any."""
        return self.group(group_id).get(topic, _NO_PARTITIONS)

    def __contains__(self, group_id: GroupId) -> bool:
        return group_id in self._groups or group_id in self._loaders

    def __iter__(self) -> Iterator[GroupId]:
        yield from self._groups
        yield from self._loaders

    def get(
        self, group_id: GroupId, topic: TopicName, partition: int
    ) -> CommittedOffset | None:
        """Return the offset of one partition, or None."""
        packed = self.partitions(group_id, topic).get(partition)
        return None if packed is None else unpack(packed)

    def put(
        self,
        group_id: GroupId,
        topic: TopicName,
        partition: int,
        committed: CommittedOffset,
    ) -> None:
        """Store an offset; it replaces an older one."""
        self.put_all(group_id, topic, {partition: pack(partition, committed)})

    def put_all(
        self, group_id: GroupId, topic: TopicName, offsets: dict[int, Packed]
    ) -> None:
        """Store packed offsets of a topic; they replace older ones. The dictionary
        belongs to this object afterwards."""
        if self._loaders and group_id in self._loaders:
            self._load(group_id)
        of_group = self._groups.get(group_id)
        if of_group is None:
            of_group = self._groups[group_id] = {}
        of_topic = of_group.get(topic)
        if of_topic is None:
            of_group[topic] = offsets
        else:
            of_topic.update(offsets)

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> None:
        """Remove the offset of a partition if it exists."""
        if self._loaders and group_id in self._loaders:
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
        """Return the number of offsets of the groups that are loaded."""
        return sum(
            len(of_topic)
            for of_group in self._groups.values()
            for of_topic in of_group.values()
        )

    def _load(self, group_id: GroupId) -> None:
        loaded = self._loaders[group_id]()  # raises LogError again in the next call
        del self._loaders[group_id]
        if loaded:
            self._groups[group_id] = loaded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stored):
            return NotImplemented
        for stored in (self, other):
            for group_id in tuple(stored._loaders):
                stored._load(group_id)
        return self._groups == other._groups

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class OpenTransaction:
    """The offsets of one producer's open transaction, by group."""

    producer_epoch: int
    groups: dict[GroupId, dict[TopicPartition, CommittedOffset]] = field(
        default_factory=dict
    )


class Pending:
    """The offsets of open transactions, until their COMMIT or ABORT marker."""

    __slots__ = ("_by_group", "transactions")

    def __init__(self) -> None:
        self.transactions: dict[ProducerId, OpenTransaction] = {}
        self._by_group: dict[GroupId, dict[TopicPartition, set[ProducerId]]] = {}

    def has_group(self, group_id: GroupId) -> bool:
        """Return whether any transaction has offsets of the group."""
        return group_id in self._by_group

    def contains(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Return whether any transaction has an offset of the group's partition."""
        of_group = self._by_group.get(group_id)
        return of_group is not None and TopicPartition(topic, partition) in of_group

    def items(
        self, group_id: GroupId
    ) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """Yield the group's offsets in all transactions; a partition may repeat."""
        for name, producers in self._by_group.get(group_id, _NO_PRODUCERS).items():
            for producer_id in producers:
                yield name, self.transactions[producer_id].groups[group_id][name]

    def partitions(self, group_id: GroupId) -> Collection[TopicPartition]:
        """Return the group's partitions with an offset in any transaction."""
        return self._by_group.get(group_id, _NO_PRODUCERS)

    def groups(self) -> Iterator[GroupId]:
        """Return an iterator over the groups with offsets in any transaction."""
        return iter(self._by_group)

    def put(
        self,
        producer: tuple[ProducerId, int],
        group_id: GroupId,
        name: TopicPartition,
        committed: CommittedOffset,
    ) -> None:
        """Store an offset of a transaction; `producer` is its id and epoch."""
        producer_id, producer_epoch = producer
        transaction = self.transactions.get(producer_id)
        if transaction is None:
            transaction = OpenTransaction(producer_epoch)
            self.transactions[producer_id] = transaction
        transaction.producer_epoch = producer_epoch
        transaction.groups.setdefault(group_id, {})[name] = committed
        of_group = self._by_group.setdefault(group_id, {})
        of_group.setdefault(name, set()).add(producer_id)

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> None:
        """Remove a group's partition from every transaction (E17-17)."""
        name = TopicPartition(topic, partition)
        producers = self._by_group.get(group_id, _NO_PRODUCERS).get(name, ())
        for producer_id in tuple(producers):
            self._remove(producer_id, group_id, name)

    def end(
        self, producer_id: ProducerId
    ) -> dict[GroupId, dict[TopicPartition, CommittedOffset]]:
        """Remove a producer's transaction and return its offsets by group."""
        transaction = self.transactions.get(producer_id)
        if transaction is None:
            return {}
        groups = {group_id: {**names} for group_id, names in transaction.groups.items()}
        for group_id, names in groups.items():
            for name in names:
                self._remove(producer_id, group_id, name)
        return groups

    def _remove(
        self, producer_id: ProducerId, group_id: GroupId, name: TopicPartition
    ) -> None:
        """Remove one offset, and all that becomes empty without it."""
        transaction = self.transactions[producer_id]
        of_transaction = transaction.groups[group_id]
        del of_transaction[name]
        if not of_transaction:
            del transaction.groups[group_id]
        if not transaction.groups:
            del self.transactions[producer_id]
        of_group = self._by_group[group_id]
        of_group[name].remove(producer_id)
        if not of_group[name]:
            del of_group[name]
        if not of_group:
            del self._by_group[group_id]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pending):
            return NotImplemented
        return self.transactions == other.transactions

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Offsets:
    """The offsets of a shard: committed (`stored`), and of open transactions
    (`pending`)."""

    stored: Stored = field(default_factory=Stored)
    pending: Pending = field(default_factory=Pending)

    def has(self, group_id: GroupId) -> bool:
        """Return whether the group has any offset, stored or pending."""
        return group_id in self.stored or self.pending.has_group(group_id)

    def holds(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Return whether a partition has an offset of the group, stored or pending."""
        if partition in self.stored.partitions(group_id, topic):
            return True
        return self.pending.contains(group_id, topic, partition)

    def partitions(self, group_id: GroupId) -> list[TopicPartition]:
        """Return the partitions with an offset of the group, stored or pending."""
        names = {
            TopicPartition(topic, partition): None
            for topic, of_topic in self.stored.group(group_id).items()
            for partition in of_topic
        }
        names.update((name, None) for name, _ in self.pending.items(group_id))
        return [*names]
