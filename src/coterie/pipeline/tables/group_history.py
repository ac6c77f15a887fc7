"""Internal: what the replay of group records says, for the tables made from it."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from coterie.pipeline.tables.common import GROUP_ID, LOG_PARTITION
from coterie.pipeline.tables.current_groups import CURRENT_GROUPS
from coterie.pipeline.tables.current_members import CURRENT_MEMBERS
from coterie.pipeline.tables.member_sessions import MEMBER_SESSIONS
from coterie.pipeline.tables.partition_ownership_history import (
    PARTITION_OWNERSHIP_HISTORY,
)
from coterie.pipeline.tables.rebalance_timeline import REBALANCE_TIMELINE
from coterie.pipeline.tables.table import (
    INT,
    STRING,
    Column,
    Layer,
    Table,
    list_of,
    never_null,
)

_ELSEWHERE: Final = {
    "group_id",
    "log_partition",
    "topic_count",
    "partition_count",
    "last_commit_ts",
}
"""Columns that every row has, and those that offsets tell."""


def _row_of(table: Table, *more: Any) -> Any:
    fields = [(c.name, c.type) for c in table.columns if c.name not in _ELSEWHERE]
    return pa.struct([*fields, *more])


GROUP_HISTORY: Final = Table(
    "group_history",
    Layer.INTERNAL,
    "What became of each group, step by step?",
    key=("log_partition", "group_id", "kind", "number"),
    columns=(
        LOG_PARTITION,
        GROUP_ID,
        never_null(
            "kind",
            STRING,
            "which of the following columns has a value: group (one row a group, even"
            " when it is gone), member, ownership, session, rebalance",
        ),
        never_null("number", INT, "0, 1, ... within its kind and group"),
        Column(
            "group",
            _row_of(CURRENT_GROUPS, ("nameless_topic_ids", list_of(STRING))),
            "of current_groups; group_type is null when the group is gone",
        ),
        Column("member", _row_of(CURRENT_MEMBERS), "of current_members"),
        Column(
            "ownership",
            _row_of(PARTITION_OWNERSHIP_HISTORY),
            "of partition_ownership_history",
        ),
        Column("session", _row_of(MEMBER_SESSIONS), "of member_sessions"),
        Column("rebalance", _row_of(REBALANCE_TIMELINE), "of rebalance_timeline"),
    ),
)
