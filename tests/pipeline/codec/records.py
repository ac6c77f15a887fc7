"""Hand-made rows of the table `records`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from coterie.pipeline.tables.ingested import RECORDS

KeyValue = tuple[bytes | None, bytes | None]


def row_of(offset: int, key: bytes | None, value: bytes | None, **more: Any) -> Any:
    """Return a row; `more` overrides columns."""
    return {
        "log_partition": 3,
        "log_offset": offset,
        "append_ts": 1_700_000_000_000_000 + offset,
        "base_offset": 0,
        "size_bytes": len(key or b"") + len(value or b""),
        "is_append_time": False,
        "key": key,
        "value": value,
        "headers": [],
        "leader_epoch": 5,
        "producer_id": -1,
        "producer_epoch": -1,
        "is_transactional": False,
        "is_control": False,
        "outcome": None,
    } | more


def batch_of(rows: Iterable[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=RECORDS.schema)


def batch(*pairs: KeyValue) -> pa.RecordBatch:
    """Return a batch of records from offset 0."""
    return batch_of(row_of(at, *pair) for at, pair in enumerate(pairs))
