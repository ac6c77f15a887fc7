"""Compare the states of nodes with replays of upstream's log: as it is, and after any
runs of the log cleaner.

Open transactions are compared, too. Two differences are none of the node's faults:

- A marker is in the log before the owner has read it. Such a state is compared later.
- The log may have offsets of a transaction that are not acknowledged to the owner yet,
  or that its predecessor has written. They are pending in a replay only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie.broker.coordinator.offsets.committed import CommittedOffset
from coterie.broker.coordinator.offsets.store import Offsets
from coterie.broker.coordinator.state import State
from coterie.broker.runtime.shards import CoordinatorPartition, Phase
from coterie.types import GroupId, ProducerId, TopicPartition
from sim.broken import Broken
from sim.durability import (
    Entry,
    check_same_groups,
    compacted,
    entries_of,
    replayed,
)
from sim.gateway.cleaner import Stored, clean_at_random

if TYPE_CHECKING:
    from sim.gateway.node import Process
    from sim.gateway.upstream import Cluster

_NEVER: Final = -1
_CLEANINGS: Final = 2


class _Place(NamedTuple):
    producer_id: ProducerId
    """-1 for a committed offset."""
    group_id: GroupId
    partition: TopicPartition


class Replays:
    """The replays of all shards. `rng` draws the runs of the cleaner."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self.with_transactions = 0
        """The number of comparisons with an open transaction."""

    def compare(self, process: Process, partition: CoordinatorPartition) -> bool:
        """Compare the state of a shard with what another node would load; return False
        when some of it is not replayed yet. Raise Broken when they differ."""
        index = partition.index
        if (
            partition.phase is not Phase.ACTIVE
            or not process.is_quiet(partition)
            or process.order(index) != self._cluster.newest_durable(index)
        ):
            return False
        log = self._cluster.partitions[index]
        stored = [*log.durable()]
        live = partition.shard.state
        logs = {"upstream's log": list(self._entries(stored))}
        if self._cluster.fences:
            for number in range(_CLEANINGS):
                left = clean_at_random(
                    stored, log.stable_end, log.last_records(), self._rng
                )
                logs[f"upstream's compacted log {number}"] = list(self._entries(left))
        else:
            less = compacted(logs["upstream's log"], self._rng)
            logs["upstream's compacted log"] = less
        for how, entries in logs.items():
            loaded = replayed(entries, process.settings)
            if not _settle(live, loaded):
                return False
            _check_offsets(how, live.offsets, loaded.offsets)
            check_same_groups(live, loaded, how)
        self.with_transactions += bool(live.offsets.pending.transactions)
        return True

    def _entries(self, stored: Sequence[Stored]) -> Iterator[Entry]:
        """Yield the records of a partition, without what a producer of the shard wrote
        after a newer one."""
        newest = _NEVER
        for header, batch in stored:
            order = self._cluster.order_of(header.producer_id, header.producer_epoch)
            if order is not None:
                if order < newest:
                    continue
                newest = order
            yield from entries_of(batch, header)


def _settle(live: State, loaded: State) -> bool:
    """Drop the pending offsets that only a replay has; return False when the live state
    has pending ones that the replay has ended."""
    ours = {place for place, _ in _places(live.offsets) if place.producer_id >= 0}
    theirs = {place for place, _ in _places(loaded.offsets) if place.producer_id >= 0}
    if ours - theirs:
        return False
    for producer_id, group_id, partition in theirs - ours:
        pending = loaded.offsets.pending
        pending._remove(producer_id, group_id, partition)  # noqa: SLF001
    return True


def _check_offsets(how: str, live: Offsets, loaded: Offsets) -> None:
    """Raise Broken unless both have the same offsets."""
    ours, theirs = dict(_places(live)), dict(_places(loaded))
    for place in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(place), theirs.get(place)
        is_pending = place.producer_id >= 0
        if is_pending and one and other and _is_later(other.value, one.value):
            continue  # another batch of the transaction, not acknowledged yet
        if one != other:
            raise Broken(f"{place} differs in {how}: live {one}, loaded {other}")


def _is_later(one: CommittedOffset, other: CommittedOffset) -> bool:
    return one.commit_timestamp_ms > other.commit_timestamp_ms


class _Offset(NamedTuple):
    """An offset without its place in the log, which the owner does not know."""

    value: CommittedOffset
    replaces: bool
    """Whether a pending offset replaces the committed one at a COMMIT marker."""


def _places(offsets: Offsets) -> Iterator[tuple[_Place, _Offset]]:
    for group_id in offsets.stored:
        for partition, offset in offsets.stored.items(group_id):
            value = offset._replace(record_offset=-1)
            yield _Place(-1, group_id, partition), _Offset(value, False)
    for producer_id, transaction in offsets.pending.transactions.items():
        for group_id, of_group in transaction.groups.items():
            for partition, offset in of_group.items():
                before = offsets.stored.get(group_id, *partition)
                replaces = before is None or offset.record_offset > before.record_offset
                value = offset._replace(record_offset=-1)
                yield _Place(producer_id, group_id, partition), _Offset(value, replaces)
