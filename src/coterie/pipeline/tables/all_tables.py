"""Every table of the lake: one a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.pipeline.tables.classic_group_records import CLASSIC_GROUP_RECORDS
from coterie.pipeline.tables.consumer_group_records import CONSUMER_GROUP_RECORDS
from coterie.pipeline.tables.coordinator_load import COORDINATOR_LOAD
from coterie.pipeline.tables.current_groups import CURRENT_GROUPS
from coterie.pipeline.tables.current_members import CURRENT_MEMBERS
from coterie.pipeline.tables.current_offsets import CURRENT_OFFSETS
from coterie.pipeline.tables.data_quality import DATA_QUALITY
from coterie.pipeline.tables.expiry_forecast import EXPIRY_FORECAST
from coterie.pipeline.tables.group_activity import GROUP_ACTIVITY
from coterie.pipeline.tables.group_history import GROUP_HISTORY
from coterie.pipeline.tables.group_status import GROUP_STATUS
from coterie.pipeline.tables.group_usage_daily import GROUP_USAGE_DAILY
from coterie.pipeline.tables.lag_history import LAG_HISTORY
from coterie.pipeline.tables.log_gaps import LOG_GAPS
from coterie.pipeline.tables.member_sessions import MEMBER_SESSIONS
from coterie.pipeline.tables.offset_commit_history import OFFSET_COMMIT_HISTORY
from coterie.pipeline.tables.offset_commits import OFFSET_COMMITS
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES
from coterie.pipeline.tables.partition_ownership_history import (
    PARTITION_OWNERSHIP_HISTORY,
)
from coterie.pipeline.tables.quarantine import QUARANTINE
from coterie.pipeline.tables.rebalance_timeline import REBALANCE_TIMELINE
from coterie.pipeline.tables.records import RECORDS
from coterie.pipeline.tables.stale_group_candidates import STALE_GROUP_CANDIDATES
from coterie.pipeline.tables.table import Layer, Table
from coterie.pipeline.tables.tombstones import TOMBSTONES

TABLES: Final[Mapping[str, Table]] = {
    each.name: each
    for each in (
        RECORDS,
        OFFSET_COMMITS,
        CLASSIC_GROUP_RECORDS,
        CONSUMER_GROUP_RECORDS,
        TOMBSTONES,
        QUARANTINE,
        LOG_GAPS,
        CURRENT_GROUPS,
        CURRENT_MEMBERS,
        CURRENT_OFFSETS,
        OFFSET_COMMIT_HISTORY,
        PARTITION_END_SAMPLES,
        LAG_HISTORY,
        GROUP_STATUS,
        REBALANCE_TIMELINE,
        PARTITION_OWNERSHIP_HISTORY,
        MEMBER_SESSIONS,
        EXPIRY_FORECAST,
        STALE_GROUP_CANDIDATES,
        GROUP_USAGE_DAILY,
        COORDINATOR_LOAD,
        DATA_QUALITY,
        GROUP_HISTORY,
        GROUP_ACTIVITY,
    )
}
"""By name: bronze, then silver, then gold, then internal ones."""


def of_layer(layer: Layer) -> list[Table]:
    """The tables of a layer."""
    return [each for each in TABLES.values() if each.layer is layer]
