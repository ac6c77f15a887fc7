"""Gold: When did each group rebalance, why, and what did it move?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import GROUP_ID, LOG_OFFSET, LOG_PARTITION
from coterie.pipeline.tables.table import (
    BOOL,
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

REBALANCE_TIMELINE: Final = Table(
    "rebalance_timeline",
    Layer.GOLD,
    "When did each group rebalance, why, and what did it move?",
    key=("group_id", "log_partition", "log_offset"),
    columns=(
        GROUP_ID,
        LOG_PARTITION,
        LOG_OFFSET,
        never_null("protocol", STRING, "classic or consumer, after it"),
        never_null("epoch", INT, "the generation or group epoch it made"),
        Column("prev_epoch", INT, "the one before; null for the first"),
        never_null(
            "cause",
            STRING,
            "first, joined, left, joined_and_left, restarted, subscription_changed,"
            " metadata_changed, assignor_or_leader_changed, follow_up (classic: gives"
            " what was given up in the one before), became_empty, deleted, upgraded,"
            " downgraded, unknown",
        ),
        Column(
            "start_ts",
            TIME,
            "of the record that began it; classic: of the only one, at its end",
        ),
        Column(
            "end_ts",
            TIME,
            "when all members had what they are to have; null while it lasts",
        ),
        Column(
            "duration_ms",
            LONG,
            "from start to end; classic: since the record before",
        ),
        never_null(
            "is_duration_exact",
            BOOL,
            "consumer: true; classic: the time since the record before, an upper bound",
        ),
        never_null("members_before", INT, "members before it"),
        never_null("members_after", INT, "members after it"),
        never_null("joined", list_of(STRING), "members that came"),
        never_null("left", list_of(STRING), "members that went"),
        never_null(
            "restarted",
            list_of(STRING),
            "of those that came: the same instance id, or client id and host, as one"
            " that went in the ten minutes before",
        ),
        never_null("partitions_total", INT, "partitions with an owner after it"),
        never_null("partitions_moved", INT, "partitions that had another owner before"),
        never_null("moves_needed_min", INT, "the fewest moves that make it as even"),
        never_null("excess_moves", INT, "moved more than needed"),
        never_null(
            "partitions_unowned_ms",
            LONG,
            "time that partitions had no owner, all in all",
        ),
        Column("storm_id", STRING, "the storm it is part of; null for none"),
        Column("storm_size", INT, "rebalances in that storm"),
        never_null("epoch_gap", INT, "epochs missing before it: compaction took them"),
    ),
)
