"""From options about lag to the outcome that is printed, for every verb about lag."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coterie.cli.groups.lag_view import (
    PARTITION_COLUMNS,
    partition_items,
    rollup_columns,
    rollup_items,
    with_error,
)
from coterie.cli.groups.looking import Looked, look_at, remarks
from coterie.cli.groups.shaping import (
    fail_condition,
    is_true_of_any,
    is_wide,
    shape,
)
from coterie.cli.output.values import Column, Json, Outcome, show_duration
from coterie.operations.retention import offsets_retention_ms
from coterie.operations.rollup import By

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coterie.cli.output.values import Failure, Item
    from coterie.cli.running import Run
    from coterie.operations.lag import GroupLagReport


async def lag_outcome(run: Run, schema: str) -> Outcome:
    """What `options.by` asks for: partitions, or something that they add up to."""
    looked = await look_at(run)
    if run.options.by == "partition":
        items = partition_items(looked.report)
        outcome = outcome_of(run, schema, looked, PARTITION_COLUMNS, items)
        return await _with_retention(run, outcome) if is_wide(run.options) else outcome
    by = By(run.options.by)
    items = rollup_items(looked.report, by)
    return outcome_of(run, schema, looked, rollup_columns(by), items)


async def _with_retention(run: Run, outcome: Outcome) -> Outcome:
    """With how long the clocks under EXPIRY run."""
    retention_ms = await offsets_retention_ms(run.admin)
    note = f"offsets expire {show_duration(retention_ms)} after what EXPIRY says"
    return replace(
        outcome,
        summary={**outcome.summary, "offsets_retention_ms": retention_ms},
        notes=(*outcome.notes, note) if retention_ms else outcome.notes,
    )


def _rate(value: Json) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else "-"


_PACE: Final = (
    Column("read_per_s", "READ/S", show=_rate),
    Column("written_per_s", "WRITTEN/S", show=_rate),
    Column("catch_up_ms", "CATCH-UP", show=show_duration),
)


async def sums_outcome(
    run: Run, schema: str, more: Callable[[GroupLagReport], Mapping[str, Item]]
) -> Outcome:
    """One row a group, with more keys by group: its pace."""
    looked = await look_at(run)
    added = more(looked.report)
    items = tuple(
        {**each, **added[str(each["group_id"])]}
        for each in rollup_items(looked.report, By.GROUP)
    )
    columns = (*rollup_columns(By.GROUP), *_PACE)
    return outcome_of(run, schema, looked, columns, items)


def outcome_of(
    run: Run,
    schema: str,
    looked: Looked,
    columns: tuple[Column, ...],
    items: tuple[Item, ...],
) -> Outcome:
    """The rows in their shape, and everything that stands beside them."""
    condition = fail_condition(run.options)
    totals = [each.total for each in looked.report.groups if each.total is not None]
    return Outcome(
        schema=schema,
        columns=with_error(columns, items),
        items=shape(items, run.options, columns),
        failures=_untold(looked.failures, items),
        summary={
            "groups": len(looked.report.groups),
            "lag": sum(totals) if totals else None,
        },
        notes=remarks(looked.report),
        is_condition_true=is_true_of_any(condition, items),
    )


def _untold(
    failures: tuple[Failure, ...], items: tuple[Item, ...]
) -> tuple[Failure, ...]:
    """Without those of groups that have a row with an error."""
    told = {each["group_id"] for each in items if each["error"]}
    return tuple(
        each for each in failures if each.kind != "group" or each.id not in told
    )
