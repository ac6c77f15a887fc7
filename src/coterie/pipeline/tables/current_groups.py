"""Gold: Which groups are there, and how are they?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import GROUP_ID, LOG_PARTITION
from coterie.pipeline.tables.table import (
    INT,
    LONG,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    never_null,
)

CURRENT_GROUPS: Final = Table(
    "current_groups",
    Layer.GOLD,
    "Which groups are there, and how are they?",
    key=("group_id",),
    columns=(
        GROUP_ID,
        never_null(
            "group_type",
            STRING,
            "classic, consumer, or simple (offsets only, K-07)",
        ),
        Column(
            "protocol_type",
            STRING,
            "of a classic group; consumer for consumer groups",
        ),
        Column(
            "assignor",
            STRING,
            "classic: the strategy; consumer: what most members ask for",
        ),
        never_null(
            "state",
            STRING,
            "Empty, Stable, Assigning, Reconciling; a classic rebalance is not in the"
            " log",
        ),
        Column("epoch", INT, "the generation or group epoch; null for simple groups"),
        Column("assignment_epoch", INT, "consumer: of the target assignment"),
        Column("leader_member_id", STRING, "classic: who assigned"),
        never_null("member_count", INT, "members"),
        never_null("static_member_count", INT, "members with an instance id"),
        never_null("topic_count", INT, "topics with a committed offset or an owner"),
        never_null(
            "partition_count",
            INT,
            "partitions with a committed offset or an owner",
        ),
        never_null("owned_partition_count", INT, "partitions with an owner"),
        LOG_PARTITION,
        Column("created_ts", TIME, "when it was made; null when the log does not tell"),
        Column("first_seen_ts", TIME, "its first record in the log"),
        Column("last_state_change_ts", TIME, "its last record other than an offset"),
        Column(
            "empty_since_ts",
            TIME,
            "since when it has no members; null while it has",
        ),
        Column("last_commit_ts", TIME, "its last committed offset, still there or not"),
        never_null("last_log_offset", LONG, "its last record in the log"),
    ),
)
