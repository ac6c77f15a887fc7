"""The gold tables in build order: each table follows the tables that it reads."""

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
    group_history.GOLD,
    current_groups.ACTIVITY,
    *group_history.TABLES_OF_KINDS,
    current_offsets.GOLD,
    current_groups.GOLD,
    offset_commit_history.GOLD,
    deleted_offsets.GOLD,
    group_usage_daily.GOLD,
    data_quality.GOLD,
    coordinator_load.GOLD,
    lag_history.GOLD,
    group_status.GOLD,
    expiry_forecast.GOLD,
    group_periods.GOLD,
    stale_group_candidates.GOLD,
)
