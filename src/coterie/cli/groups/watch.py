"""`coterie groups watch`: the lag of groups and its rate of change, measured
repeatedly."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from io import StringIO
from itertools import count
from typing import Final, TypeVar

from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, run_on_cluster
from coterie.cli.durations import duration_of, whole_number
from coterie.cli.groups import lag_report
from coterie.cli.groups.lag import add_row_options
from coterie.cli.groups.selection import add_selection_options, read_selection
from coterie.cli.output import emit, terminal
from coterie.cli.output import outcome as out
from coterie.cli.output.emit import ProgressBar
from coterie.cli.output.terminal import RED, folded, has_escapes
from coterie.display import cells, printable
from coterie.errors import CoterieError, SettingError

T = TypeVar("T")

_FIRST_CELL: Final = "\x1b[H"
_ERASE_LINE: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"
_REDRAW_S: Final = 1.0
_PENDING_LEAST_S: Final = 5.0
_NOTES_MAX: Final = 3


def _declare_interval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=duration_of("seconds"),
        default=2.0,
        help="time between two measurements, in seconds or as 1m30s (default 2)",
    )
    parser.add_argument(
        "--count",
        metavar="N",
        type=whole_number("a count"),
        help="number of measurements",
    )


def run_watch(options: argparse.Namespace) -> int:
    """Check the output format, then watch. Raises SettingError."""
    if options.output not in {"table", "wide", "jsonl"}:
        raise SettingError(
            f"--output {options.output} needs an end, which watch does not have; use "
            "table, wide or jsonl"
        )
    return run_on_cluster(options, watch)


async def watch(run: Run) -> out.Exit:
    """Measure, show and wait in a loop; return the exit code of the last measurement.

    It ends after --count measurements, or when stdout is closed.
    """
    is_screen = run.io.stdout.isatty() and has_escapes()
    if run.options.output == "jsonl" or not is_screen:
        return await _append(run)
    # A progress bar would overwrite rows.
    return await _Redrawn(run._replace(progress=ProgressBar(StringIO()))).watch()


async def _append(run: Run) -> out.Exit:
    """Print one measurement after another."""
    import asyncio

    watcher = _Watcher(run)
    for number in count(1):
        outcome = await watcher.measure()
        run.progress.clear()
        is_open = emit.write(run.io.stdout, emit.render(outcome, run.options, run.io))
        emit.write_notes(run.io, outcome)
        if number == run.options.count or not is_open:
            break
        await asyncio.sleep(run.options.interval)
    return outcome.exit_code


class _Redrawn:
    """One table at a terminal, redrawn after each measurement and every second, so that
    it follows the size of the terminal and shows how old its figures are."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._watcher = _Watcher(run)
        self._shown: out.Outcome | None = None
        """The last measurement that did not fail."""
        self._columns: Sequence[out.Column] = ()
        self._measured_at: datetime | None = None
        self._failure = ""
        """The reason why the last measurement failed."""
        self._pending_since: datetime | None = None
        """The time when the measurement began that has not ended."""

    async def watch(self) -> out.Exit:
        """Watch until --count or a closed stdout ends it, then print the last table in
        full."""
        import asyncio

        last: out.Outcome | None = None
        for number in count(1):
            self._pending_since = self._now()
            outcome = await self._draw_until_done(self._watcher.measure())
            if outcome is None:
                break
            last = outcome
            self._keep(outcome)
            if number == self._run.options.count:
                break
            pause = asyncio.sleep(self._run.options.interval, True)
            if not await self._draw_until_done(pause):
                break
        if last is None:
            return out.Exit.OK
        emit.write(self._run.io.stdout, [_FIRST_CELL + _ERASE_BELOW])
        return out.Exit(emit.emit(last, self._run.options, self._run.io))

    async def _draw_until_done(self, waiting: Coroutine[None, None, T]) -> T | None:
        """Return what it returns, or None when stdout is closed."""
        import asyncio

        task = asyncio.ensure_future(waiting)
        try:
            while emit.write(self._run.io.stdout, [_on_screen(self._frame())]):
                await asyncio.wait({task}, timeout=_REDRAW_S)
                if task.done():
                    return task.result()
            return None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _keep(self, outcome: out.Outcome) -> None:
        """Keep a measurement; a failed one leaves the rows of the one before."""
        columns = emit.visible_columns(outcome, self._run.options)
        self._pending_since = None
        self._failure = ""
        if outcome.columns:
            self._shown, self._columns = outcome, columns
            self._measured_at = self._now()
        else:
            self._failure = "; ".join(map(str, outcome.failures))

    def _now(self) -> datetime:
        return self._run.io.clock().astimezone()

    def _frame(self) -> list[str]:
        """Return the lines of the screen, one less than the terminal has: the cursor is
        below them."""
        width, height = shutil.get_terminal_size()
        items = () if self._shown is None else self._shown.items
        groups = "1 group" if len(items) == 1 else f"{len(items)} groups"
        every = f"every {self._run.options.interval:g} s"
        lines = [
            *_cut(f"{self._now():%H:%M:%S}  {groups}, {every}", width)[:1],
            terminal.styled(*self._status(width)),
        ]
        if self._shown is None:
            return lines[: height - 1]
        # Rows below the screen do not count for the widths of its columns.
        encoding = self._run.io.stdout.encoding
        table = terminal.lay_out(self._columns, items[:height], width, encoding)
        header = [
            terminal.styled(_cut(line, width)[0], terminal.BOLD)
            for line in table.header
        ]
        notes = terminal.left_out_note(table.left_out, width)[:1]
        for note in emit.stderr_lines(self._shown):
            notes += terminal.wrapped(printable(note), width)
        space = height - 1 - len(lines) - len(header)
        notes = notes[: min(_NOTES_MAX, max(0, space - _NOTES_MAX))]
        space -= len(notes)
        body, whole = list[str](), 0
        for item, row in zip(items, table.rows, strict=False):
            style = terminal.row_style(item)
            parts = [part for line in row for part in _cut(line, width)]
            if len(body) + len(parts) > space:
                break
            body += [terminal.styled(part, style) for part in parts]
            whole += 1
        if whole < len(items):
            more = f"{len(items) - whole} more: use --top or `coterie ui`"
            body = [*body[: max(0, space - 1)], *_cut(more, width)[:1]]
        return [*lines, *header, *body, *notes][: height - 1]

    def _status(self, width: int) -> tuple[str, str]:
        """Return the age of the figures, or since when they are stale and why, and its
        style."""
        reason = self._failure
        pending = self._now() - (self._pending_since or self._now())
        limit_s = max(_PENDING_LEAST_S, 2 * self._run.options.interval)
        if pending > timedelta(seconds=limit_s):
            reason = f"no response for {pending // timedelta(seconds=1)} s"
        measured_at = self._measured_at
        if reason:
            since = (
                f"stale since {measured_at:%H:%M:%S}"
                if measured_at
                else "no measurement yet"
            )
            return _cut(printable(f"{since} ({reason})"), width)[0], RED
        measured = (
            f"measured at {measured_at:%H:%M:%S}" if measured_at else "measuring ..."
        )
        return _cut(measured, width)[0], ""


