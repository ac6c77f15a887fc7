"""Silver: record types 0 and 1 with a value."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import AT, GROUP_ID, PARTITION, TOPIC, TOPIC_ID
from coterie.pipeline.tables.table import (
    BOOL,
    INT,
    LONG,
    SHORT,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    never_null,
)

OFFSET_COMMITS: Final = Table(
    "offset_commits",
    Layer.SILVER,
    "Which offsets were committed? What an aborted transaction wrote is not here.",
    key=("log_partition", "log_offset"),
    columns=(
        *AT,
        GROUP_ID,
        TOPIC,
        PARTITION,
        never_null("committed_offset", LONG, "the offset to go on from"),
        Column("leader_epoch", INT, "of the last record consumed; null when not told"),
        Column("metadata", STRING, "what the committer wrote beside it, often empty"),
        Column("commit_ts", TIME, "by the coordinator's clock (K-09)"),
        Column("expire_ts", TIME, "value version 1 only: when it is to expire"),
        TOPIC_ID,
        never_null("value_version", SHORT, "the version of the value"),
        never_null("is_transactional", BOOL, "it came with a transaction"),
        Column("producer_id", LONG, "of its transaction; null without one"),
    ),
)
