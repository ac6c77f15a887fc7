"""Gold: Where is each group, on each partition?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import (
    GROUP_ID,
    LOG_OFFSET,
    LOG_PARTITION,
    PARTITION,
    TOPIC,
    TOPIC_ID,
)
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

CURRENT_OFFSETS: Final = Table(
    "current_offsets",
    Layer.GOLD,
    "Where is each group, on each partition?",
    key=("group_id", "topic", "partition"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        TOPIC_ID,
        never_null("committed_offset", LONG, "the offset to go on from"),
        Column("leader_epoch", INT, "of the last record consumed; null when not told"),
        Column("metadata", STRING, "what the committer wrote beside it"),
        Column("commit_ts", TIME, "by the coordinator's clock"),
        Column("expire_ts", TIME, "when it says itself that it expires"),
        Column("append_ts", TIME, "the record's timestamp"),
        LOG_PARTITION,
        LOG_OFFSET,
    ),
)
