"""Every gold table, each after those that it is made from."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.gold import (
    coordinator_load,
    current_groups,
    current_members,
    current_offsets,
    data_quality,
    expiry_forecast,
    group_activity,
    group_history,
    group_status,
    group_usage_daily,
    lag_history,
    member_sessions,
    offset_commit_history,
    partition_ownership_history,
    rebalance_timeline,
    stale_group_candidates,
)
from coterie.pipeline.gold.look import Gold

GOLD: Final[tuple[Gold, ...]] = (
    group_history.GOLD,
    group_activity.GOLD,
    current_members.GOLD,
    partition_ownership_history.GOLD,
    member_sessions.GOLD,
    rebalance_timeline.GOLD,
    current_offsets.GOLD,
    current_groups.GOLD,
    offset_commit_history.GOLD,
    group_usage_daily.GOLD,
    data_quality.GOLD,
    coordinator_load.GOLD,
    lag_history.GOLD,
    group_status.GOLD,
    expiry_forecast.GOLD,
    stale_group_candidates.GOLD,
)
