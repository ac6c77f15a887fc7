"""Lag as rows: the columns and the items of partitions, and of what is added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie.cli.output.values import (
    Column,
    Item,
    Json,
    error_item,
    show_duration,
    show_error,
)
from coterie.operations.expiry import expiry_clock
from coterie.operations.rollup import By, Rollup, roll_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.client.admin.group_values import GroupDescription, MemberDescription
    from coterie.operations.lag import GroupLag, GroupLagReport, PartitionLag

PARTITION_COLUMNS: Final = (
    Column("group_id", "GROUP"),
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("committed_offset", "CURRENT-OFFSET"),
    Column("log_start_offset", "LOG-START-OFFSET", is_wide=True),
    Column("log_end_offset", "LOG-END-OFFSET"),
    Column("lag", "LAG"),
    Column("lag_status", "STATUS", is_wide=True),
    Column("time_lag_ms", "TIME-LAG", is_wide=True, show=show_duration),
    Column("time_lag_method", "METHOD", is_wide=True),
    Column("time_lag_error_ms", "+/-", is_wide=True, show=show_duration),
    Column("margin", "MARGIN", is_wide=True),
    Column("expiry_clock", "EXPIRY", is_wide=True),
    Column("member_id", "CONSUMER-ID"),
    Column("member_epoch", "EPOCH", is_wide=True),
    Column("instance_id", "INSTANCE-ID", is_wide=True),
    Column("host", "HOST"),
    Column("client_id", "CLIENT-ID"),
    Column("rack_id", "RACK", is_wide=True),
)
"""Those that are not wide are Apache's, in its order."""
_ERROR: Final = Column("error", "ERROR", show=show_error)
_WIDE_ERROR: Final = Column("error", "ERROR", is_wide=True, show=show_error)


def with_error(columns: Sequence[Column], items: Sequence[Item]) -> tuple[Column, ...]:
    """The columns and one for errors, in a narrow table only if there are any."""
    has_errors = any(each["error"] for each in items)
    return (*columns, _ERROR if has_errors else _WIDE_ERROR)


def partition_items(report: GroupLagReport) -> tuple[Item, ...]:
    """An item for each partition of each group, and each member that owns nothing."""
    return tuple(
        _partition_item(row, group.description, members)
        for group in report.groups
        for members in [_members(group)]
        for row in group.rows
    )


def _members(group: GroupLag) -> dict[str, MemberDescription]:
    members = group.description.members if group.description else ()
    return {each.member_id: each for each in members}


def _partition_item(
    row: PartitionLag,
    group: GroupDescription | None,
    members: dict[str, MemberDescription],
) -> Item:
    owner = members.get(row.member_id) if row.member_id is not None else None
    commit, method = row.committed, row.time_lag_method
    clock = expiry_clock(group, row.topic) if group and row.topic and commit else None
    return {
        "group_id": row.group_id,
        **group_keys(group),
        "topic": row.topic,
        "partition": row.partition,
        "committed_offset": commit.offset if commit else None,
        "leader_epoch": commit.leader_epoch if commit else None,
        "metadata": commit.metadata if commit else None,
        "log_start_offset": row.log_start,
        "log_end_offset": row.log_end,
        "lag": row.lag,
        "lag_raw": row.lag_raw,
        "lag_status": row.lag_status.value if row.topic is not None else None,
        "time_lag_ms": row.time_lag_ms,
        "time_lag_method": method.value if method else None,
        "time_lag_error_ms": row.time_lag_error_ms,
        "last_commit_ms": None,
        "margin": row.margin,
        "expiry_clock": clock.value if clock else None,
        "member_id": row.member_id,
        "member_epoch": owner.epoch if owner else None,
        "instance_id": row.instance_id,
        "client_id": row.client_id,
        "host": row.host,
        "rack_id": owner.rack_id if owner else None,
        "error": error_item(row.error),
    }


def group_keys(group: GroupDescription | None) -> dict[str, Json]:
    """What every item says of its group."""
    return {
        "group_type": group.type.value if group else None,
        "state": group.state.value if group else None,
        "coordinator_id": group.coordinator.node_id if group else None,
    }


_KEYS: Final = {
    By.TOPIC: (Column("topic", "TOPIC"),),
    By.MEMBER: (Column("member_id", "CONSUMER-ID"), Column("client_id", "CLIENT-ID")),
    By.HOST: (Column("host", "HOST"),),
    By.GROUP: (
        Column("state", "STATE"),
        Column("members", "#MEMBERS"),
        Column("topics", "#TOPICS"),
        Column("coordinator", "COORDINATOR", is_wide=True),
        Column("assignor", "ASSIGNOR", is_wide=True),
        Column("group_epoch", "EPOCH", is_wide=True),
        Column("target_assignment_epoch", "TARGET-EPOCH", is_wide=True),
        Column("generation_id", "GENERATION", is_wide=True),
        Column("leader_id", "LEADER", is_wide=True),
    ),
}
_SUMS: Final = (
    Column("partitions", "#PARTITIONS"),
    Column("lagging", "#LAGGING", is_wide=True),
    Column("uncommitted", "#UNCOMMITTED", is_wide=True),
    Column("unknown", "#UNKNOWN", is_wide=True),
    Column("lag", "LAG"),
    Column("lag_max", "MAX-LAG"),
    Column("time_lag_ms", "MAX-TIME-LAG", is_wide=True, show=show_duration),
)


def rollup_columns(by: By) -> tuple[Column, ...]:
    """The columns of what is added up."""
    return (Column("group_id", "GROUP"), *_KEYS[by], *_SUMS)


def rollup_items(report: GroupLagReport, by: By) -> tuple[Item, ...]:
    """An item for each sum."""
    groups = {each.group_id: each.description for each in report.groups}
    return tuple(
        _rollup_item(each, groups[each.group_id], by)
        for each in roll_up(report.groups, by)
    )


def _rollup_item(sums: Rollup, group: GroupDescription | None, by: By) -> Item:
    keys: dict[By, dict[str, Json]] = {
        By.GROUP: {**_of_group(group), "topics": sums.topics},
        By.TOPIC: {"topic": sums.key},
        By.MEMBER: {"member_id": sums.key, "client_id": sums.client_id},
        By.HOST: {"host": sums.key},
    }
    return {
        "group_id": sums.group_id,
        **group_keys(group),
        **keys[by],
        "partitions": sums.partitions,
        "lagging": sums.lagging,
        "uncommitted": sums.uncommitted,
        "unknown": sums.unknown,
        "lag": sums.lag,
        "lag_max": sums.lag_max,
        "time_lag_ms": sums.time_lag_ms,
        "error": error_item(sums.error),
    }


def _of_group(group: GroupDescription | None) -> dict[str, Json]:
    """What only rows of whole groups say."""
    return {
        "members": len(group.members) if group else None,
        "coordinator": str(group.coordinator) if group else None,
        "assignor": group.assignor or None if group else None,
        "group_epoch": group.group_epoch if group else None,
        "target_assignment_epoch": group.assignment_epoch if group else None,
        "generation_id": group.generation_id if group else None,
        "leader_id": group.leader_id if group else None,
    }
