"""Gold: Who is in each group, and what do they own?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import (
    CLIENT_HOST,
    CLIENT_ID,
    GROUP_ID,
    INSTANCE_ID,
    MEMBER_ID,
    PARTITIONS,
)
from coterie.pipeline.tables.table import (
    INT,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    list_of,
    never_null,
)

CURRENT_MEMBERS: Final = Table(
    "current_members",
    Layer.GOLD,
    "Who is in each group, and what do they own?",
    key=("group_id", "member_id"),
    columns=(
        GROUP_ID,
        MEMBER_ID,
        INSTANCE_ID,
        CLIENT_ID,
        CLIENT_HOST,
        Column("rack_id", STRING, "its rack"),
        never_null(
            "protocol",
            STRING,
            "classic or consumer: how it speaks to the coordinator",
        ),
        Column("member_epoch", INT, "consumer: its epoch; classic: the generation"),
        Column(
            "member_state",
            STRING,
            "consumer: stable, unrevoked_partitions, unreleased_partitions, away"
            " (static), unknown",
        ),
        Column("subscribed_topics", list_of(STRING), "topics by name"),
        Column("subscribed_regex", STRING, "topics by regular expression"),
        Column("assigned", PARTITIONS, "what it owns"),
        Column("pending_revocation", PARTITIONS, "what it has to give up"),
        Column("session_timeout_ms", INT, "classic protocol only"),
        Column("rebalance_timeout_ms", INT, "how long it may take to give up"),
        Column("since_ts", TIME, "when it joined"),
    ),
)
