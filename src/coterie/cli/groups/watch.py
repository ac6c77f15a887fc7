"""`coterie groups watch`: the lag of groups and its rate of change, measured
repeatedly."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from coterie.cli.command import CLUSTER_OPTIONS, Command, run_on_cluster
from coterie.cli.durations import duration_of
from coterie.cli.groups.lag import add_row_options, positive_count
from coterie.cli.groups.selection import add_selection_options, read_selection
from coterie.errors import CoterieError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from coterie.cli.command import Run
    from coterie.cli.groups.lag_report import Rows
    from coterie.cli.output.outcome import Exit, Json, Outcome
    from coterie.operations.lag import GroupLag, GroupLagReport

_SIGNALS: Final = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGWINCH")
"""Signals that end or suspend a program, and that of a resize. Ctrl-C is not among
them: asyncio cancels the main task for it."""


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
    from io import StringIO

    from coterie.cli.output.emit import ProgressBar
    from coterie.cli.output.terminal import has_escapes

    is_screen = run.io.stdout.isatty() and has_escapes()
    if run.options.output == "jsonl" or not is_screen:
        return await _append(run)
    # A progress bar would overwrite rows.
    return await _OnScreen(run._replace(progress=ProgressBar(StringIO()))).watch()


async def _append(run: Run) -> Exit:
    """Print one measurement after another."""
    import asyncio
    from itertools import count

    from coterie.cli.output import emit
    from coterie.cli.output.outcome import printable

    watcher = _Watcher(run)
    for number in count(1):
        outcome = await watcher.measure()
        run.progress.clear()
        is_open = emit.write(run.io.stdout, emit.render(outcome, run.options, run.io))
        lines = emit.stderr_lines(outcome)
        emit.write(run.io.stderr, [f"{printable(line)}\n" for line in lines])
        if number == run.options.count or not is_open:
            break
        await asyncio.sleep(run.options.interval)
    return outcome.exit_code


class _OnScreen:
    """The loop of `watch` at a terminal: measurements, keys, resizes and signals."""

    def __init__(self, run: Run) -> None:
        import asyncio

        from coterie.cli.groups.watch_view import ShownRows, WatchState
        from coterie.cli.output.screen import Screen

        self._run = run
        self._watcher = _Watcher(run)
        self._screen = Screen(run.io.stdout)
        self._state = WatchState(run.options.interval)
        self._drawn: tuple[WatchState, int, ShownRows] | None = None
        """The last rows, with what they were laid out for."""
        self._wake = asyncio.Event()
        self._keys: list[str] = []
        self._signals: list[int] = []
        self._is_due = True
        self._measured = 0
        """The number of measurements that have ended."""
        self._last: Outcome | None = None
        """The last measurement."""

    async def watch(self) -> Exit:
        """Watch until a key, a signal or --count ends it, then print the last table."""
        import os
        import signal

        from coterie.cli.output import emit
        from coterie.cli.output.outcome import Exit
        from coterie.portable_os import handle_signals

        numbers = [signal.Signals[name] for name in _SIGNALS]
        with self._screen, handle_signals(numbers, self._on_signal):
            await self._run_loop()
        if self._signals:
            # End as the signal would have ended the program.
            signum = self._signals[-1]
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        if self._last is None:
            return Exit.OK
        return Exit(emit.emit(self._last, self._run.options, self._run.io))

    async def _run_loop(self) -> None:
        import asyncio

        from coterie.cli.output.screen import keys_of

        tasks: set[asyncio.Task[None]] = set()
        try:
            with keys_of(self._screen, self._on_keys):
                while True:
                    if self._is_due and not any(not each.done() for each in tasks):
                        tasks = {asyncio.ensure_future(self._measure())}
                    is_open = self._draw()
                    if not is_open or self._has_ended():
                        return
                    # The clock of the screen has seconds.
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), 1.0)
                    self._wake.clear()
                    for each in tasks:
                        if each.done():
                            each.result()  # Raises what is not a failed measurement.
                    if not self._apply_keys():
                        return
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _measure(self) -> None:
        import asyncio
        from dataclasses import replace

        from coterie.cli.groups.watch_view import with_outcome
        from coterie.cli.output import emit

        self._is_due = False
        self._state = replace(self._state, pending_since=self._now())
        try:
            outcome = await self._watcher.measure()
            columns = emit.visible_columns(outcome, self._run.options)
        except BaseException:
            self._wake.set()
            raise
        self._last = outcome
        self._measured += 1
        self._state = with_outcome(self._state, outcome, columns, self._now())
        self._wake.set()
        loop = asyncio.get_running_loop()
        loop.call_later(self._run.options.interval, self._become_due)

    def _become_due(self) -> None:
        if not self._state.is_paused:
            self._is_due = True
            self._wake.set()

    def _has_ended(self) -> bool:
        count = self._run.options.count
        return bool(self._signals) or (count is not None and self._measured >= count)

    def _now(self) -> datetime:
        return self._run.io.clock().astimezone()

    def _draw(self) -> bool:
        from dataclasses import replace

        from coterie.cli.groups import watch_view

        width, height = self._screen.size
        state = replace(self._state, has_keys=self._screen.has_keys)
        rows = None
        if self._drawn is not None:
            before, width_before, rows_before = self._drawn
            if width == width_before and watch_view.has_same_rows(before, state):
                rows = rows_before
        if rows is None:
            encoding = self._run.io.stdout.encoding
            rows = watch_view.shown_rows(state, width, encoding)
        self._state, self._drawn = state, (state, width, rows)
        self._frame = watch_view.frame_of(state, rows, self._now(), width, height)
        return self._screen.draw(self._frame.lines)

    def _on_keys(self, keys: Iterable[str]) -> None:
        self._keys += keys
        self._wake.set()

    def _apply_keys(self) -> bool:
        """Apply the keys that were pressed; return False when one ends the program."""
        from coterie.cli.groups.watch_view import Action, with_key

        keys, self._keys = self._keys, []
        for key in keys:
            self._state, action = with_key(self._state, key, self._frame)
            if action is Action.QUIT:
                return False
            if action is Action.MEASURE:
                self._is_due = True
        return True

    def _on_signal(self, signum: int) -> None:
        import os
        import signal

        if sys.platform != "win32" and signum == signal.SIGTSTP:
            self._screen.leave()
            os.kill(os.getpid(), signal.SIGSTOP)
            # Here the program was continued.
            self._screen.enter()
        elif signum != signal.Signals["SIGWINCH"]:
            self._signals.append(signum)
        self._wake.set()


class _Watcher:
    """The last measurement of each group, from which the next rates are computed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._before: dict[str, GroupLag] = {}
        self._measured_ms = 0

    async def measure(self) -> Outcome:
        """Return a row for each group, with its rates, or a failed outcome.

        Raises SettingError. After other errors, the next measurement may succeed.
        """
        from coterie.cli.output.outcome import failed_outcome

        try:
            return await self._measure()
        except SettingError:
            raise
        except CoterieError as error:
            return failed_outcome(error)

    async def _measure(self) -> Outcome:
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
Watch the lag of groups: a table that is redrawn every few seconds, until q or Ctrl-C.

READ/S and WRITTEN/S are offsets per second since the last measurement. CATCH-UP is the
time until the lag is 0 at these rates, and "-" when it never is.

Keys: q quits, space pauses, r measures now, arrows and pages scroll, s sorts by the
next column and S reverses, / filters, ? lists the keys. After a failed measurement, or
when no broker responds, the screen says since when its figures are stale, and why; the
next measurement is tried. At the end the last table is printed below the prompt.

In a pipe, and on Windows, one table follows another; --output jsonl writes a line for
each group and measurement, with observed_at. Ctrl-C ends the command with 130; q,
--count and a closed stdout with the exit code of the last measurement.
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
