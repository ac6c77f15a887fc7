"""The records of `__share_group_state`, in Kafka's format.

A key is an int16 record type and the key's struct; a value is an int16 version and the
value's struct. Type 0 is a snapshot, whose tombstone deletes the state, type 1 an
update. Field names are those of Kafka's ShareSnapshotKey.json and its neighbours.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

from coterie.broker.coordinator.share_partition.state import (
    ShareKey,
    ShareState,
    StateBatch,
    StateUpdate,
)
from coterie.errors import LogCorrupt, MalformedFrame
from coterie.wire.codec import decode, encode
from coterie.wire.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)

SNAPSHOT: Final = 0
UPDATE: Final = 1
_INT16: Final = struct.Struct(">h")
_VERSION_0: Final = _INT16.pack(0)


class SharePartitionKey(Message, versions="0"):
    """The key of both types."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class StoredBatch(Struct):
    """The state of a range of offsets."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Message, versions="0", flexible="0+"):
    """The value of type 0."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0, tagged="0+")
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StoredBatch] = array(StoredBatch)


class ShareUpdateValue(Message, versions="0", flexible="0+"):
    """The value of type 1."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0, tagged="0+")
    state_batches: list[StoredBatch] = array(StoredBatch)


ShareStateRecord: TypeAlias = ShareState | StateUpdate | None
"""A snapshot, an update, or the deletion of a state."""


def encode_snapshot(key: ShareKey, state: ShareState) -> tuple[bytes, bytes]:
    """Return the key and value of a snapshot record."""
    assert state.snapshot_epoch >= 0
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=_to_stored(state.batches),
    )
    return _key(SNAPSHOT, key), _VERSION_0 + encode(value, 0)


def encode_update(
    key: ShareKey, state: ShareState, update: StateUpdate
) -> tuple[bytes, bytes]:
    """Return the key and value of an update record; `state` is that after the
    update."""
    assert state.start_offset >= update.start_offset
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        state_batches=_to_stored(update.batches),
    )
    return _key(UPDATE, key), _VERSION_0 + encode(value, 0)


def encode_deletion(key: ShareKey) -> tuple[bytes, None]:
    """Return the key of a tombstone."""
    return _key(SNAPSHOT, key), None


def decode_record(
    key: bytes | None, value: bytes | None
) -> tuple[ShareKey, ShareStateRecord] | None:
    """Return a record's share partition and content; None for an unknown type.

    Raises LogCorrupt for a record that cannot be decoded.
    """
    if key is None or len(key) < _INT16.size:
        raise LogCorrupt("record without a key")
    (kind,) = _INT16.unpack_from(key)
    if kind not in {SNAPSHOT, UPDATE}:
        return None
    try:
        decoded, _ = decode(SharePartitionKey, 0, key, _INT16.size)
        share = ShareKey(decoded.group_id, decoded.topic_id, decoded.partition)
        if value is None:
            return share, None
        if len(value) < _INT16.size or _INT16.unpack_from(value)[0]:
            raise MalformedFrame("a value with an unknown version")
        return share, (_snapshot if kind == SNAPSHOT else _update)(value)
    except MalformedFrame as error:
        raise LogCorrupt(f"record of type {kind}: {error}") from None


def _key(kind: int, key: ShareKey) -> bytes:
    message = SharePartitionKey(
        group_id=key.group_id, topic_id=key.topic_id, partition=key.partition
    )
    return _INT16.pack(kind) + encode(message, 0)


def _snapshot(data: bytes) -> ShareState:
    value, _ = decode(ShareSnapshotValue, 0, data, _INT16.size)
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        value.create_timestamp,
        value.write_timestamp,
        _from_stored(value.state_batches),
    )


def _update(data: bytes) -> StateUpdate:
    value, _ = decode(ShareUpdateValue, 0, data, _INT16.size)
    return StateUpdate(
        value.start_offset,
        value.delivery_complete_count,
        _from_stored(value.state_batches),
    )


def _to_stored(batches: Sequence[StateBatch]) -> list[StoredBatch]:
    return [
        StoredBatch(
            first_offset=first,
            last_offset=last,
            delivery_state=state,
            delivery_count=count,
        )
        for first, last, state, count in batches
    ]


def _from_stored(batches: Sequence[StoredBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            each.first_offset,
            each.last_offset,
            each.delivery_state,
            each.delivery_count,
        )
        for each in batches
    )
