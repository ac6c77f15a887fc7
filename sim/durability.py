"""Check durability: a replay of the log, even after any valid compaction, gives the
live state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.record_serde import decode_record, encode_record
from coterie.broker.coordinator.result import Origin, Record
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.state import State
from coterie.broker.log.log import Log, LogPartition
from coterie.settings import Settings
from coterie.wire.record_batch import (
    BatchHeader,
    decode_marker,
    decode_records,
    read_header,
)
from sim.broken import Broken

_READ_BYTES = 1 << 20


class Entry(NamedTuple):
    """A record in the log; `batch` is the base offset of its batch. A transaction
    marker has no record.
    """

    batch: int
    key: bytes
    record: Record | None
    origin: Origin
    commits: bool = False
    """Whether a marker is a COMMIT."""


def read_log(log: Log, log_partition: LogPartition) -> list[Entry]:
    """Return every flushed record of a partition."""
    return list(_entries(log, log_partition))


def _entries(log: Log, log_partition: LogPartition) -> Iterator[Entry]:
    at = 0
    while batches := log.read(log_partition, at, _READ_BYTES):
        for batch in batches:
            header = read_header(batch)
            at = header.last_offset + 1
            yield from entries_of(batch, header)


def entries_of(batch: bytes, header: BatchHeader) -> Iterator[Entry]:
    """Yield the records of a batch; the transaction marker of a control batch."""
    base, who = header.base_offset, (-1, -1)
    if header.is_transactional:
        who = header.producer_id, header.producer_epoch
    if header.is_control:
        for found in decode_records(batch, header):  # none when it was compacted
            marker = decode_marker(found)
            assert marker is not None
            origin = Origin(base, header.max_timestamp_ms, *who)
            yield Entry(base, b"", None, origin, marker.commit)
        return
    for found in decode_records(batch, header):
        record = decode_record(found.key, found.value)
        if record is None:
            continue  # the barrier of a gateway node
        assert found.key is not None
        origin = Origin(found.offset, found.timestamp_ms, *who)
        yield Entry(base, found.key, record, origin)


def replayed(entries: Sequence[Entry], settings: Settings) -> State:
    """Return the state after replaying the records. Raise Broken when they cannot be
    replayed.
    """
    shard = Shard(settings)
    for entry in entries:
        try:
            _replay(shard, entry)
        except AssertionError as error:
            what = f"offset {entry.origin.log_offset}: {entry.record}"
            raise Broken(f"the log cannot be replayed: {what}: {error}") from error
    return shard.state


def _replay(shard: Shard, entry: Entry) -> None:
    at, _, producer_id, producer_epoch = entry.origin
    if entry.record is not None:
        shard.replay(entry.record, entry.origin)
        return
    shard.replay_marker(
        producer_id, producer_epoch, commit=entry.commits, log_offset=at
    )


def compacted(entries: Sequence[Entry], rng: Random) -> list[Entry]:
    """Return the records that remain after some runs of a log cleaner. Each run covers
    the batches up to a random one, drops superseded records, and may stop earlier.
    After a complete last run, tombstones may be removed too. Nothing from the start of
    the first open transaction on is changed, and markers stay.
    """
    left = list(entries)
    bases = sorted({entry.batch for entry in entries})
    for _ in range(rng.randint(1, 2)):
        if not bases:
            return left
        stopped_at, until = sorted((rng.choice(bases), rng.choice(bases)))
        left = _cleaned(left, stopped_at, _stable(left, until))
    if rng.random() < 0.5:
        until = _stable(left, bases[-1] + 1)
        left = _cleaned(left, until, until)
        if rng.random() < 0.5:
            left = [entry for entry in left if not _is_tombstone(entry, until)]
    return left


def _is_tombstone(entry: Entry, until: int) -> bool:
    record = entry.record
    return entry.batch < until and record is not None and record.value is None


def _stable(entries: Sequence[Entry], until: int) -> int:
    """Return the end of the part before `until` without any transaction that is still
    open at that end.
    """
    while True:
        begun: dict[int, int] = {}
        for entry in entries:
            if entry.batch < until and entry.origin.producer_id >= 0:
                if entry.record is None:
                    begun.pop(entry.origin.producer_id, None)
                else:
                    begun.setdefault(entry.origin.producer_id, entry.batch)
        if not begun:
            return until
        until = min(begun.values())


def _aborted(entries: Sequence[Entry]) -> set[int]:
    """Return the offsets of the records of aborted transactions."""
    aborted: set[int] = set()
    pending: dict[int, list[int]] = {}
    for entry in entries:
        producer_id = entry.origin.producer_id
        if entry.record is not None:
            pending.setdefault(producer_id, []).append(entry.origin.log_offset)
        else:
            ended = pending.pop(producer_id, [])
            aborted.update(() if entry.commits else ended)
    return aborted


def _cleaned(entries: Sequence[Entry], stopped_at: int, until: int) -> list[Entry]:
    stopped_at = min(stopped_at, until)
    aborted = _aborted(entries)
    newest = {
        entry.key: entry.origin.log_offset
        for entry in entries
        if entry.batch < until and entry.origin.log_offset not in aborted
    }
    return [
        entry
        for entry in entries
        if entry.batch >= stopped_at
        or entry.record is None
        or entry.origin.log_offset == newest.get(entry.key)
    ]


def check_same(live: State, loaded: State, how: str) -> None:
    """Raise Broken unless both states are durably equal; classic rebalances in progress
    may be lost.
    """
    _same(how, "offsets", live.offsets, loaded.offsets)
    check_same_groups(live, loaded, how)


def check_same_groups(live: State, loaded: State, how: str) -> None:
    """Raise Broken unless both states have the same groups; see `check_same`."""
    durable = _durable(live)
    _same(how, "metadata records", live.group_records, loaded.group_records)
    _same(how, "classic groups", durable, _durable(loaded))
    _same(how, "consumer groups", _whole(live), _whole(loaded))
    _same(how, "topic index", live.topic_index, loaded.topic_index)
    for group_id in sorted(durable):
        group = live.classic_groups[group_id]
        if group.state in (GroupState.EMPTY, GroupState.STABLE):
            other = loaded.classic_groups[group_id]
            _same(how, group_id, _settled(group), _settled(other))


def _durable(state: State) -> set[str]:
    """Return the classic groups that any form of the log restores: not one that lost
    its only offsets, whose commits compaction may have removed."""
    return {
        group_id
        for group_id in state.classic_groups
        if group_id in state.group_records or state.offsets.has(group_id)
    }


def _same(how: str, what: str, live: Any, loaded: Any) -> None:
    if live != loaded:
        raise Broken(f"{what} of {how} differ: live {live}, loaded {loaded}")


def _whole(state: State) -> list[tuple[bytes, bytes | None]]:
    """Return all consumer groups as sorted records."""
    groups = state.consumer_groups.values()
    return sorted(
        encode_record(record) for group in groups for record in group_records(group)
    )


def _settled(group: ClassicGroup) -> tuple[Any, ...]:
    members = [
        (member.member_id, member.group_instance_id, member.assignment)
        for member in group.members.values()
    ]
    about = (group.state, group.generation, group.protocol_type, group.protocol_name)
    return (*about, group.leader_id, group.state_timestamp_ms, members)
