"""Watch groups: a table that is drawn anew every few seconds, until Ctrl-C.

READ/S and WRITTEN/S are offsets a second since the last look; CATCH-UP is how long it
takes at this pace until nothing is left to read, and "-" when it never does. In a pipe
one table follows another; --output jsonl writes a line for each group and look, with
observed_at.

A look that fails is told of, and the next one is tried. Ctrl-C ends it with 130;
--count, or a reader that went away, with the exit code of the last look.
"""

from __future__ import annotations

import argparse
import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.selecting import add_selection_options
from coterie.cli.groups.shaping import add_shape_options, whole_count
from coterie.cli.output.options import add_output_options
from coterie.errors import CoterieError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie.cli.output.values import Exit, Item, Outcome
    from coterie.cli.running import Run
    from coterie.operations.lag import GroupLag, GroupLagReport
    from coterie.operations.pace import Pace

EXAMPLES: Final = """\
examples:
  coterie groups watch
      every group of the cluster, every two seconds
  coterie groups watch --glob 'orders-*' --sort lag --top 20
      the worst of some
  coterie groups watch orders --interval 30 --output jsonl >> lag.jsonl
      keep a record
  coterie groups watch orders --count 2 --interval 10
      how fast it reads, measured over ten seconds

exit codes: those of the last look: 0 all was read, 1 some of it was not, 2 asked for
wrongly, 3 --fail-if-lag is true; 130 after Ctrl-C
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_selection_options(parser)
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=_seconds,
        default=2.0,
        help="how long to wait between two looks (default 2)",
    )
    parser.add_argument(
        "--count", metavar="N", type=whole_count, help="end after so many looks"
    )
    add_shape_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def run(options: argparse.Namespace) -> int:
    """Watch them."""
    from coterie.cli.running import run_command

    if options.output not in {"table", "wide", "jsonl"}:
        raise SettingError(
            f"--output {options.output} ends with its document, and this does not end; "
            "say table, wide or jsonl"
        )
    return run_command(options, watch)


async def watch(run: Run) -> Exit:
    """Look, show and wait, over and over; the exit code of the last look."""
    import asyncio
    from itertools import count

    from coterie.cli.running import failed_run

    watcher = _Watcher(run)
    with ExitStack() as stack:
        show = _shower(run, stack)
        for number in count(1):
            try:
                outcome = await watcher.look()
            except SettingError:
                raise
            except CoterieError as error:
                outcome = failed_run(error)
            is_read = show(outcome)
            if number == run.options.count or not is_read:
                break
            await asyncio.sleep(run.options.interval)
    return outcome.exit_code


def _shower(run: Run, stack: ExitStack) -> Callable[[Outcome], bool]:
    """What shows an outcome, over the last one at a terminal, else below it, and says
    whether somebody still reads."""
    from coterie.cli.output import emit

    options, where = run.options, run.where
    if options.output == "jsonl" or not where.stdout.isatty():
        return lambda outcome: emit.show(outcome, options, where)
    from coterie.cli.output.terminal import LiveTable

    table = stack.enter_context(LiveTable(where.stdout))

    def redraw(outcome: Outcome) -> bool:
        columns = emit.columns_of(outcome, options)
        table.show(columns, outcome.items, emit.asides(outcome))
        return True

    return redraw


class _Watcher:
    """Remembers the last look, so that the next one can tell a pace."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._before: dict[str, GroupLag] = {}
        self._looked_ms = 0

    async def look(self) -> Outcome:
        from coterie.cli.groups.lag_outcome import sums_outcome

        now_ms = self._run.where.now_ms()
        return await sums_outcome(
            self._run, "coterie.groups.watch", lambda report: self._more(report, now_ms)
        )

    def _more(self, report: GroupLagReport, now_ms: int) -> dict[str, Item]:
        """What items say besides, by group."""
        from datetime import UTC, datetime

        observed = datetime.fromtimestamp(now_ms / 1000, UTC)
        at = observed.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        paces = dict(self._paces(report.groups, now_ms - self._looked_ms))
        self._before = {each.group_id: each for each in report.groups}
        self._looked_ms = now_ms
        return {
            key: {
                "read_per_s": each.read_per_s,
                "written_per_s": each.written_per_s,
                "catch_up_ms": each.catch_up_ms,
                "observed_at": at,
            }
            for key, each in paces.items()
        }

    def _paces(
        self, groups: Iterable[GroupLag], elapsed_ms: int
    ) -> Iterable[tuple[str, Pace]]:
        from coterie.operations.pace import Pace, pace

        for each in groups:
            before = self._before.get(each.group_id)
            yield each.group_id, pace(before, each, elapsed_ms) if before else Pace()
