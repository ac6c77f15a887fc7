"""Bronze table: records as they were read from the log."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.table import (
    BINARY,
    BOOL,
    INT,
    LONG,
    RECORD_COLUMNS,
    SHORT,
    STRING,
    Column,
    Layer,
    Table,
    list_of,
    required,
    struct_of,
)

RECORDS: Final = Table(
    "records",
    Layer.BRONZE,
    "Which records does the log contain?",
    key=("log_partition", "log_offset"),
    columns=(
        *RECORD_COLUMNS,
        required(
            "is_append_time",
            BOOL,
            "true when the broker set append_ts (LogAppendTime), false when the"
            " producer did",
        ),
        Column("key", BINARY, "key bytes"),
        Column("value", BINARY, "value bytes; null for a tombstone"),
        Column(
            "headers",
            list_of(struct_of(name=STRING, value=BINARY)),
            "record headers, usually empty",
        ),
        required("leader_epoch", INT, "leader epoch of the log partition; or -1"),
        required("producer_id", LONG, "producer ID of the batch; -1 without one"),
        required("producer_epoch", SHORT, "producer epoch of the batch; or -1"),
        required("is_transactional", BOOL, "true in a transactional batch"),
        required("is_control", BOOL, "true for a transaction marker"),
        Column(
            "outcome",
            STRING,
            "outcome of the record's transaction: committed or aborted; null for a"
            " record outside a transaction",
        ),
    ),
    day_of="append_ts",
)
