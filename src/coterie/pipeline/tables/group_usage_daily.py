"""Gold: What did each group do each day, and what did that cost?"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from coterie.pipeline.tables.common import GROUP_ID, TOPIC
from coterie.pipeline.tables.table import (
    DOUBLE,
    INT,
    LONG,
    Column,
    Layer,
    Table,
    never_null,
)

GROUP_USAGE_DAILY: Final = Table(
    "group_usage_daily",
    Layer.GOLD,
    "What did each group do each day, and what did that cost?",
    key=("day", "group_id", "topic"),
    columns=(
        never_null("day", pa.date32(), "the day, UTC"),
        GROUP_ID,
        TOPIC,
        never_null(
            "offsets_consumed",
            LONG,
            "offsets gone forward; not records on compacted or transactional topics",
        ),
        never_null("offsets_rewound", LONG, "offsets gone back"),
        never_null("commits", LONG, "committed offsets"),
        never_null("tombstones", LONG, "offsets taken away"),
        never_null("commits_per_s_max", DOUBLE, "in its busiest minute"),
        never_null("log_bytes_written", LONG, "keys and values of its commits"),
        never_null("active_minutes", INT, "minutes with a commit"),
        Column("members_max", INT, "most members at a time; null when it had none"),
        never_null("cost_share", DOUBLE, "its part of the day's commit bytes, 0 to 1"),
    ),
)
