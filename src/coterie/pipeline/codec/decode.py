"""Decode rows of the table `records` to silver rows. Committed offsets of the versions
that brokers since 2.1 write, and tombstones of offsets, are nearly all of the log: they
are decoded many rows at once. All other records are decoded one by one by
`row_decoder`, which is the reference: both return equal rows, in log order.

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

_VERSION: Final = 3
_FLEXIBLE_VERSION: Final = 4
_METADATA_LENGTH_AT: Final = 14
"""The position of the length of the metadata: after the version, the offset and the
leader epoch."""
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
    keys, values = (BinaryRows.of(records[name]) for name in ("key", "value"))
    keys, values = keys.select(rows), values.select(rows)
    fits = ~_is_null(records["key"])[rows] & _find_key(keys).fits
    is_deletion = _is_null(records["value"])[rows]
    is_commit = fits & ~is_deletion & _find_value(values).fits
    commits = _commits(
        records, rows[is_commit], keys.select(is_commit), values.select(is_commit)
    )
    is_tombstone = fits & is_deletion
    tombstones = _tombstones(records, rows[is_tombstone], keys.select(is_tombstone))
    done = np.concatenate([commits.indexes, tombstones.indexes])
    by_row = decode_rows(records, np.setdiff1d(rows, done, assume_unique=True))
    vectorized = {OFFSET_COMMITS.name: commits, TOMBSTONES.name: tombstones}
    return {
        table.name: _merged(
            table, vectorized.get(table.name), _TableRows(*by_row[table.name])
        )
        for table in SILVER_TABLES
    }


def _is_null(column: Any) -> Flags:
    flags: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return flags


def _commits(
    records: Any, rows: Ints, keys: BinaryRows, values: BinaryRows
) -> _TableRows:
    columns = _key_columns(keys) | _value_columns(values)
    is_transactional = records["is_transactional"].take(pa.array(rows))
    is_plain = ~is_transactional.to_numpy(zero_copy_only=False)
    producer_ids = records["producer_id"].to_numpy()[rows]
    columns["is_transactional"] = is_transactional
    columns["producer_id"] = pa.array(producer_ids, mask=is_plain)
    return _table_rows(OFFSET_COMMITS, records, rows, columns)


def _tombstones(records: Any, rows: Ints, keys: BinaryRows) -> _TableRows:
    record_type = keys.read(">i2", keys.begin).astype(np.int16)
    columns = _key_columns(keys) | {"record_type": pa.array(record_type)}
    return _table_rows(TOMBSTONES, records, rows, columns)


def _table_rows(
    table: Table, records: Any, rows: Ints, columns: dict[str, Any]
) -> _TableRows:
    """Return rows of a table: decoded columns, columns copied from the records, and
    nulls for the others. Rows with text that is not ASCII are left out: it may be
    invalid.
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

    batch = pa.record_batch([column(each) for each in table.schema], table.schema)
    is_ascii = np.ones(len(rows), np.bool_)
    for each in columns.values():
        if pa.types.is_string(each.type):
            flags = pc.fill_null(pc.string_is_ascii(each), fill_value=True)
            is_ascii &= flags.to_numpy(zero_copy_only=False)
    if is_ascii.all():
        return _TableRows(rows, batch)
    return _TableRows(rows[is_ascii], batch.filter(pa.array(is_ascii)))


def _merged(table: Table, vectorized: _TableRows | None, by_row: _TableRows) -> Any:
    if vectorized is None or not len(vectorized.indexes):
        return by_row.batch
    if not len(by_row.indexes):
        return vectorized.batch
    order = np.argsort(np.concatenate([vectorized.indexes, by_row.indexes]))
    both = pa.concat_batches([vectorized.batch, by_row.batch])
    return both.take(pa.array(order)).cast(table.schema)


class _Key(NamedTuple):
    """The places of the fields in keys. `fits` is true for keys of committed offsets
    with the expected layout.
    """

    group: Span
    topic: Span
    partition_at: Ints
    fits: Flags


