"""Gold: Which groups may go, and what speaks against it?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import GROUP_ID
from coterie.pipeline.tables.table import (
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    list_of,
    never_null,
)

STALE_GROUP_CANDIDATES: Final = Table(
    "stale_group_candidates",
    Layer.GOLD,
    "Which groups may go, and what speaks against it?",
    key=("group_id",),
    columns=(
        GROUP_ID,
        never_null("class", STRING, "dead, abandoned, expired_soon, typo, test, keep"),
        never_null("score", INT, "0 (keep) to 100 (delete)"),
        never_null("reasons", list_of(STRING), "what speaks for it"),
        never_null(
            "blockers",
            list_of(STRING),
            "what forbids it; a group with any is never in a plan",
        ),
        Column("empty_since_ts", TIME, "since when it has no members"),
        Column("last_commit_ts", TIME, "its last committed offset"),
        Column("idle_days", DOUBLE, "since its last commit or member"),
        Column("usual_gap_days", DOUBLE, "the longest pause it ever came back from"),
        never_null(
            "topics_missing",
            list_of(STRING),
            "topics with its offsets that are gone",
        ),
        never_null(
            "topics_still_written",
            list_of(STRING),
            "topics with its offsets that still grow",
        ),
        Column("total_lag", LONG, "records it has not read"),
        never_null("offsets_count", INT, "committed offsets that would go"),
        never_null("log_bytes", LONG, "bytes of its records in the log"),
        Column("would_expire_ts", TIME, "when its last offset goes by itself"),
        never_null(
            "last_hosts",
            list_of(STRING),
            "where its last members connected from: whom to ask",
        ),
        never_null("last_client_ids", list_of(STRING), "their client ids"),
        Column("looks_like", STRING, "typo: the group it is like"),
        Column("plan_item_id", STRING, "its item in the plan file; null when blocked"),
    ),
)
