"""Lag of groups as rows, for all commands about lag: rows of single partitions, and
sums by group, topic, member or host."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from coterie import client
from coterie import operations as ops
from coterie.cli.command import Run
from coterie.cli.groups.selection import (
    NO_GROUP,
    leave_out,
    left_out_note,
    left_out_topics,
    selection_failures,
)
from coterie.cli.output import outcome as out
from coterie.errors import SettingError, UnsupportedGroupType
from coterie.types import GroupId

Rows: TypeAlias = tuple[Sequence[out.Column], Sequence[out.Item]]


def is_wide(options: argparse.Namespace) -> bool:
    """Return whether every column is shown."""
    return bool(options.wide or options.output == "wide")


async def lag_outcome(
    run: Run,
    selection: ops.Selection,
    schema: str,
    make_rows: Callable[[ops.GroupLagReport], Rows],
) -> out.Outcome:
    """Fetch the lag of the selected groups on the selected topics, and return the rows
    that the options select, with totals and notes. Raises SettingError."""
    options = run.options
    _true_conditions(options, ())  # refuses invalid ones before any request
    selected = await ops.select_groups(run.admin, selection, progress=run.progress)
    topics, report = selection.topics or None, selected.report
    # A selection by lag or topic has fetched the report already.
    if report is None or options.read_committed:
        report = await ops.group_lag(
            run.admin,
            selected.ids,
            topics=topics,
            committed_only=options.read_committed,
            progress=run.progress,
        )
    if topics is not None:
        # Rows of other topics, and of members without partitions, are left out.
        report = report.of_topics(topics)
    if options.time_lag or options.fail_if_time_lag or is_wide(options):
        report = await ops.with_time_lags(run.admin, report, now_ms=run.io.now_ms())
    report, unsupported = _without_unsupported(options, report)
    # A group's error that is also in one of its rows is not reported twice.
    group_failures = (
        out.Failure.of("group", each.group_id, each.error)
        for each in report.groups
        if each.error and not any(row.error is each.error for row in each.rows)
    )
    failures = leave_out(options, (*selection_failures(selected), *group_failures))
    measured = [each.group_id for each in report.groups if not each.error]
    left_out = (
        *await left_out_topics(run.admin, measured),
        *left_out_note([*failures.ids, *unsupported]),
    )
    columns, items = make_rows(report)
    failed_items = [each for each in items if each["error"]]
    groups_with_failed_item = {each["group_id"] for each in failed_items}
    # The error column is shown by default only when there are errors.
    error_column = out.Column(
        "error", "ERROR", is_wide=not failed_items, show=out.show_error
    )
    columns = (*columns, error_column)
    totals = [each.total for each in report.groups if each.total is not None]
    true_conditions = _true_conditions(options, items)
    return out.Outcome(
        schema=schema,
        columns=columns,
        items=filter_rows(items, options, columns),
        failures=tuple(
            each
            for each in failures.kept
            if each.kind != "group" or each.id not in groups_with_failed_item
        ),
        summary={
            "groups": len(report.groups),
            "lag": sum(totals) if totals else None,
        },
        notes=(*_notes(report), *left_out, *true_conditions),
        is_condition_true=bool(true_conditions),
        unit=f"{getattr(options, 'by', 'group')}s",
    )


def _without_unsupported(
    options: argparse.Namespace, report: ops.GroupLagReport
) -> tuple[ops.GroupLagReport, tuple[GroupId, ...]]:
    """Return the report without the groups that brokers are too old to describe, unless
    the command line names them, and their ids."""
    named = getattr(options, "groups", ())
    unsupported = tuple(
        each.group_id
        for each in report.groups
        if isinstance(each.error, UnsupportedGroupType) and each.group_id not in named
    )
    if not unsupported:
        return report, ()
    groups = (each for each in report.groups if each.group_id not in unsupported)
    return ops.GroupLagReport(tuple(groups)), unsupported


def _true_conditions(
    options: argparse.Namespace, items: Sequence[out.Item]
) -> tuple[str, ...]:
    """Return a sentence for each --fail-if option that is true for any item. Raises
    SettingError."""
    sentences = []
    for option, text, key, parse in (
        ("--fail-if-lag", options.fail_if_lag, "lag", ops.Condition.parse),
        (
            "--fail-if-time-lag",
            options.fail_if_time_lag,
            "time_lag_ms",
            ops.Condition.parse_duration,
        ),
    ):
        if text is None:
            continue
        try:
            condition = parse(text)
        except ValueError as error:
            raise SettingError(f"{option}: {error}") from None
        values = ((each, each[key]) for each in items)
        holding = [
            each
            for each, value in values
            if isinstance(value, int) and condition.holds(value)
        ]
        sentences += _note_condition(f"{option} '{text}'", holding)
    if options.fail_if_uncommitted:
        uncommitted = [
            each
            for each in items
            if each.get("uncommitted")
            or each.get("lag_status") == ops.LagStatus.NO_COMMIT.value
        ]
        sentences += _note_condition("--fail-if-uncommitted", uncommitted)
    return tuple(sentences)


def _note_condition(condition: str, items: Iterable[out.Item]) -> list[str]:
    ids = dict.fromkeys(str(each["group_id"]) for each in items)
    return [f"{condition} is true for {out.first_names([*ids])}"] if ids else []


def filter_rows(
    items: Sequence[out.Item],
    options: argparse.Namespace,
    columns: Sequence[out.Column],
) -> tuple[out.Item, ...]:
    """Apply --only-lagging, --sort and --top. Raises SettingError."""
    rows = list(items)
    if options.only_lagging:
        rows = [
            each
            for each in rows
            if each["error"] or (isinstance(lag := each["lag"], int) and lag > 0)
        ]
    if options.sort:
        rows = _sort(rows, options.sort, columns)
    if options.top:
        rows = [
            each
            for index, each in enumerate(rows)
            if index < options.top or each["error"] is not None
        ]
    return tuple(rows)


def _sort(
    rows: Sequence[out.Item], wanted: str, columns: Sequence[out.Column]
) -> list[out.Item]:
    """Sort by a column, named by its title or key; unknown values last."""
    keys = {each.title.lower(): each.key for each in columns}
    keys |= {each.key: each.key for each in columns}
    if (key := keys.get(wanted.lower())) is None:
        known = ", ".join(each.key for each in columns)
        raise SettingError(f"--sort: unknown column {wanted!r}; columns are {known}")
    return out.sort_items(rows, key)


def _notes(report: ops.GroupLagReport) -> tuple[str, ...]:
    """Return warnings about groups and commits that affect the meaning of the rows."""
    if not report.groups:
        return (NO_GROUP,)
    described = [each.description for each in report.groups if each.description]
    statuses = [
        row.lag_status
        for group in report.groups
        for row in ops.each_partition(group.rows).values()
    ]
    sentences = {
        ops.LagStatus.BELOW_START: "warning: commits below the log start offset, so "
        "that records were deleted before they were read",
        ops.LagStatus.BEYOND_END: "warning: commits beyond the log end offset, as "
        "after a topic was deleted and created again",
    }
    return (
        *_note_groups(described, "no active members in", lambda each: not each.members),
        *_note_groups(
            described,
            "warning: owners may change, because of a rebalance in",
            lambda each: each.state.is_rebalancing,
        ),
        *_note_groups(
            described,
            "warning: topics are missing or wrongly partitioned for",
            lambda each: each.state is client.GroupState.NOT_READY,
        ),
        *(
            f"{sentence}: {statuses.count(status)} (--wide shows them)"
            for status, sentence in sentences.items()
            if status in statuses
        ),
    )


def _note_groups(
    groups: Iterable[client.GroupDescription],
    sentence: str,
    applies: Callable[[client.GroupDescription], bool],
) -> list[str]:
    names = [each.group_id for each in groups if applies(each)]
    return [f"{sentence} {out.first_names(names)}"] if names else []


PARTITION_COLUMNS: Final = (
    out.Column("group_id", "GROUP", role=out.Role.IDENTITY),
    out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
    out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
    out.Column("committed_offset", "CURRENT-OFFSET", drop=4),
    out.Column("start_offset", "START-OFFSET", is_wide=True),
    out.Column("log_start_offset", "LOG-START-OFFSET", is_wide=True),
    out.Column("log_end_offset", "LOG-END-OFFSET", drop=5),
    out.Column("lag", "LAG"),
    out.Column("lag_status", "STATUS", is_wide=True),
    out.Column("time_lag_ms", "TIME-LAG", is_wide=True, show=out.show_duration),
    out.Column("time_lag_method", "METHOD", is_wide=True),
    out.Column("time_lag_error_ms", "+/-", is_wide=True, show=out.show_duration),
    out.Column("margin", "MARGIN", is_wide=True),
    out.Column("expiry_clock", "EXPIRY", is_wide=True),
    out.Column("member_id", "CONSUMER-ID", role=out.Role.ID, drop=3),
    out.Column("member_epoch", "EPOCH", is_wide=True),
    out.Column("instance_id", "INSTANCE-ID", is_wide=True, role=out.Role.ID),
    out.Column("host", "HOST", role=out.Role.ID, drop=1),
    out.Column("client_id", "CLIENT-ID", role=out.Role.ID, drop=2),
    out.Column("rack_id", "RACK", is_wide=True, role=out.Role.ID),
)
"""The columns; those that are not wide are those of kafka-consumer-groups.sh, in its
order.
"""
_OF_OWNERS: Final = frozenset({"committed_offset", "member_id", "host", "client_id"})
"""The columns that share groups do not have: they have no committed offsets, and no
partition has one owner."""


def partition_columns(report: ops.GroupLagReport) -> tuple[out.Column, ...]:
    """Return the columns: with START-OFFSET when there are share groups, and, when
    there are no other groups, without those that share groups do not have."""
    types = {each.description.type for each in report.groups if each.description}
    if client.GroupType.SHARE not in types:
        return PARTITION_COLUMNS
    hidden = _OF_OWNERS if types == {client.GroupType.SHARE} else frozenset()
    return tuple(
        each._replace(is_wide=each.is_wide or each.key in hidden)
        if each.key != "start_offset"
        else each._replace(is_wide=False)
        for each in PARTITION_COLUMNS
    )


def partition_rows(report: ops.GroupLagReport) -> Rows:
    """Return a row for each partition, and for each member without partitions."""
    return partition_columns(report), tuple(
        _partition_item(row, group.description, members)
        for group in report.groups
        for members in [
            {each.member_id: each for each in group.description.members}
            if group.description
            else {}
        ]
        for row in group.rows
    )


def _partition_item(
    row: ops.PartitionLag,
    group: client.GroupDescription | None,
    members: dict[str, client.MemberDescription],
) -> out.Item:
    owner = members.get(row.member_id) if row.member_id is not None else None
    commit, method = row.committed, row.time_lag_method
    is_share = group is not None and group.type is client.GroupType.SHARE
    clock = (
        ops.expiry_clock(group, row.topic) if group and row.topic and commit else None
    )
    return {
        "group_id": row.group_id,
        **group_keys(group),
        "topic": row.topic,
        "partition": row.partition,
        "committed_offset": commit.offset if commit and not is_share else None,
        "start_offset": commit.offset if commit and is_share else None,
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
        "margin": (
            commit.offset - row.log_start
            if commit and row.log_start is not None
            else None
        ),
        "expiry_clock": clock.value if clock else None,
        "member_id": row.member_id,
        "member_epoch": owner.epoch if owner else None,
        "instance_id": row.instance_id,
        "client_id": row.client_id,
        "host": row.host,
        "rack_id": owner.rack_id if owner else None,
        "error": out.error_item(row.error),
    }


def group_keys(group: client.GroupDescription | None) -> dict[str, out.Json]:
    """Return the part of an item that describes its group."""
    return {
        "group_type": group.type.value if group else None,
        "state": group.state.value if group else None,
        "coordinator_id": group.coordinator.node_id if group else None,
    }


_KEYS: Final = {
    "topic": (out.Column("topic", "TOPIC", role=out.Role.IDENTITY),),
    "member": (
        out.Column("member_id", "CONSUMER-ID", role=out.Role.ID),
        out.Column("client_id", "CLIENT-ID", role=out.Role.ID, drop=2),
    ),
    "host": (out.Column("host", "HOST", role=out.Role.IDENTITY),),
    "group": (
        out.Column("state", "STATE", drop=6),
        out.Column("members", "#MEMBERS", drop=5),
        out.Column("topics", "#TOPICS", drop=1),
        out.Column("coordinator", "COORDINATOR", is_wide=True, role=out.Role.ID),
        out.Column("assignor", "ASSIGNOR", is_wide=True),
        out.Column("group_epoch", "EPOCH", is_wide=True),
        out.Column("target_assignment_epoch", "TARGET-EPOCH", is_wide=True),
        out.Column("generation_id", "GENERATION", is_wide=True),
        out.Column("leader_id", "LEADER", is_wide=True, role=out.Role.ID),
    ),
}
_SUMS: Final = (
    out.Column("partitions", "#PARTITIONS", drop=2),
    out.Column("lagging", "#LAGGING", is_wide=True),
    out.Column("uncommitted", "#UNCOMMITTED", is_wide=True),
    out.Column("unknown", "#UNKNOWN", is_wide=True),
    out.Column("lag", "LAG"),
    out.Column("lag_max", "MAX-LAG", drop=3),
    out.Column("time_lag_ms", "MAX-TIME-LAG", is_wide=True, show=out.show_duration),
)


def rollup_rows(report: ops.GroupLagReport, by: ops.RollupBy) -> Rows:
    """Return a row for each sum."""
    return rollup_columns(by), rollup_items(report, by)


def rollup_columns(by: ops.RollupBy) -> tuple[out.Column, ...]:
    """Return the columns of a table of sums."""
    return (
        out.Column("group_id", "GROUP", role=out.Role.IDENTITY),
        *_KEYS[by.value],
        *_SUMS,
    )


def rollup_items(report: ops.GroupLagReport, by: ops.RollupBy) -> tuple[out.Item, ...]:
    """Return an item for each sum."""
    groups = {each.group_id: each.description for each in report.groups}
    return tuple(
        _rollup_item(each, groups[each.group_id], by)
        for each in ops.roll_up(report.groups, by)
    )


def _rollup_item(
    sums: ops.Rollup, group: client.GroupDescription | None, by: ops.RollupBy
) -> out.Item:
    keys: dict[str, out.Json] = {by.value: sums.key}
    if by is ops.RollupBy.GROUP:
        keys = {
            "members": len(group.members) if group else None,
            "coordinator": str(group.coordinator) if group else None,
            "assignor": group.assignor or None if group else None,
            "group_epoch": group.group_epoch if group else None,
            "target_assignment_epoch": group.assignment_epoch if group else None,
            "generation_id": group.generation_id if group else None,
            "leader_id": group.leader_id if group else None,
            "topics": sums.topics,
        }
    elif by is ops.RollupBy.MEMBER:
        keys = {"member_id": sums.key, "client_id": sums.client_id}
    return {
        "group_id": sums.group_id,
        **group_keys(group),
        **keys,
        "partitions": sums.partitions,
        "lagging": sums.lagging,
        "uncommitted": sums.uncommitted,
        "unknown": sums.unknown,
        "lag": sums.lag,
        "lag_max": sums.lag_max,
        "time_lag_ms": sums.time_lag_ms,
        "error": out.error_item(sums.error),
    }


def _rate(value: out.Json) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else "-"


RATE_COLUMNS: Final = (
    out.Column("read_per_s", "READ/S", show=_rate, drop=7),
    out.Column("written_per_s", "WRITTEN/S", show=_rate, drop=4),
    out.Column("catch_up_ms", "CATCH-UP", show=out.show_duration, drop=8),
)
"""The further columns of `coterie groups watch`."""