def _find_key(keys: BinaryRows) -> _Key:
    group_at = keys.begin + 4
    group_size = keys.read(">i2", keys.begin + 2)
    group_end = group_at + group_size
    topic_at = group_end + 2
    topic_size = keys.read(">i2", group_end)
    topic_end = topic_at + topic_size
    partition_at = keys.end - 4
    # Types 0 and 1 are the two versions of the offset commit key.
    fits = (keys.read(">i2", keys.begin) >> 1 == 0) & (topic_end == partition_at)
    fits &= (group_size >= 0) & (topic_size >= 0)
    return _Key((group_at, group_end), (topic_at, topic_end), partition_at, fits)


class _Value(NamedTuple):
    """The places of the fields in values. `fits` is true for values of committed
    offsets with the expected layout. `topic_id_at` is negative for values without a
    topic id.
    """

    version: Ints
    metadata: Span
    topic_id_at: Ints
    fits: Flags


def _find_value(values: BinaryRows) -> _Value:
    version = values.read(">i2", values.begin)
    is_flexible = version == _FLEXIBLE_VERSION
    size_at = values.begin + _METADATA_LENGTH_AT
    # The length is of two bytes; of a compact string it is the length plus one, here
    # always in one byte.
    compact = values.read(">u1", size_at).astype(np.int64)
    size = np.where(is_flexible, compact - 1, values.read(">i2", size_at))
    metadata_at = size_at + np.where(is_flexible, 1, 2)
    metadata_end = metadata_at + size
    tags_at = metadata_end + 8  # after the commit time
    tags, tag_size = _TOPIC_ID_TAG
    has_id = is_flexible & (values.read(">u2", tags_at) == tags)
    has_id &= values.read(">u1", tags_at + 2) == tag_size
    has_no_tags = is_flexible & (values.read(">u1", tags_at) == 0)
    topic_id_at = np.where(has_id, tags_at + 3, -1)
    end = np.select(
        [has_id, has_no_tags, version == _VERSION],
        [tags_at + 3 + _TOPIC_ID_BYTES, tags_at + 1, tags_at],
        -1,
    )
    fits = (size >= 0) & (end == values.end)
    fits &= ~is_flexible | (compact <= _UVARINT_ONE_BYTE_MAX)
    return _Value(version, (metadata_at, metadata_end), topic_id_at, fits)


def _key_columns(keys: BinaryRows) -> dict[str, Any]:
    found = _find_key(keys)
    group, topic = keys.strings(found.group, found.topic)
    partition = keys.read(">i4", found.partition_at)
    return {
        "group_id": group,
        "topic": topic,
        "partition": pa.array(partition.astype(np.int32)),
    }


def _value_columns(values: BinaryRows) -> dict[str, Any]:
    found, begin = _find_value(values), values.begin
    epoch = values.read(">i4", begin + 10).astype(np.int32)
    (metadata,) = values.strings(found.metadata)
    commit_ms = values.read(">i8", found.metadata[1]).astype(np.int64)
    is_no_time = (commit_ms < 0) | (commit_ms > TIME_MS_MAX)
    commit_us = np.where(is_no_time, 0, commit_ms) * 1000
    return {
        "committed_offset": pa.array(values.read(">i8", begin + 2).astype(np.int64)),
        "leader_epoch": pa.array(epoch, mask=epoch == -1),
        "metadata": metadata,
        "commit_ts": pa.array(commit_us, mask=is_no_time).cast(TIME),
        "topic_id": _topic_ids(values, found.topic_id_at),
        "value_version": pa.array(found.version.astype(np.int16)),
    }


def _topic_ids(values: BinaryRows, at: Ints) -> Any:
    if not (at >= 0).any():
        return pa.nulls(len(at), pa.string())
    # Few distinct ids: each is converted to hex digits once.
    ids = values.fixed(np.maximum(at, 0), _TOPIC_ID_BYTES).dictionary_encode()
    digits = [
        None if each == ZERO_UUID else each.hex() for each in ids.dictionary.to_pylist()
    ]
    indexes = pa.array(ids.indices.to_numpy(), mask=at < 0)
    return pa.array(digits, pa.string()).take(indexes)


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
