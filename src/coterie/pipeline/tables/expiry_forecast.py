"""Gold: Which committed offsets go away by themselves, and when?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import GROUP_ID, PARTITION, TOPIC
from coterie.pipeline.tables.table import (
    BOOL,
    LONG,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    never_null,
)

EXPIRY_FORECAST: Final = Table(
    "expiry_forecast",
    Layer.GOLD,
    "Which committed offsets go away by themselves, and when?",
    key=("group_id", "topic", "partition"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        never_null(
            "basis",
            STRING,
            "explicit, empty_since, commit_not_subscribed, simple_commit,"
            " consumer_commit, never",
        ),
        Column("base_ts", TIME, "when its clock began; null for never"),
        Column("retention_ms", LONG, "how long after; null for explicit and never"),
        Column("expires_ts", TIME, "when it goes; null for never"),
        Column(
            "remaining_ms",
            LONG,
            "from the log's newest time to then; below 0: at the next sweep",
        ),
        Column(
            "at_risk_messages",
            LONG,
            "its lag: what would be skipped or read again",
        ),
        never_null(
            "is_trap",
            BOOL,
            "a consumer group's quiet partition: it goes as soon as the last member"
            " does, a classic group's would stay (peer-tools c.8)",
        ),
        Column("note", STRING, "in words"),
    ),
)
