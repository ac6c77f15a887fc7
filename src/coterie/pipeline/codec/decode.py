"""Bronze rows to silver rows: committed offsets and their tombstones by vectors, the
others one by one by the oracle. Both give the same rows, in log order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec.commits import (
    all_utf8,
    find_keys,
    find_values,
    key_columns,
    only_ascii,
    value_columns,
)
from coterie.pipeline.codec.oracle import SILVER, decode_rows, rows_that_count
from coterie.pipeline.codec.views import Bytes, Flags, Ints
from coterie.pipeline.tables.offset_commits import OFFSET_COMMITS
from coterie.pipeline.tables.table import Table
from coterie.pipeline.tables.tombstones import TOMBSTONES


class _Rows(NamedTuple):
    """Rows of a table, and the indexes of the records they are from."""

    indexes: Ints
    batch: Any


def decode(records: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Rows of the table `records` to those of each silver table, by its name.

    Markers of transactions and what an aborted one wrote are left out (K-08). What does
    not read is in `quarantine`; no record is an error.
    """
    rows = rows_that_count(records)
    keys = Bytes.of(records["key"]).rows(rows)
    fits = find_keys(keys).fits & ~_is_null(records["key"])[rows]
    is_deletion = _is_null(records["value"])[rows]
    fast = {
        OFFSET_COMMITS.name: _commits(records, rows[fits & ~is_deletion]),
        TOMBSTONES.name: _tombstones(records, rows[fits & is_deletion]),
    }
    done = [each.indexes for each in fast.values()]
    rest = np.setdiff1d(rows, np.concatenate(done), assume_unique=True)
    slow = decode_rows(records, rest)
    return {
        table.name: _merged(table, fast.get(table.name), _Rows(*slow[table.name]))
        for table in SILVER
    }


def _is_null(column: Any) -> Flags:
    if not column.null_count:
        return np.zeros(len(column), np.bool_)
    flags: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return flags


def _commits(records: Any, rows: Ints) -> _Rows:
    """The rows of those records that are committed offsets as we know them."""
    values = Bytes.of(records["value"]).rows(rows)
    found = find_values(values)
    if not found.fits.all():
        return _commits(records, rows[found.fits])
    keys = Bytes.of(records["key"]).rows(rows)
    columns = key_columns(keys, find_keys(keys)) | value_columns(values, found)
    if not all_utf8(columns):
        return _commits(records, rows[only_ascii(columns)])
    transactional = records["is_transactional"].take(pa.array(rows))
    columns["is_transactional"] = transactional
    columns["producer_id"] = _producers(records, rows, transactional)
    return _Rows(rows, _batch(OFFSET_COMMITS, records, rows, columns))


def _tombstones(records: Any, rows: Ints) -> _Rows:
    keys = Bytes.of(records["key"]).rows(rows)
    found = find_keys(keys)
    columns = key_columns(keys, found)
    if not all_utf8(columns):
        return _tombstones(records, rows[only_ascii(columns)])
    columns["record_type"] = pa.array(found.record_type.astype(np.int16))
    return _Rows(rows, _batch(TOMBSTONES, records, rows, columns))


def _producers(records: Any, rows: Ints, transactional: Any) -> Any:
    """Who wrote the records of transactions; null for the others."""
    none = ~transactional.to_numpy(zero_copy_only=False)
    if none.all():
        return pa.nulls(len(rows), pa.int64())
    return pa.array(records["producer_id"].to_numpy()[rows], mask=none)


def _batch(table: Table, records: Any, rows: Ints, columns: dict[str, Any]) -> Any:
    """Rows of a table: these columns, those of the records, and nulls."""
    which, names = pa.array(rows), set(records.schema.names)

    def column(field: Any) -> Any:
        if field.name in columns:
            return columns[field.name]
        if field.name in names:
            return records[field.name].take(which)
        return pa.nulls(len(rows), field.type)

    return pa.record_batch([column(each) for each in table.schema], schema=table.schema)


def _merged(table: Table, fast: _Rows | None, slow: _Rows) -> Any:
    """Both in log order."""
    if fast is None or not len(fast.indexes):
        return slow.batch
    if not len(slow.indexes):
        return fast.batch
    order = np.argsort(np.concatenate([fast.indexes, slow.indexes]))
    both = pa.concat_batches([fast.batch, slow.batch])
    return both.take(pa.array(order)).cast(table.schema)
