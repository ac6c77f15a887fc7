"""`--describe`, with or without `--offsets`: how far each group is on each partition.

Commits are read before the ends of the logs, in few requests for all groups together.
A row that could not be read in full is printed with hyphens, and why stands on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.describing import (
    dead,
    extras,
    no_table,
    state_of,
)
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.groups import groups_meant
from coterie.cli.kafka_consumer_groups.layout import MISSING
from coterie.cli.kafka_consumer_groups.report import Report, failure, said, warned
from coterie.cli.kafka_consumer_groups.tables import OffsetRow
from coterie.cli.kafka_consumer_groups.topics import selectors
from coterie.client.admin.group_values import GroupState
from coterie.operations.lag import GroupLag, LagStatus, PartitionLag, group_lag
from coterie.operations.scope import TopicSelector


async def run(admin: Admin, line: CommandLine) -> Report:
    """Describe the offsets of each group."""
    chosen = selectors(line)
    group_ids, report = await groups_meant(admin, line)
    topics = {each.topic for each in chosen} or None
    lags = await group_lag(admin, sorted(group_ids), topics=topics)
    each_group = (describe(group, chosen, line) for group in lags.groups)
    return Report.of((report, *each_group))


def describe(
    group: GroupLag, chosen: Sequence[TopicSelector], line: CommandLine
) -> Report:
    """What is said of one group, and its table if it has any row."""
    if group.description is None or group.error is not None:
        assert group.error is not None, "a group is described, or it is known why not"
        return no_table(group.group_id, group.error, line)
    if group.description.state is GroupState.DEAD:
        return dead(group.group_id, line)
    rows = [row for row in group.rows if _is_shown(row, chosen, line)]
    shown = [_row(row, line) for row in rows]
    table = said(tables.offsets(shown, extras(line)) if shown else "")
    beside = (_beside(row, line) for row in rows)
    return Report.of((state_of(group.description), *beside, table))


def _is_shown(
    row: PartitionLag, chosen: Sequence[TopicSelector], line: CommandLine
) -> bool:
    """Apache's tool leaves members out that own nothing; A-72 wants a row of them."""
    if row.topic is None:
        return not chosen and not line.is_strict
    return not chosen or any(
        row.topic == each.topic
        and (each.partitions is None or row.partition in each.partitions)
        for each in chosen
    )


def _row(row: PartitionLag, line: CommandLine) -> OffsetRow:
    nobody = MISSING if row.member_id is None else None
    commit = row.committed
    return OffsetRow(
        row.group_id,
        row.topic,
        row.partition,
        None if commit is None else commit.leader_epoch,
        None if commit is None else commit.offset,
        row.log_end,
        row.lag_raw if line.is_strict else row.lag,
        row.member_id or nobody,
        row.host or nobody,
        row.client_id or nobody,
    )


def _beside(row: PartitionLag, line: CommandLine) -> Report:
    """What a row cannot say itself."""
    where = f"{row.topic}-{row.partition}"
    if row.error is not None:
        return failure(f"Consumer group '{row.group_id}', {where}: {row.error}")
    if line.is_strict or row.committed is None:
        return Report()
    told = _OUT_OF_RANGE.get(row.lag_status)
    if told is None:
        return Report()
    return warned(
        f"\nWarning: Consumer group '{row.group_id}' is at offset "
        f"{row.committed.offset} of {where}, {told(row)}."
    )


_OUT_OF_RANGE: dict[LagStatus, Callable[[PartitionLag], str]] = {
    LagStatus.BELOW_START: lambda row: (
        f"but its log starts at {row.log_start}: what lies between is deleted"
    ),
    LagStatus.BEYOND_END: lambda row: f"but its log ends at {row.log_end}",
}