def _on_screen(lines: Iterable[str]) -> str:
    text = "".join(f"{line}{_ERASE_LINE}\n" for line in lines)
    return f"{_FIRST_CELL}{text}{_ERASE_BELOW}"


def _cut(line: str, width: int) -> list[str]:
    """Return the parts of a line that is longer than the screen is wide."""
    return [line] if cells(line) <= width else list(folded(line, width))


class _Watcher:
    """The last measurement of each group, from which the next rates are computed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._before: dict[str, ops.GroupLag] = {}
        self._measured_ms = 0

    async def measure(self) -> out.Outcome:
        """Return a row for each group, with its rates, or a failed outcome.

        Raises SettingError. After other errors, the next measurement may succeed.
        """
        try:
            return await self._measure()
        except SettingError:
            raise
        except CoterieError as error:
            return out.failed_outcome(error)

    async def _measure(self) -> out.Outcome:
        now_ms = self._run.io.now_ms()

        def rows_with_rates(report: ops.GroupLagReport) -> lag_report.Rows:
            elapsed_ms = now_ms - self._measured_ms
            rates: dict[out.Json, ops.ConsumptionRate] = {}
            for group in report.groups:
                before = self._before.get(group.group_id)
                rates[group.group_id] = (
                    ops.consumption_rate(before, group, elapsed_ms)
                    if before
                    else ops.ConsumptionRate()
                )
            self._before = {each.group_id: each for each in report.groups}
            self._measured_ms = now_ms
            items = tuple(
                {
                    **each,
                    "read_per_s": rates[each["group_id"]].read_per_s,
                    "written_per_s": rates[each["group_id"]].written_per_s,
                    "catch_up_ms": rates[each["group_id"]].catch_up_ms,
                    "observed_at": ops.utc_text(now_ms),
                }
                for each in lag_report.rollup_items(report, ops.RollupBy.GROUP)
            )
            return (
                *lag_report.rollup_columns(ops.RollupBy.GROUP),
                *lag_report.RATE_COLUMNS,
            ), items

        selection = read_selection(self._run.options)
        return await lag_report.lag_outcome(
            self._run, selection, "coterie.groups.watch", rows_with_rates
        )


WATCH: Final = Command(
    description="""\
Watch the lag of groups: a table that is redrawn every few seconds, until Ctrl-C.

READ/S and WRITTEN/S are offsets per second since the last measurement. CATCH-UP is the
time until the lag is 0 at these rates, and "-" when it never is.

The table has the rows that fit the terminal: --sort and --top choose them, and `coterie
ui` shows all of them live in a browser. After a failed measurement, or when no broker
responds, a line says since when the figures are stale, and why; the next measurement is
tried.

In a pipe, and on Windows, one table follows another; --output jsonl writes a line for
each group and measurement, with observed_at. Ctrl-C ends the command with 130; --count
and a closed stdout with the exit code of the last measurement.
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
