"""A committed offset as bytes: ready for an answer, and small.

Packed is a head (where the commit stands in the log, its times, the topic's id) and
then the very bytes of a partition in the answer to an OffsetFetch of v8 to v10. So a
fetch joins bytes, which takes a tenth of making and encoding objects, and an offset
takes half the memory of a tuple.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from coterie.coordinator.offsets.values import CommittedOffset
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_fetch import OffsetFetchResponsePartitions
from coterie.wire.primitives import read_uvarint, write_uvarint

Packed: TypeAlias = bytes
Answer: TypeAlias = bytes
"""A partition of an OffsetFetchResponse, v8 to v10."""

NO_OFFSET: Final = -1

_HEAD: Final = struct.Struct(">qqq16s")
_PARTITION: Final = struct.Struct(">iqi")
_ERROR_AND_TAGS: Final = struct.Struct(">hx")
_HEAD_AND_PARTITION: Final = struct.Struct(_HEAD.format + _PARTITION.format[1:])
_NO_METADATA: Final = write_uvarint(1)
_NO_METADATA_NO_ERROR: Final = _NO_METADATA + _ERROR_AND_TAGS.pack(0)
_METADATA_AT: Final = _PARTITION.size


def pack(partition: int, committed: CommittedOffset) -> Packed:
    """The bytes of a commit for a partition."""
    offset, leader_epoch, metadata, commit_ms, expire_ms, record_offset, topic_id = (
        committed
    )
    start = _HEAD_AND_PARTITION.pack(
        record_offset, commit_ms, expire_ms, topic_id, partition, offset, leader_epoch
    )
    if not metadata:
        return start + _NO_METADATA_NO_ERROR
    text = metadata.encode()
    return start + write_uvarint(len(text) + 1) + text + b"\0\0\0"


def unpack(packed: Packed) -> CommittedOffset:
    """The commit again."""
    record_offset, commit_ms, expire_ms, topic_id = _HEAD.unpack_from(packed)
    _, offset, leader_epoch = _PARTITION.unpack_from(packed, _HEAD.size)
    return CommittedOffset(
        offset,
        leader_epoch,
        _metadata(packed, _HEAD.size + _METADATA_AT),
        commit_ms,
        expire_ms,
        record_offset,
        topic_id,
    )


def partition_of(packed: Packed) -> int:
    """The partition that was committed. Raises struct.error for what is too short."""
    partition: int = _PARTITION.unpack_from(packed, _HEAD.size)[0]
    return partition


def topic_id_of(packed: Packed) -> bytes:
    """The id of the topic that the commit was for; zero when it named the topic."""
    topic_id: bytes = _HEAD.unpack_from(packed)[3]
    return topic_id


def answer(packed: Packed) -> Answer:
    """The answer that tells the offset."""
    return packed[_HEAD.size :]


def no_answer(partition: int, code: ErrorCode = ErrorCode.NONE) -> Answer:
    """The answer that there is no offset, or why it cannot be told."""
    return (
        _PARTITION.pack(partition, NO_OFFSET, -1)
        + _NO_METADATA
        + _ERROR_AND_TAGS.pack(code)
    )


def as_struct(of_partition: Answer) -> OffsetFetchResponsePartitions:
    """An answer as an object, for versions whose bytes are others."""
    partition, offset, leader_epoch = _PARTITION.unpack_from(of_partition)
    (code,) = _ERROR_AND_TAGS.unpack_from(
        of_partition, len(of_partition) - _ERROR_AND_TAGS.size
    )
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        metadata=_metadata(of_partition, _METADATA_AT),
        error_code=code,
    )


def _metadata(data: bytes, at: int) -> str:
    size, at = read_uvarint(data, at)
    return data[at : at + size - 1].decode()
