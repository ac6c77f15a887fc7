"""Snapshots of a shard, so that a restart need not replay the whole log.

A snapshot holds each group's metadata and, apart from it, its offsets: the metadata is
needed at once, the offsets at the first access. Open transactions are one more part. A
loaded snapshot gives the state it was taken from, log offsets of commits included.

Metadata and transactions are stored as encoded records to be replayed: entries of (log
offset, producer id, producer epoch, key length, value length, key, value). The log
offset of metadata is the offset up to which it is current. Offsets, of which there are
many, are stored packed as in memory, topic by topic, which takes a tenth of the time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.offsets.committed import (
    EXPIRING_VERSION,
    VERSION,
    CommittedOffset,
    Packed,
    partition_of,
)
from coterie.broker.coordinator.offsets.store import GroupOffsets
from coterie.broker.coordinator.record_serde import decode_record, encode_record
from coterie.broker.coordinator.records import OffsetCommitKey, OffsetCommitValue
from coterie.broker.coordinator.result import Origin, Record
from coterie.broker.coordinator.share import record_builders as share_records
from coterie.broker.coordinator.state import State
from coterie.errors import LogCorrupt
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition

_ENTRY: Final = struct.Struct(">qqhii")
_FORMAT: Final = b"\1"
"""The format of offsets; a change of the packed form needs another number."""
_TOPIC: Final = struct.Struct(">hi")
_SIZE: Final = struct.Struct(">i")


class GroupSnapshot(NamedTuple):
    """The snapshot of one group; `metadata` is empty for a simple group."""

    metadata: bytes
    offsets: bytes


def take_group(
    state: State, group_id: GroupId, as_of: LogOffset
) -> GroupSnapshot | None:
    """Return the snapshot of a group with all records before `as_of`.

    Return None for a group without metadata and offsets.
    """
    origin = Origin(as_of, -1)
    metadata = b"".join(_entry(record, origin) for record in _metadata(state, group_id))
    offsets = _write_offsets(state.offsets.stored.group(group_id))
    return GroupSnapshot(metadata, offsets) if metadata or offsets else None


def _metadata(state: State, group_id: GroupId) -> list[Record]:
    group = state.consumer_groups.get(group_id)
    if group is not None:
        return group_records(group)
    share_group = state.share_groups.get(group_id)
    if share_group is not None:
        return share_records.group_records(share_group)
    record = state.group_records.get(group_id)
    return [] if record is None else [record]


def take_transactions(state: State) -> bytes:
    """Return the encoded offsets of all open transactions."""
    return b"".join(
        _entry(
            commit_record(group_id, name, committed),
            Origin(
                committed.record_offset, -1, producer_id, transaction.producer_epoch
            ),
        )
        for producer_id, transaction in state.offsets.pending.transactions.items()
        for group_id, offsets in transaction.groups.items()
        for name, committed in offsets.items()
    )


def entries(kept: bytes) -> Iterator[tuple[Record, Origin]]:
    """Yield the records of `metadata` or `take_transactions`, with their origins.

    Raises:
        LogCorrupt: The bytes are malformed.
    """
    at = 0
    while at < len(kept):
        if at + _ENTRY.size > len(kept):
            raise LogCorrupt("a snapshot ends within an entry")
        log_offset, producer_id, epoch, *sizes = _ENTRY.unpack_from(kept, at)
        value_at = at + _ENTRY.size + sizes[0]
        end = value_at + sizes[1]
        if not at + _ENTRY.size <= value_at <= end <= len(kept):
            raise LogCorrupt("a snapshot ends within an entry")
        record = decode_record(kept[at + _ENTRY.size : value_at], kept[value_at:end])
        if record is None:
            raise LogCorrupt("a snapshot holds a record of an unknown type")
        yield record, Origin(log_offset, -1, producer_id, epoch)
        at = end


def _write_offsets(offsets: Mapping[TopicName, Mapping[int, Packed]]) -> bytes:
    if not offsets:
        return b""
    parts = [_FORMAT]
    for topic, of_topic in offsets.items():
        name = topic.encode()
        parts += (_TOPIC.pack(len(name), len(of_topic)), name)
        for packed in of_topic.values():
            parts += (_SIZE.pack(len(packed)), packed)
    return b"".join(parts)


def read_offsets(kept: bytes) -> GroupOffsets:
    """Return the offsets of a group in the packed form of `offsets.store`.

    Raises:
        LogCorrupt: The bytes are malformed.
    """
    if kept[:1] != _FORMAT:
        raise LogCorrupt("a snapshot of offsets in an unknown format")
    offsets: GroupOffsets = {}
    at = len(_FORMAT)
    try:
        while at < len(kept):
            name_size, count = _TOPIC.unpack_from(kept, at)
            at += _TOPIC.size + name_size
            topic = kept[at - name_size : at].decode()
            offsets[topic] = of_topic = {}
            for _ in range(count):
                (size,) = _SIZE.unpack_from(kept, at)
                at += _SIZE.size + size
                packed = kept[at - size : at]
                of_topic[partition_of(packed)] = packed
    except (struct.error, UnicodeDecodeError):
        raise LogCorrupt("a snapshot of offsets is cut short") from None
    if at != len(kept):
        raise LogCorrupt("a snapshot of offsets is cut short")
    return offsets


def commit_record(
    group_id: GroupId, name: TopicPartition, committed: CommittedOffset
) -> Record:
    """Return the record of a committed offset."""
    key = OffsetCommitKey(group=group_id, topic=name.topic, partition=name.partition)
    expire_ms = committed.expire_timestamp_ms
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=expire_ms,
        topic_id=committed.topic_id,
    )
    return Record(key, value, VERSION if expire_ms == -1 else EXPIRING_VERSION)


def _entry(record: Record, origin: Origin) -> bytes:
    key, value = encode_record(record)
    assert value is not None
    head = _ENTRY.pack(
        origin.log_offset,
        origin.producer_id,
        origin.producer_epoch,
        len(key),
        len(value),
    )
    return head + key + value
