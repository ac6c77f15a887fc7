"""Decode rows of the table `records` to silver rows. Committed offsets and their
tombstones, which are nearly all of the log, are decoded many rows at once; all other
records are decoded one by one by `row_decoder`. Both decoders return equal rows, in log
order.

The vectorized part computes the place of each field from the lengths before it. A row
whose lengths, version or text are not exactly as expected is left to `row_decoder`,
which decodes it or returns the reason why it cannot. The computed places of such a row
are arbitrary; the values read there are only used to reject it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.pipeline.codec.row_decoder import (
    SILVER_TABLES,
    decode_rows,
    visible_rows,
)
from coterie.pipeline.tables.ingested import OFFSET_COMMITS, TOMBSTONES
from coterie.pipeline.tables.table import TIME, TIME_MS_MAX, Table
from coterie.wire.schema import ZERO_UUID

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Span: TypeAlias = tuple[Ints, Ints]
"""Begin and end of a field in the buffer, for each row."""

_VERSION_MAX: Final = 4
_EXPIRE_TIME_VERSION: Final = 1
_LEADER_EPOCH_FROM: Final = 3
_FLEXIBLE_VERSION: Final = 4
_METADATA_LENGTH_AT: Final = np.array([10, 10, 10, 14, 14])
"""The position of the length of the metadata, by value version: after the version, the
offset and, from version 3 on, the leader epoch."""
_TOPIC_ID_TAG: Final = (0x0100, 16)
"""One tagged field with the tag 0; its size. The topic id follows (E22.2)."""
_TOPIC_ID_BYTES: Final = 16
_UVARINT_ONE_BYTE_MAX: Final = 0x7F


class _TableRows(NamedTuple):
    """Decoded rows of one table, and the indexes of their records in the input."""

    indexes: Ints
    batch: Any


def decode(records: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Decode rows of the table `records`; return the rows of each silver table by name.

    Transaction markers and records of aborted transactions are left out (K-08). A
    record that cannot be decoded is in `quarantine`; no record raises an error.
    """
    rows = visible_rows(records)
    keys = BinaryRows.of(records["key"]).select(rows)
    found = find_keys(keys)
    fits = found.fits & ~_is_null(records["key"])[rows]
    is_deletion = _is_null(records["value"])[rows]
    commits, deletions = fits & ~is_deletion, fits & is_deletion
    vectorized = {
        OFFSET_COMMITS.name: _commits(
            records, rows[commits], keys.select(commits), found.select(commits)
        ),
        TOMBSTONES.name: _tombstones(
            records, rows[deletions], keys.select(deletions), found.select(deletions)
        ),
    }
    done = [each.indexes for each in vectorized.values()]
    rest = np.setdiff1d(rows, np.concatenate(done), assume_unique=True)
    by_row = decode_rows(records, rest)
    return {
        table.name: _merged(
            table, vectorized.get(table.name), _TableRows(*by_row[table.name])
        )
        for table in SILVER_TABLES
    }


def _is_null(column: Any) -> Flags:
    if not column.null_count:
        return np.zeros(len(column), np.bool_)
    flags: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return flags


def _commits(records: Any, rows: Ints, keys: BinaryRows, of_keys: Keys) -> _TableRows:
    """Decode committed offsets; leave out the rows with an unexpected layout or with
    text that is not UTF-8.
    """

    def only(some: Flags) -> _TableRows:
        return _commits(records, rows[some], keys.select(some), of_keys.select(some))

    values = BinaryRows.of(records["value"]).select(rows)
    found = find_values(values)
    if not found.fits.all():
        return only(found.fits)
    columns = _key_columns(keys, of_keys) | _value_columns(values, found)
    if not _all_utf8(columns):
        return only(_only_ascii(columns))
    transactional = records["is_transactional"].take(pa.array(rows))
    columns["is_transactional"] = transactional
    is_plain = ~transactional.to_numpy(zero_copy_only=False)
    if is_plain.all():
        columns["producer_id"] = pa.nulls(len(rows), pa.int64())
    else:
        producer_ids = records["producer_id"].to_numpy()[rows]
        columns["producer_id"] = pa.array(producer_ids, mask=is_plain)
    return _TableRows(rows, _batch(OFFSET_COMMITS, records, rows, columns))


def _tombstones(records: Any, rows: Ints, keys: BinaryRows, found: Keys) -> _TableRows:
    columns = _key_columns(keys, found)
    if not _all_utf8(columns):
        some = _only_ascii(columns)
        return _tombstones(records, rows[some], keys.select(some), found.select(some))
    columns["record_type"] = pa.array(found.record_type.astype(np.int16))
    return _TableRows(rows, _batch(TOMBSTONES, records, rows, columns))


def _batch(table: Table, records: Any, rows: Ints, columns: dict[str, Any]) -> Any:
    """Build rows of a table: decoded columns, columns copied from the records, and
    nulls for the others.
    """
    names = set(records.schema.names)
    # Nearly all rows are taken: a filter then copies runs of them.
    is_taken = np.zeros(records.num_rows, np.bool_)
    is_taken[rows] = True
    mask = pa.array(is_taken)

    def column(field: Any) -> Any:
        if field.name in columns:
            return columns[field.name]
        if field.name in names:
            return records[field.name].filter(mask)
        return pa.nulls(len(rows), field.type)

    return pa.record_batch([column(each) for each in table.schema], schema=table.schema)


