"""Gold: How good is what these tables say?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import LOG_PARTITION
from coterie.pipeline.tables.table import LONG, TIME, Column, Layer, Table, never_null

DATA_QUALITY: Final = Table(
    "data_quality",
    Layer.GOLD,
    "How good is what these tables say?",
    key=("log_partition",),
    columns=(
        LOG_PARTITION,
        Column("from_offset", LONG, "the first offset that was read"),
        Column("next_offset", LONG, "the offset to go on from"),
        Column("end_offset", LONG, "where the log ended at the last look"),
        never_null("records", LONG, "records read"),
        never_null("commits", LONG, "committed offsets"),
        never_null("group_records", LONG, "records of groups"),
        never_null("tombstones", LONG, "records without a value"),
        never_null("control", LONG, "markers of transactions"),
        never_null("aborted", LONG, "records of aborted transactions"),
        never_null("quarantined", LONG, "what does not read"),
        never_null("gaps", LONG, "gaps of the log"),
        never_null("missing_offsets", LONG, "offsets in them"),
        never_null(
            "held_back",
            LONG,
            "offsets not read yet: an open transaction stands before them",
        ),
        Column("first_ts", TIME, "the oldest record"),
        Column("last_ts", TIME, "the newest record"),
    ),
)
