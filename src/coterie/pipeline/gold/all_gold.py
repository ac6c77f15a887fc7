"""The gold tables in build order: each table follows the tables that it reads.

Consecutive tables that do not read each other are built together (`jobs.refresh`), so
the order is one of few such batches.
"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.gold import (
    coordinator_load,
    current_groups,
    current_offsets,
    data_quality,
    deleted_offsets,
    expiry_forecast,
    group_history,
    group_periods,
    group_status,
    group_usage_daily,
    lag_history,
    newest_partition_ends,
    offset_commit_history,
    stale_group_candidates,
    topic_names,
)
from coterie.pipeline.gold.table_inputs import GoldTable

GOLD: Final[tuple[GoldTable, ...]] = (
    topic_names.GOLD,
    newest_partition_ends.GOLD,
    current_groups.ACTIVITY,
    current_offsets.GOLD,
    data_quality.GOLD,
    group_history.GOLD,
    *group_history.TABLES_OF_KINDS,
    current_groups.GOLD,
    offset_commit_history.GOLD,
    coordinator_load.GOLD,
    expiry_forecast.GOLD,
    deleted_offsets.GOLD,
    group_usage_daily.GOLD,
    group_periods.GOLD,
    group_status.WINDOWS,
    lag_history.GOLD,
    group_status.GOLD,
    stale_group_candidates.GOLD,
)
