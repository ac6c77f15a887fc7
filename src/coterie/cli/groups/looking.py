"""What the verbs that look at lag have in common: from options to a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coterie.cli.groups.selecting import (
    NO_GROUP,
    first_names,
    read_selection,
    selection_failures,
)
from coterie.cli.groups.shaping import wants_time
from coterie.cli.output.values import Failure
from coterie.operations.lag import (
    GroupLag,
    GroupLagReport,
    LagStatus,
    group_lag,
    with_time_lags,
)
from coterie.operations.select import select_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from coterie.cli.running import Run
    from coterie.client.admin.group_values import GroupDescription
    from coterie.operations.select import Selection
    from coterie.types import TopicName


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found of the groups that are meant."""

    report: GroupLagReport
    failures: tuple[Failure, ...]
    """Of nodes, and of groups whose rows do not tell."""


async def look_at(run: Run, selection: Selection | None = None) -> Looked:
    """Read the lag of the groups that the options mean, about their topics."""
    selection = selection or read_selection(run.options)
    selected = await select_groups(run.admin, selection, progress=run.progress)
    topics, report = selection.topics or None, selected.report
    if report is None or run.options.read_committed:
        report = await group_lag(
            run.admin,
            selected.ids,
            topics=topics,
            committed_only=run.options.read_committed,
            progress=run.progress,
        )
    report = _of_topics(report, topics)
    if wants_time(run.options):
        report = await with_time_lags(run.admin, report, now_ms=run.where.now_ms())
    untold = (
        Failure.of("group", each.group_id, each.error)
        for each in report.groups
        if each.error and not any(row.error is each.error for row in each.rows)
    )
    return Looked(report, (*selection_failures(selected), *untold))


def _of_topics(
    report: GroupLagReport, topics: Collection[TopicName] | None
) -> GroupLagReport:
    """Without the rows of other topics, and of members that own nothing."""
    if topics is None:
        return report
    return GroupLagReport(
        tuple(
            replace(each, rows=tuple(row for row in each.rows if row.topic in topics))
            for each in report.groups
        )
    )


def remarks(report: GroupLagReport) -> tuple[str, ...]:
    """What people should know about groups before they believe a table."""
    if not report.groups:
        return (NO_GROUP,)
    described = [each.description for each in report.groups if each.description]
    found = (
        *_states(described, "no active members in", lambda each: not each.members),
        *_states(
            described,
            "warning: owners are about to change, for a rebalance is under way in",
            lambda each: each.state.is_rebalancing,
        ),
        *_commits(report.groups),
    )
    return tuple(found)


def _states(
    groups: Iterable[GroupDescription],
    sentence: str,
    holds: Callable[[GroupDescription], bool],
) -> list[str]:
    names = [each.group_id for each in groups if holds(each)]
    return [f"{sentence} {first_names(names)}"] if names else []


def _commits(groups: Iterable[GroupLag]) -> list[str]:
    statuses = [row.lag_status for group in groups for row in group.rows]
    sentences = {
        LagStatus.BELOW_START: "warning: commits below the start of their log, so that "
        "records were deleted unread",
        LagStatus.BEYOND_END: "warning: commits beyond the end of their log, as when a "
        "topic was made anew",
    }
    return [
        f"{sentence}: {statuses.count(status)} (--wide shows which)"
        for status, sentence in sentences.items()
        if status in statuses
    ]