def _merged(table: Table, vectorized: _TableRows | None, by_row: _TableRows) -> Any:
    if vectorized is None or not len(vectorized.indexes):
        return by_row.batch
    if not len(by_row.indexes):
        return vectorized.batch
    order = np.argsort(np.concatenate([vectorized.indexes, by_row.indexes]))
    both = pa.concat_batches([vectorized.batch, by_row.batch])
    return both.take(pa.array(order)).cast(table.schema)


class Keys(NamedTuple):
    """The positions of the fields in keys. `fits` is true for keys of committed offsets
    with the expected layout.
    """

    record_type: Ints
    group: Span
    topic: Span
    partition_at: Ints
    fits: Flags

    def select(self, rows: Flags) -> Keys:
        """Return the positions in some of the keys."""
        return Keys(
            self.record_type[rows],
            (self.group[0][rows], self.group[1][rows]),
            (self.topic[0][rows], self.topic[1][rows]),
            self.partition_at[rows],
            self.fits[rows],
        )


def find_keys(keys: BinaryRows) -> Keys:
    """Compute the places of the fields of the keys."""
    record_type = keys.read(">i2", keys.begin)
    group_size = keys.read(">i2", keys.begin + 2)
    group_at = keys.begin + 4
    group_end = group_at + group_size
    topic_size = keys.read(">i2", group_end)
    topic_at = group_end + 2
    topic_end = topic_at + topic_size
    partition_at = keys.end - 4
    # Types 0 and 1 are the two versions of the offset commit key.
    fits = (record_type >> 1 == 0) & (group_size >= 0) & (topic_size >= 0)
    fits &= topic_end == partition_at
    group, topic = (group_at, group_end), (topic_at, topic_end)
    return Keys(record_type, group, topic, partition_at, fits)


class Values(NamedTuple):
    """The positions of the fields in values. `fits` is true for values of committed
    offsets with the expected layout. `topic_id_at` is None when no value has a topic
    id, and negative for values without.
    """

    version: Ints
    metadata: Span
    topic_id_at: Ints | None
    fits: Flags


def find_values(values: BinaryRows) -> Values:
    """Compute the places of the fields of the values; a null value has no fields."""
    version = values.read(">i2", values.begin)
    fits = (version >= 0) & (version <= _VERSION_MAX)
    version = np.where(fits, version, 0)
    size_at = values.begin + _METADATA_LENGTH_AT[version]
    metadata_at, size = size_at + 2, values.read(">i2", size_at).astype(np.int64)
    is_flexible = version == _FLEXIBLE_VERSION
    if is_flexible.any():
        # A compact string: the length plus one, here always in one byte.
        compact = values.read(">u1", size_at).astype(np.int64)
        size[is_flexible] = compact[is_flexible] - 1
        metadata_at -= is_flexible
        fits &= ~is_flexible | (compact <= _UVARINT_ONE_BYTE_MAX)
    fits &= size >= 0
    metadata_end = metadata_at + size
    end, topic_id_at = _value_ends(values, version, metadata_end + 8)
    fits &= end == values.end
    return Values(version, (metadata_at, metadata_end), topic_id_at, fits)


def _value_ends(
    values: BinaryRows, version: Ints, commit_time_end: Ints
) -> tuple[Ints, Ints | None]:
    """Return the expected end of each value, and the position of its topic id."""
    end = commit_time_end + 8 * (version == _EXPIRE_TIME_VERSION)
    is_flexible = version == _FLEXIBLE_VERSION
    if not is_flexible.any():
        return end, None
    at = commit_time_end
    tags, tag_size = _TOPIC_ID_TAG
    has_id = is_flexible & (values.read(">u2", at) == tags)
    has_id &= values.read(">u1", at + 2) == tag_size
    has_no_tags = is_flexible & (values.read(">u1", at) == 0)
    end = np.where(is_flexible, -1, end)  # other tags: no end
    end[has_no_tags] = at[has_no_tags] + 1
    end[has_id] = at[has_id] + 3 + _TOPIC_ID_BYTES
    return end, np.where(has_id, at + 3, -1)


def _key_columns(keys: BinaryRows, found: Keys) -> dict[str, Any]:
    group, topic = keys.strings(found.group, found.topic)
    partition = keys.read(">i4", found.partition_at)
    return {
        "group_id": group,
        "topic": topic,
        "partition": pa.array(partition.astype(np.int32)),
    }


