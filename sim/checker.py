"""What is checked of a world: after every step, at some steps, and at its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coterie.coordinator import invariants
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.records import group_records
from coterie.coordinator.records.serde import decode_record, encode_record
from coterie.coordinator.result import Origin
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import State
from coterie.log.log import Log
from coterie.runtime.shards import DrivenShard
from coterie.settings import Settings
from coterie.types import GroupId
from coterie.wire.record_batch import decode_marker, decode_records, read_header
from sim.members.consumer import ConsumerMember, Partition, outline

READ_BYTES: Final = 1 << 24


class Checker:
    """Remembers the epochs it has seen, which never go back."""

    def __init__(self) -> None:
        self._epochs: dict[GroupId, tuple[int, int]] = {}
        self._member_epochs: dict[tuple[GroupId, str], int] = {}

    def check(self, shard: Shard, members: Iterable[ConsumerMember]) -> None:
        """After a step of a shard that serves: its state is sound, its epochs do not go
        back, and its members own what it thinks they do."""
        invariants.check(shard.state)
        for group in shard.state.consumer_groups.values():
            self._check_epochs(group)
        for member in members:
            joined = shard.state.consumer_groups.get(member.group_id)
            if joined is not None and member.is_alive:
                _check_view(joined, member)

    def forget(self, group_id: GroupId) -> None:
        """A group is gone; one of the same name begins anew."""
        self._epochs.pop(group_id, None)

    def _check_epochs(self, group: ConsumerGroup) -> None:
        epochs = (group.epoch, group.assignment_epoch)
        before = self._epochs.get(group.group_id, (0, 0))
        assert epochs[0] >= before[0], (
            f"{group.group_id}: group epoch {before}, {epochs}"
        )
        assert epochs[1] >= before[1], f"{group.group_id}: target {before}, {epochs}"
        self._epochs[group.group_id] = epochs
        for member in group.members.values():
            assert member.epoch <= group.epoch, member.member_id


def _check_view(group: ConsumerGroup, member: ConsumerMember) -> None:
    """What a member that is in the group believes to own, nobody else can be given."""
    known = group.members.get(member.member_id)
    if known is None or not member.owned:
        return
    held: set[Partition] = {
        (topic, partition)
        for each in (known.assigned, known.pending_revocation)
        for topic, partitions in each.items()
        for partition in partitions
    }
    stray = member.owned - held
    assert not stray, f"{member.name} still owns {outline(stray)}, and was taken them"


# What the log says.


def check_log(log: Log, driven: DrivenShard, settings: Settings) -> None:
    """A shard that loads the log has what the one that wrote it has."""
    shard = driven.shard
    assert isinstance(shard, Shard)
    loaded = Shard(settings)
    replay_all(log, driven, loaded)
    assert durable(loaded.state) == durable(shard.state)
    assert loaded.state.offsets.stored == shard.state.offsets.stored
    assert loaded.state.topic_index == shard.state.topic_index


def replay_all(log: Log, driven: DrivenShard, shard: Shard) -> None:
    """Have a shard replay everything that is on disk."""
    where = driven.where
    at, end = 0, log.bounds(where).flushed_offset
    while at < end:
        batches = log.read(where, at, READ_BYTES)
        if not batches:
            return
        for batch in batches:
            header = read_header(batch)
            at = header.last_offset + 1
            for found in decode_records(batch, header):
                _replay(shard, found, header)


def _replay(shard: Shard, found: Any, header: Any) -> None:
    if header.is_control:
        marker = decode_marker(found)
        assert marker is not None
        shard.replay_marker(
            header.producer_id,
            header.producer_epoch,
            commit=marker.commit,
            log_offset=found.offset,
        )
        return
    record = decode_record(found.key, found.value)
    assert record is not None
    shard.replay(record, Origin(found.offset, found.timestamp_ms))


def durable(state: State) -> list[tuple[bytes, bytes | None]]:
    """All groups as the log would have them, in whatever order."""
    records = [
        encode_record(record)
        for group in state.consumer_groups.values()
        for record in group_records(group)
    ]
    records += [encode_record(record) for record in state.group_records.values()]
    return sorted(records)
