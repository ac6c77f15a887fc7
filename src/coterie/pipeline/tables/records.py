"""Bronze: what was read, as it was."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import AT
from coterie.pipeline.tables.table import (
    BINARY,
    BOOL,
    INT,
    LONG,
    SHORT,
    STRING,
    Column,
    Layer,
    Table,
    list_of,
    never_null,
    struct_of,
)

RECORDS: Final = Table(
    "records",
    Layer.BRONZE,
    "What stands in the log, byte by byte?",
    key=("log_partition", "log_offset"),
    columns=(
        *AT,
        never_null("is_append_time", BOOL, "the broker set append_ts, not the writer"),
        Column("key", BINARY, "the key, as it is"),
        Column("value", BINARY, "the value, as it is; null for a tombstone"),
        Column("headers", list_of(struct_of(name=STRING, value=BINARY)), "mostly none"),
        never_null("leader_epoch", INT, "of the log partition's leader, -1 for none"),
        never_null("producer_id", LONG, "who wrote the batch, -1 for the coordinator"),
        never_null("producer_epoch", SHORT, "its epoch, -1 for none"),
        never_null("is_transactional", BOOL, "the batch is of a transaction"),
        never_null("is_control", BOOL, "the record is a marker of a transaction's end"),
        Column(
            "outcome",
            STRING,
            "of a transactional record: committed or aborted; null for the others",
        ),
    ),
)
