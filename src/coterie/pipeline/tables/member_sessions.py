"""Gold: Who came and went, and what did that cost?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import (
    CLIENT_HOST,
    CLIENT_ID,
    GROUP_ID,
    INSTANCE_ID,
    MEMBER_ID,
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

MEMBER_SESSIONS: Final = Table(
    "member_sessions",
    Layer.GOLD,
    "Who came and went, and what did that cost?",
    key=("group_id", "member_id", "joined_ts"),
    columns=(
        GROUP_ID,
        MEMBER_ID,
        INSTANCE_ID,
        CLIENT_ID,
        CLIENT_HOST,
        never_null("protocol", STRING, "classic or consumer"),
        never_null("joined_ts", TIME, "its first record"),
        Column("left_ts", TIME, "when it went; null while it is there"),
        Column("session_ms", LONG, "how long it was there"),
        never_null(
            "end_reason",
            STRING,
            "left, replaced (its instance came back), group_deleted, open; crashes"
            " look like leaving (K-06)",
        ),
        never_null(
            "rebalances_caused",
            INT,
            "rebalances that began by its coming or going",
        ),
        never_null(
            "restarts_of_instance_24h",
            INT,
            "sessions of the same instance, or client id and host, that began in the"
            " 24 hours before",
        ),
        never_null("is_lower_bound", BOOL, "the log does not have its beginning"),
    ),
)
