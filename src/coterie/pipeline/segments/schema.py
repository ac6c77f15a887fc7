"""The columns of rows as they come out of segments."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

HEADERS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))

BRONZE: Final = pa.schema(
    [
        pa.field("record_offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("is_append_time", pa.bool_(), nullable=False),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int16(), nullable=False),
        pa.field("is_transactional", pa.bool_(), nullable=False),
        pa.field("is_control", pa.bool_(), nullable=False),
        pa.field("base_offset", pa.int64(), nullable=False),
    ]
)
"""One row a record, markers of transactions among them. `timestamp_ms` is as the batch
has it, -1 for none; `is_append_time`: the broker set it."""