def _value_columns(values: BinaryRows, found: Values) -> dict[str, Any]:
    version, begin, (_, metadata_end) = found.version, values.begin, found.metadata
    epoch = values.read(">i4", begin + 10).astype(np.int32)
    has_no_epoch = (epoch == -1) | (version < _LEADER_EPOCH_FROM)
    (metadata,) = values.strings(found.metadata)
    has_no_expiry = version != _EXPIRE_TIME_VERSION
    if has_no_expiry.all():
        expire_ts = pa.nulls(len(version), TIME)
    else:
        expire_ms = values.read(">i8", metadata_end + 8).astype(np.int64)
        has_no_expiry = has_no_expiry | (expire_ms == -1)
        # Null would be another rule: a time out of range becomes the nearest in it.
        expire_ts = _times(np.clip(expire_ms, 0, TIME_MS_MAX), has_no_expiry)
    return {
        "committed_offset": pa.array(values.read(">i8", begin + 2).astype(np.int64)),
        "leader_epoch": pa.array(epoch, mask=has_no_epoch),
        "metadata": metadata,
        "commit_ts": _times(values.read(">i8", metadata_end)),
        "expire_ts": expire_ts,
        "topic_id": _topic_ids(values, found.topic_id_at),
        "value_version": pa.array(version.astype(np.int16)),
    }


def _times(time_ms: Any, is_none: Flags | bool = False) -> Any:
    time_ms = time_ms.astype(np.int64)
    is_none = is_none | (time_ms < 0) | (time_ms > TIME_MS_MAX)
    if not np.any(is_none):
        return pa.array(time_ms * 1000).view(TIME)
    time_us = np.where(is_none, 0, time_ms) * 1000
    return pa.array(time_us, mask=is_none).cast(TIME)


def _topic_ids(values: BinaryRows, at: Ints | None) -> Any:
    if at is None or not (at >= 0).any():
        return pa.nulls(len(values.begin), pa.string())
    # Few distinct ids: each is converted to hex digits once.
    ids = values.fixed(np.maximum(at, 0), _TOPIC_ID_BYTES).dictionary_encode()
    digits = [
        None if each == ZERO_UUID else each.hex() for each in ids.dictionary.to_pylist()
    ]
    indexes = pa.array(ids.indices.to_numpy(), mask=at < 0)
    return pa.array(digits, pa.string()).take(indexes)


def _all_utf8(columns: dict[str, Any]) -> bool:
    try:
        for column in columns.values():
            if pa.types.is_string(column.type):
                column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _only_ascii(columns: dict[str, Any]) -> Flags:
    """Return a mask of the rows whose strings are all ASCII, and so valid UTF-8."""
    flags = [
        pc.fill_null(pc.string_is_ascii(column), fill_value=True)
        for column in columns.values()
        if pa.types.is_string(column.type)
    ]
    ascii_only: Flags = np.logical_and.reduce(
        [each.to_numpy(zero_copy_only=False) for each in flags]
    )
    return ascii_only


class BinaryRows:
    """The spans of rows in a binary Arrow column: begin and end of each value in one
    buffer. A null value has length 0.
    """

    def __init__(self, data: Any, begin: Ints, end: Ints) -> None:
        self._data = data
        self.begin = begin
        self.end = end

    @classmethod
    def of(cls, column: Any) -> BinaryRows:
        _, offsets, data = column.buffers()
        narrow = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
        edges = narrow.astype(np.int64)
        return cls(pa.py_buffer(b"") if data is None else data, edges[:-1], edges[1:])

    def select(self, rows: Any) -> BinaryRows:
        """Return some of the rows, by a mask or by ascending indexes."""
        return BinaryRows(self._data, self.begin[rows], self.end[rows])

    def read(self, kind: str, at: Ints) -> Any:
        """Read a number at each place; `kind` is big-endian, like ">i4".

        At a place outside the buffer the number is arbitrary: callers check bounds.
        """
        last = self._data.size - int(kind[2:])
        if last < 0:
            return np.zeros(len(at), kind)
        # A view with stride 1 has an element for each byte, so that places need not be
        # aligned.
        view = np.ndarray((last + 1,), kind, self._data, strides=(1,))
        return view[np.clip(at, 0, last)]

    def strings(self, *spans: Span) -> list[Any]:
        """Return a string column for each span, without checking that it is UTF-8.

        Rows and spans must be in ascending order: the array over all of them and the
        bytes between them shares this buffer, and Arrow copies the strings out of it.
        """
        rows, step = len(self.begin), 2 * len(spans)
        edges = np.empty(step * rows + 1, np.int32)
        for number, (begin, end) in enumerate(spans):
            edges[2 * number : -1 : step] = begin
            edges[2 * number + 1 : -1 : step] = end
        edges[-1] = edges[-2] if rows else 0
        pieces = pa.StringArray.from_buffers(
            step * rows, pa.py_buffer(edges), self._data
        )
        return [
            pieces.take(pa.array(np.arange(2 * number, step * rows, step)))
            for number in range(len(spans))
        ]

    def fixed(self, at: Ints, size: int) -> Any:
        """Return a column of the `size` bytes at each place, all within the buffer."""
        data = np.frombuffer(self._data, np.uint8)
        found = data[at[:, None] + np.arange(size)]
        kind = pa.binary(size)
        return pa.Array.from_buffers(kind, len(at), [None, pa.py_buffer(found)])
