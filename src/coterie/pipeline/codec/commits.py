"""Committed offsets and their tombstones: nearly all of the log, so all records of a
batch at once.

What does not look exactly like them is rejected, never guessed: the oracle reads it, or
says what is wrong with it. A place that was computed from such a record may be
anywhere; what is read there only serves to reject it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.times import NEWEST_MS
from coterie.pipeline.codec.views import Bytes, Flags, Ints
from coterie.pipeline.tables.table import TIME
from coterie.wire.schema import ZERO_UUID

_NEWEST: Final = 4
_EXPIRES: Final = 1
_EPOCH_FROM: Final = 3
_FLEXIBLE: Final = 4
_TEXT_LENGTH_AT: Final = np.array([10, 10, 10, 14, 14])
"""Where the length of the metadata is, by version: after the version, the offset and,
from version 3 on, the leader epoch."""
_TOPIC_ID: Final = (0x0100, 16)
"""One tagged field, its number, its size; then the topic id (E22.2)."""
_TOPIC_ID_BYTES: Final = 16
_ONE_BYTE: Final = 0x7F
"""The greatest varint of one byte."""


class Keys(NamedTuple):
    """Where the fields of keys are, and which of them are of committed offsets."""

    record_type: Ints
    group: tuple[Ints, Ints]
    topic: tuple[Ints, Ints]
    partition_at: Ints
    fits: Flags


def find_keys(keys: Bytes) -> Keys:
    """The fields of the keys."""
    record_type = keys.read(">i2", keys.begin)
    group_size = keys.read(">i2", keys.begin + 2)
    group_at = keys.begin + 4
    group_end = group_at + group_size
    topic_size = keys.read(">i2", group_end)
    topic_at = group_end + 2
    topic_end = topic_at + topic_size
    partition_at = keys.end - 4
    fits = (record_type >> 1 == 0) & (group_size >= 0) & (topic_size >= 0)
    fits &= topic_end == partition_at
    group, topic = (group_at, group_end), (topic_at, topic_end)
    return Keys(record_type, group, topic, partition_at, fits)


class Values(NamedTuple):
    """Where the fields of values are, and which of them are committed offsets.
    `topic_id_at` is None where no value has one, and negative for values without."""

    version: Ints
    text: tuple[Ints, Ints]
    topic_id_at: Ints | None
    fits: Flags


def find_values(values: Bytes) -> Values:
    """The fields of the values; a null one does not fit."""
    version = values.read(">i2", values.begin)
    fits = (version >= 0) & (version <= _NEWEST)
    version = np.where(fits, version, 0)
    size_at = values.begin + _TEXT_LENGTH_AT[version]
    text_at, size = size_at + 2, values.read(">i2", size_at).astype(np.int64)
    is_flexible = version == _FLEXIBLE
    if is_flexible.any():
        compact = values.read(">u1", size_at).astype(np.int64)
        size[is_flexible] = compact[is_flexible] - 1
        text_at -= is_flexible
        fits &= ~is_flexible | (compact <= _ONE_BYTE)
    fits &= size >= 0
    text_end = text_at + size
    end, topic_id_at = _end(values, version, text_end + 8)
    fits &= end == values.end
    return Values(version, (text_at, text_end), topic_id_at, fits)


def _end(values: Bytes, version: Ints, at: Ints) -> tuple[Ints, Ints | None]:
    """Where a value ends whose commit time does at `at`, and its topic id, if any."""
    end = at + 8 * (version == _EXPIRES)
    is_flexible = version == _FLEXIBLE
    if not is_flexible.any():
        return end, None
    tags, tag_size = _TOPIC_ID
    has_id = is_flexible & (values.read(">u2", at) == tags)
    has_id &= values.read(">u1", at + 2) == tag_size
    has_none = is_flexible & (values.read(">u1", at) == 0)
    end = np.where(is_flexible, -1, end)
    end[has_none] = at[has_none] + 1
    end[has_id] = at[has_id] + 3 + _TOPIC_ID_BYTES
    return end, np.where(has_id, at + 3, -1)


def key_columns(keys: Bytes, found: Keys) -> dict[str, Any]:
    """Columns of keys that all fit."""
    group, topic = keys.strings(found.group, found.topic)
    partition = keys.read(">i4", found.partition_at)
    return {
        "group_id": group,
        "topic": topic,
        "partition": pa.array(partition.astype(np.int32)),
    }


def value_columns(values: Bytes, found: Values) -> dict[str, Any]:
    """Columns of values that all fit."""
    version, begin, (_, text_end) = found.version, values.begin, found.text
    epoch = values.read(">i4", begin + 10).astype(np.int32)
    (metadata,) = values.strings(found.text)
    return {
        "committed_offset": pa.array(values.read(">i8", begin + 2).astype(np.int64)),
        "leader_epoch": pa.array(epoch, mask=(epoch == -1) | (version < _EPOCH_FROM)),
        "metadata": metadata,
        "commit_ts": _times(values.read(">i8", text_end)),
        "expire_ts": _expiries(values, version, text_end + 8),
        "topic_id": _topic_ids(values, found.topic_id_at),
        "value_version": pa.array(version.astype(np.int16)),
    }


def _times(time_ms: Any, is_none: Flags | bool = False) -> Any:
    time_ms = time_ms.astype(np.int64)
    is_none = is_none | (time_ms < 0) | (time_ms > NEWEST_MS)
    time_us = np.where(is_none, 0, time_ms) * 1000
    return pa.array(time_us, mask=is_none).cast(TIME)


def _expiries(values: Bytes, version: Ints, at: Ints) -> Any:
    has_none = version != _EXPIRES
    if has_none.all():
        return pa.nulls(len(version), TIME)
    return _times(values.read(">i8", at), has_none)


def _topic_ids(values: Bytes, at: Ints | None) -> Any:
    if at is None or not (at >= 0).any():
        return pa.nulls(len(values.begin), pa.string())
    ids = values.runs(np.maximum(at, 0), _TOPIC_ID_BYTES).dictionary_encode()
    digits = [
        None if each == ZERO_UUID else each.hex() for each in ids.dictionary.to_pylist()
    ]
    which = pa.array(ids.indices.to_numpy(), mask=at < 0)
    return pa.array(digits, pa.string()).take(which)


def all_utf8(columns: dict[str, Any]) -> bool:
    """Whether the strings are."""
    try:
        for column in columns.values():
            if pa.types.is_string(column.type):
                column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def only_ascii(columns: dict[str, Any]) -> Flags:
    """Rows whose strings are ASCII, so certainly UTF-8."""
    flags = [
        pc.fill_null(pc.string_is_ascii(column), fill_value=True)
        for column in columns.values()
        if pa.types.is_string(column.type)
    ]
    ascii_only: Flags = np.logical_and.reduce(
        [each.to_numpy(zero_copy_only=False) for each in flags]
    )
    return ascii_only
