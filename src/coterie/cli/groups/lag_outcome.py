"""From options about lag to the outcome that is printed, for `describe` and `lag`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.cli.groups.lag_view import (
    PARTITION_COLUMNS,
    partition_items,
    rollup_columns,
    rollup_items,
    with_error,
)
from coterie.cli.groups.looking import look_at, remarks
from coterie.cli.groups.shaping import fail_condition, is_true_of_any, shape
from coterie.cli.output.values import Outcome
from coterie.operations.rollup import By

if TYPE_CHECKING:
    from coterie.cli.output.values import Column, Item
    from coterie.cli.running import Run
    from coterie.operations.lag import GroupLagReport


async def lag_outcome(run: Run, schema: str) -> Outcome:
    """What `options.by` asks for: partitions, or something that they add up to."""
    condition = fail_condition(run.options)
    looked = await look_at(run)
    report, failures = looked.report, looked.failures
    columns, items = _rows(report, run.options.by)
    if run.options.by == By.GROUP.value:  # whose rows tell what failed
        told = {each.group_id for each in report.groups}
        failures = tuple(
            each for each in failures if each.kind != "group" or each.id not in told
        )
    totals = [each.total for each in report.groups if each.total is not None]
    return Outcome(
        schema=schema,
        columns=with_error(columns, items),
        items=shape(items, run.options, columns),
        failures=failures,
        summary={
            "groups": len(report.groups),
            "lag": sum(totals) if totals else None,
        },
        notes=remarks(report),
        is_condition_true=is_true_of_any(condition, items),
    )


def _rows(
    report: GroupLagReport, by: str
) -> tuple[tuple[Column, ...], tuple[Item, ...]]:
    if by == "partition":
        return PARTITION_COLUMNS, partition_items(report)
    return rollup_columns(By(by)), rollup_items(report, By(by))
