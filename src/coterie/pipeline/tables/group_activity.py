"""Internal: when each group was seen in the log, whatever became of it since."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import GROUP_ID, LOG_PARTITION
from coterie.pipeline.tables.table import LONG, TIME, Column, Layer, Table, never_null

GROUP_ACTIVITY: Final = Table(
    "group_activity",
    Layer.INTERNAL,
    "When was each group seen in the log?",
    key=("log_partition", "group_id"),
    columns=(
        LOG_PARTITION,
        GROUP_ID,
        Column("first_seen_ts", TIME, "its first record, of any type"),
        Column("last_commit_ts", TIME, "its newest committed offset"),
        never_null("last_log_offset", LONG, "its last record, of any type"),
    ),
)
