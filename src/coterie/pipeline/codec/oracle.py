"""Bronze rows to silver rows, one record after the other, by the coordinator's own
reader of records. What is fast is held to this.

A record that does not read becomes a row of `quarantine`, never an error (K-01,
E22-04). Bytes after a key's or a value's end are ignored, as by Kafka's own reader.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from coterie.coordinator.records.serde import TYPES, decode_record
from coterie.coordinator.result import Record
from coterie.errors import LogCorrupt
from coterie.pipeline.codec.silver import Row, silver_row
from coterie.pipeline.tables.classic_group_records import CLASSIC_GROUP_RECORDS
from coterie.pipeline.tables.common import AT
from coterie.pipeline.tables.consumer_group_records import CONSUMER_GROUP_RECORDS
from coterie.pipeline.tables.offset_commits import OFFSET_COMMITS
from coterie.pipeline.tables.quarantine import QUARANTINE
from coterie.pipeline.tables.table import Table
from coterie.pipeline.tables.tombstones import TOMBSTONES

SILVER: Final = (
    OFFSET_COMMITS,
    CLASSIC_GROUP_RECORDS,
    CONSUMER_GROUP_RECORDS,
    TOMBSTONES,
    QUARANTINE,
)
"""The tables that records become."""

ABORTED: Final = "aborted"
_INT16: Final = struct.Struct(">h")
_SHARE_TYPES: Final = range(9, 16)
_STREAMS_FROM: Final = 17


class Unread(NamedTuple):
    """Why a record does not read: a reason of the table `quarantine`, in words, and the
    type its key begins with."""

    reason: str
    message: str
    record_type: int | None


def decode(records: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Rows of the table `records` to those of each silver table, by its name.

    Markers of transactions and what an aborted one wrote are left out (K-08).
    """
    found = decode_rows(records, rows_that_count(records))
    return {name: rows for name, (_, rows) in found.items()}


def rows_that_count(records: Any) -> Any:
    """The indexes of rows that are no marker and not of an aborted transaction."""
    is_control = np.asarray(records["is_control"].to_numpy(zero_copy_only=False))
    outcome = records["outcome"]
    if outcome.null_count == len(outcome):
        return np.flatnonzero(~is_control)
    aborted = np.array([each == ABORTED for each in outcome.to_pylist()], np.bool_)
    return np.flatnonzero(~(is_control | aborted))


def decode_rows(records: Any, which: Any) -> dict[str, tuple[Any, Any]]:
    """`decode` of some of the rows, by their indexes. With the rows of each table comes
    the index that each of them is from."""
    found: dict[str, tuple[list[int], list[Row]]] = {
        table.name: ([], []) for table in SILVER
    }
    columns = ("key", "value", "is_transactional", "producer_id")
    some = (records[name].take(pa.array(which)).to_pylist() for name in columns)
    for index, *record in zip(which.tolist(), *some, strict=True):
        table, row = _decode_row(*record)
        indexes, rows = found[table.name]
        indexes.append(index)
        rows.append(row)
    return {
        table.name: (
            np.array(found[table.name][0], np.int64),
            _batch(table, records, *found[table.name]),
        )
        for table in SILVER
    }


def read(key: bytes | None, value: bytes | None) -> tuple[int, Record] | Unread:
    """The type of a record, and what it says."""
    if key is None:
        return Unread("no_key", "a record without a key", None)
    if len(key) < _INT16.size:
        return Unread("bad_key", f"a key of {len(key)} bytes has no type", None)
    (record_type,) = _INT16.unpack_from(key)
    if record_type not in TYPES:
        return Unread("unknown_type", _unknown(record_type), record_type)
    try:
        record = decode_record(key, value)
    except LogCorrupt as error:
        return Unread(_reason(record_type, key, value), str(error), record_type)
    assert record is not None
    return record_type, record


def _decode_row(
    key: bytes | None,
    value: bytes | None,
    is_transactional: bool,
    producer_id: int,
) -> tuple[Table, Row]:
    result = read(key, value)
    if isinstance(result, Unread):
        return QUARANTINE, {**result._asdict(), "key": key, "value": value}
    record_type, record = result
    table, row = silver_row(record_type, *record)
    if table is OFFSET_COMMITS:
        row["is_transactional"] = is_transactional
        row["producer_id"] = producer_id if is_transactional else None
    return table, row


def _unknown(record_type: int) -> str:
    if record_type in _SHARE_TYPES:
        return f"type {record_type} is of share groups"
    if record_type >= _STREAMS_FROM:
        return f"type {record_type} is of streams groups, or of a newer Kafka"
    return f"Kafka has no type {record_type}"


def _reason(record_type: int, key: bytes, value: bytes | None) -> str:
    """What is wrong with a record that does not read."""
    try:
        decode_record(key, None)
    except LogCorrupt:
        return "bad_key"
    if value is None or len(value) < _INT16.size:
        return "bad_value"
    known = _INT16.unpack_from(value)[0] in TYPES[record_type][1].VERSIONS
    return "bad_value" if known else "unknown_version"


def _batch(
    table: Table,
    records: Any,
    indexes: Sequence[int],
    rows: Sequence[Mapping[str, Any]],
) -> Any:
    """Rows with the columns they share with their records."""
    shared = {column.name for column in AT} & set(records.schema.names)
    places = pa.array(indexes, pa.int64())
    own = [field for field in table.schema if field.name not in shared]
    fields = [pa.field(each.name, each.type) for each in own]
    columns = dict(
        zip(
            (each.name for each in own),
            pa.array(rows, pa.struct(fields)).flatten(),
            strict=True,
        )
    )
    arrays = [
        columns[name] if name in columns else records[name].take(places)
        for name in table.schema.names
    ]
    return pa.record_batch(arrays, schema=table.schema)
