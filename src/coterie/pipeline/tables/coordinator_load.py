"""Gold: Which partition of the log, and which broker, has most to do?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import LOG_PARTITION
from coterie.pipeline.tables.table import (
    DOUBLE,
    INT,
    LONG,
    STRING,
    Column,
    Layer,
    Table,
    never_null,
)

COORDINATOR_LOAD: Final = Table(
    "coordinator_load",
    Layer.GOLD,
    "Which partition of the log, and which broker, has most to do?",
    key=("log_partition",),
    columns=(
        LOG_PARTITION,
        Column("broker_id", INT, "its leader; null without samples"),
        never_null("groups", INT, "groups that live there now"),
        never_null("members", INT, "their members"),
        never_null("records", LONG, "records read"),
        never_null("commits", LONG, "committed offsets among them"),
        never_null("bytes", LONG, "their keys and values"),
        never_null("commits_per_s", DOUBLE, "over the time that the log covers"),
        Column("top_group_id", STRING, "the group that commits most"),
        Column("top_group_share", DOUBLE, "its part of the commits, 0 to 1"),
    ),
)
