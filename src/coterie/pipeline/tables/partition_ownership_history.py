"""Gold: Who owned each partition, from when until when?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import (
    CLIENT_HOST,
    CLIENT_ID,
    GROUP_ID,
    INSTANCE_ID,
    LOG_PARTITION,
    MEMBER_ID,
    PARTITION,
    TOPIC_ID,
)
from coterie.pipeline.tables.table import (
    BOOL,
    INT,
    LONG,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    never_null,
)

PARTITION_OWNERSHIP_HISTORY: Final = Table(
    "partition_ownership_history",
    Layer.GOLD,
    "Who owned each partition, from when until when?",
    key=("group_id", "topic_id", "topic", "partition", "from_log_offset"),
    columns=(
        GROUP_ID,
        Column("topic", STRING, "the topic's name; null when only its id is known"),
        TOPIC_ID,
        PARTITION,
        MEMBER_ID,
        INSTANCE_ID,
        CLIENT_ID,
        CLIENT_HOST,
        Column("rack_id", STRING, "the member's rack"),
        never_null("epoch_from", INT, "generation or member epoch that gave it"),
        Column("epoch_to", INT, "the one that took it; null while open"),
        never_null("valid_from", TIME, "since when"),
        Column("valid_to", TIME, "until when; null while open"),
        LOG_PARTITION,
        never_null("from_log_offset", LONG, "the record that gave it"),
        Column("to_log_offset", LONG, "the record that took it; null while open"),
        never_null(
            "end_reason",
            STRING,
            "moved, member_left, group_empty, group_deleted, open",
        ),
        Column(
            "gap_before_ms",
            LONG,
            "how long nobody owned it before; null for the first",
        ),
        never_null("source", STRING, "classic or consumer: what kind of record told"),
        never_null(
            "is_lower_bound",
            BOOL,
            "the log does not have its beginning: it began earlier",
        ),
    ),
)
