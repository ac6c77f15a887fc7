"""Gold: What did each group commit, when, and who did it?"""

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

OFFSET_COMMIT_HISTORY: Final = Table(
    "offset_commit_history",
    Layer.GOLD,
    "What did each group commit, when, and who did it?",
    key=("log_partition", "log_offset"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        TOPIC_ID,
        LOG_PARTITION,
        LOG_OFFSET,
        Column("committed_offset", LONG, "null for a tombstone"),
        Column(
            "prev_offset",
            LONG,
            "the one before; null for the first and after a tombstone",
        ),
        Column("delta", LONG, "committed_offset less prev_offset"),
        never_null("direction", STRING, "first, forward, same, rewind or tombstone"),
        Column(
            "commit_ts",
            TIME,
            "by the coordinator's clock; a tombstone's is its append_ts",
        ),
        Column("append_ts", TIME, "the record's timestamp"),
        Column("gap_ms", LONG, "since the previous commit of this partition"),
        Column("leader_epoch", INT, "of the last record consumed"),
        Column("metadata", STRING, "what the committer wrote beside it"),
        Column("expire_ts", TIME, "when it says itself that it expires"),
        never_null("is_transactional", BOOL, "it came with a transaction"),
        Column(
            "actor",
            STRING,
            "who may have done it, as the log does not say who did: owner (somebody"
            " owned the partition), member (nobody did, but the group had members),"
            " admin (the group was empty), simple; null for a tombstone",
        ),
        Column("owner_member_id", STRING, "who owned the partition at this log offset"),
        Column("owner_client_id", STRING, "its client.id"),
        Column("owner_host", STRING, "where it connected from"),
        Column(
            "tombstone_cause",
            STRING,
            "expired, offsets_deleted, group_deleted, topic_deleted, unknown",
        ),
        never_null(
            "is_lower_bound",
            BOOL,
            "a gap of the log lies between this and the commit before",
        ),
    ),
)
