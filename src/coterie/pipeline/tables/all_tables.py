"""The tables of the lake by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.pipeline.tables import bronze, gold_groups, gold_offsets, silver
from coterie.pipeline.tables.table import Layer, Table

TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in (
        bronze.RECORDS,
        silver.OFFSET_COMMITS,
        silver.CLASSIC_GROUP_RECORDS,
        silver.CONSUMER_GROUP_RECORDS,
        silver.TOMBSTONES,
        silver.QUARANTINE,
        silver.LOG_GAPS,
        gold_groups.CURRENT_GROUPS,
        gold_groups.CURRENT_MEMBERS,
        gold_offsets.CURRENT_OFFSETS,
        gold_offsets.OFFSET_COMMIT_HISTORY,
        gold_offsets.DELETED_OFFSETS,
        gold_offsets.PARTITION_END_SAMPLES,
        gold_offsets.LAG_HISTORY,
        gold_groups.GROUP_STATUS,
        gold_groups.REBALANCE_TIMELINE,
        gold_groups.PARTITION_OWNERSHIP_HISTORY,
        gold_groups.MEMBER_SESSIONS,
        gold_offsets.EXPIRY_FORECAST,
        gold_groups.STALE_GROUP_CANDIDATES,
        gold_offsets.GROUP_USAGE_DAILY,
        gold_offsets.COORDINATOR_LOAD,
        gold_offsets.DATA_QUALITY,
        gold_groups.GROUP_HISTORY,
        gold_groups.GROUP_ACTIVITY,
        gold_offsets.TOPIC_NAMES,
        gold_groups.GROUP_PERIODS,
        gold_offsets.NEWEST_PARTITION_ENDS,
        gold_groups.GROUP_WINDOWS,
    )
}
"""Bronze tables first, then silver, gold and internal ones."""


def of_layer(layer: Layer) -> list[Table]:
    return [table for table in TABLES.values() if table.layer is layer]
