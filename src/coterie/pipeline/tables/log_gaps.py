"""Silver: offsets that the log does not have any more."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import LOG_PARTITION
from coterie.pipeline.tables.table import LONG, STRING, Layer, Table, never_null

LOG_GAPS: Final = Table(
    "log_gaps",
    Layer.SILVER,
    "Which part of the history is missing?",
    key=("log_partition", "from_offset"),
    columns=(
        LOG_PARTITION,
        never_null("from_offset", LONG, "the first missing offset"),
        never_null("until_offset", LONG, "the next offset that is there"),
        never_null(
            "reason",
            STRING,
            "log_start (what was there before the log began is gone), missing"
            " (compaction took it, or a segment was not given), unreadable",
        ),
    ),
)
