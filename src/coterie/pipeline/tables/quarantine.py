"""Silver: what does not read. It never fails a run, and never gets lost."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import LOG_PARTITION
from coterie.pipeline.tables.table import (
    BINARY,
    LONG,
    SHORT,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    never_null,
)

QUARANTINE: Final = Table(
    "quarantine",
    Layer.SILVER,
    "What could not be read, and why?",
    key=("log_partition", "log_offset", "source", "position"),
    columns=(
        LOG_PARTITION,
        Column("log_offset", LONG, "of the record; null for bytes that are no batch"),
        Column("append_ts", TIME, "the record's timestamp"),
        Column("source", STRING, "the file or store, for bytes that are no batch"),
        Column("position", LONG, "the byte or row there"),
        never_null(
            "reason",
            STRING,
            "unknown_type (K-01: 9 to 15 are share groups, 17 and more streams groups),"
            " bad_key, bad_value, unknown_version, no_key, bad_batch",
        ),
        Column("message", STRING, "the reason in words"),
        Column("record_type", SHORT, "of the key, when it could be read"),
        Column("key", BINARY, "the key, as it is"),
        Column("value", BINARY, "the value, as it is"),
    ),
)
