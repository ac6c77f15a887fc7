"""Gold: Was the group in trouble at that time, by Burrow's rules?"""

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
    never_null,
)

GROUP_STATUS: Final = Table(
    "group_status",
    Layer.GOLD,
    "Was the group in trouble at that time, by Burrow's rules?",
    key=("group_id", "topic", "partition", "window_end_ts"),
    columns=(
        GROUP_ID,
        Column("topic", STRING, "null: the whole group, its worst partition"),
        Column("partition", INT, "null: the whole group"),
        never_null("window_end_ts", TIME, "the time that is judged"),
        never_null(
            "verdict",
            STRING,
            "OK, WARN, STALL, STOP, REWIND, NO_COMMIT, NO_OWNER, LOSING_DATA, RESET;"
            " of a group ERR too",
        ),
        never_null(
            "burrow_code",
            INT,
            "Burrow's number: 1 OK, 2 WARN, 3 ERR, 4 STOP, 5 STALL, 6 REWIND",
        ),
        never_null("rule", STRING, "which rule said so, in words"),
        never_null("window_commits", INT, "commits that were looked at"),
        never_null("complete", DOUBLE, "part of the window that is filled, 0 to 1"),
        Column("lag", LONG, "at that time"),
        Column("committed_offset", LONG, "at that time"),
        Column("log_end_offset", LONG, "at that time"),
    ),
)
