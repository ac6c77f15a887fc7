"""`coterie groups watch`: the lag of groups and its rate of change, measured
repeatedly."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from coterie.cli.command import CLUSTER_OPTIONS, Command, run_on_cluster
from coterie.cli.durations import duration_of
from coterie.cli.groups.lag import add_row_options, positive_count
from coterie.cli.groups.selection import add_selection_options, read_selection
from coterie.errors import CoterieError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cli.command import Run
    from coterie.cli.groups.lag_report import Rows
    from coterie.cli.output.outcome import Exit, Json, Outcome
    from coterie.operations.lag import GroupLag, GroupLagReport


def _declare_interval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=duration_of("seconds"),
        default=2.0,
        help="time between two measurements, in seconds or as 1m30s (default 2)",
    )
    parser.add_argument(
        "--count", metavar="N", type=positive_count, help="number of measurements"
    )


def run_watch(options: argparse.Namespace) -> int:
    """Check the output format, then watch. Raises SettingError."""
    if options.output not in {"table", "wide", "jsonl"}:
        raise SettingError(
            f"--output {options.output} needs an end, which watch does not have; use "
            "table, wide or jsonl"
        )
    return run_on_cluster(options, watch)


async def watch(run: Run) -> Exit:
    """Measure, show and wait in a loop; return the exit code of the last measurement.

    It ends after --count measurements, or when stdout is closed.
    """
    import asyncio
    from itertools import count

    from coterie.cli.output.outcome import failed_outcome

    watcher = _Watcher(run)
    with ExitStack() as stack:
        show = _make_show(run, stack)
        for number in count(1):
            try:
                outcome = await watcher.measure()
            except SettingError:
                raise
            # A broker may be available again at the next measurement.
            except CoterieError as error:
                outcome = failed_outcome(error)
            is_open = show(outcome)
            if number == run.options.count or not is_open:
                break
            await asyncio.sleep(run.options.interval)
    return outcome.exit_code


def _make_show(run: Run, stack: ExitStack) -> Callable[[Outcome], bool]:
    """Return a function that shows an outcome, and returns False when stdout is closed.

    On a terminal one table is redrawn; elsewhere each outcome is appended.
    """
    from coterie.cli.output import emit
    from coterie.cli.output.outcome import printable

    options, io = run.options, run.io
    if options.output == "jsonl" or not io.stdout.isatty():

        def append(outcome: Outcome) -> bool:
            is_open = emit.write(io.stdout, emit.render(outcome, options, io))
            lines = emit.stderr_lines(outcome)
            emit.write(io.stderr, [f"{printable(line)}\n" for line in lines])
            return is_open

        return append
    from coterie.cli.output.terminal import LiveTable

    table = stack.enter_context(LiveTable(io.stdout))

    def redraw(outcome: Outcome) -> bool:
        columns = emit.visible_columns(outcome, options)
        table.show(columns, outcome.items, emit.stderr_lines(outcome))
        return True

    return redraw


class _Watcher:
    """The last measurement of each group, from which the next rates are computed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._before: dict[str, GroupLag] = {}
        self._measured_ms = 0

    async def measure(self) -> Outcome:
        """Fetch the lag and return a row for each group, with its rates."""
        from coterie.cli.groups.lag_report import (
            RATE_COLUMNS,
            lag_outcome,
            rollup_columns,
            rollup_items,
        )
        from coterie.operations.lag_rollup import (
            ConsumptionRate,
            RollupBy,
            consumption_rate,
        )
        from coterie.operations.plan_files import utc_text

        now_ms = self._run.io.now_ms()

        def rows_with_rates(report: GroupLagReport) -> Rows:
            elapsed_ms = now_ms - self._measured_ms
            rates: dict[Json, ConsumptionRate] = {}
            for group in report.groups:
                before = self._before.get(group.group_id)
                rates[group.group_id] = (
                    consumption_rate(before, group, elapsed_ms)
                    if before
                    else ConsumptionRate()
                )
            self._before = {each.group_id: each for each in report.groups}
            self._measured_ms = now_ms
            items = tuple(
                {
                    **each,
                    "read_per_s": rates[each["group_id"]].read_per_s,
                    "written_per_s": rates[each["group_id"]].written_per_s,
                    "catch_up_ms": rates[each["group_id"]].catch_up_ms,
                    "observed_at": utc_text(now_ms),
                }
                for each in rollup_items(report, RollupBy.GROUP)
            )
            return (*rollup_columns(RollupBy.GROUP), *RATE_COLUMNS), items

        selection = read_selection(self._run.options)
        return await lag_outcome(
            self._run, selection, "coterie.groups.watch", rows_with_rates
        )


WATCH: Final = Command(
    description="""\
Watch the lag of groups: a table that is redrawn every few seconds, until Ctrl-C.

READ/S and WRITTEN/S are offsets per second since the last measurement. CATCH-UP is the
time until the lag is 0 at these rates, and "-" when it never is. In a pipe one table
follows another; --output jsonl writes a line for each group and measurement, with
observed_at.

A measurement that fails is reported, and the next one is tried. Ctrl-C ends the command
with 130; --count, or a closed stdout, with the exit code of the last measurement.
""",
    examples="""\
examples:
  coterie groups watch
      every group of the cluster, every two seconds
  coterie groups watch --glob 'orders-*' --sort lag --top 20
      the 20 groups with the greatest lag
  coterie groups watch orders --interval 30 --output jsonl >> lag.jsonl
      a record in a file
  coterie groups watch orders --count 2 --interval 10
      the rate over ten seconds

exit codes: of the last measurement: 0 success, 1 something could not be read, 2 usage
error, 3 a --fail-if condition is true; 130 after Ctrl-C
""",
    options=(
        add_selection_options,
        _declare_interval,
        add_row_options,
        *CLUSTER_OPTIONS,
    ),
    run=run_watch,
)
