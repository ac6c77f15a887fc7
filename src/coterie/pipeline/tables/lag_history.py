"""Gold: How far behind was each group, in records and in time?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import GROUP_ID, PARTITION, TOPIC, TOPIC_ID
from coterie.pipeline.tables.table import (
    DOUBLE,
    LONG,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    never_null,
)

LAG_HISTORY: Final = Table(
    "lag_history",
    Layer.GOLD,
    "How far behind was each group, in records and in time?",
    key=("group_id", "topic", "partition", "sample_ts"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        TOPIC_ID,
        never_null("sample_ts", TIME, "of the sample of the partition's ends"),
        Column("committed_offset", LONG, "what held at that time; null for none"),
        Column("committed_ts", TIME, "when it was committed"),
        never_null("log_start_offset", LONG, "where the partition began"),
        never_null("log_end_offset", LONG, "where it ended"),
        Column(
            "lag",
            LONG,
            "records to go, 0 or more; null without a committed offset",
        ),
        Column("lag_raw", LONG, "end less committed, below 0 too"),
        never_null("lag_status", STRING, "normal, no_commit, below_start, beyond_end"),
        never_null(
            "messages_lost",
            LONG,
            "records that went away before they were read",
        ),
        Column(
            "time_lag_ms",
            LONG,
            "how old the next record to read was then; null when unknown",
        ),
        Column(
            "time_lag_method",
            STRING,
            "head (0), interpolated, extrapolated (a lower bound); null when unknown",
        ),
        Column("time_lag_error_ms", LONG, "how far off it may be"),
        Column("commit_time_lag_ms", LONG, "how late it was when it committed"),
        Column(
            "produce_rate",
            DOUBLE,
            "records a second written since the sample before",
        ),
        Column(
            "consume_rate",
            DOUBLE,
            "records a second consumed since the sample before",
        ),
        Column("eta_s", DOUBLE, "until it catches up; null when it does not gain"),
        Column(
            "retention_margin_offsets",
            LONG,
            "committed less log start: what may go before records are lost",
        ),
        Column("owner_member_id", STRING, "who owned it at that time"),
    ),
)
