"""A command of `coterie` as data, and how a command runs against a cluster.

A module declares each of its commands as a `Command`, and `registry` names it:

    LIST = Command(
        description="List the groups of a cluster.",
        examples="...",
        options=(add_selection_options, *CLUSTER_OPTIONS),
        run=on_cluster(list_groups),
    )

    async def list_groups(run: Run) -> Outcome: ...

Rules: this module and every module that declares commands import nothing heavy at the
top, because `--help` and shell completion import them. They write `client.NAME` and
`operations.NAME`: these packages import a name on first use. An error of the whole
run, such as an unreachable cluster, is printed in the requested output format too, so
that a script never has to parse a sentence.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from coterie import client
from coterie.cli import connect, next_steps
from coterie.cli.connect import add_connection_options
from coterie.cli.output.emit import CommandIO, ProgressBar, emit
from coterie.cli.output.outcome import Exit, Outcome, failed_outcome
from coterie.errors import CoterieError, SettingError

OUTPUT_FORMATS: Final = ("table", "wide", "json", "jsonl", "yaml", "csv", "md")


class Command(NamedTuple):
    """The help, the options and the function of one command."""

    description: str
    """The text above the options in `--help`."""
    examples: str
    """The text below the options: examples and exit codes."""
    options: Sequence[Callable[[argparse.ArgumentParser], object]]
    """Functions that declare options, in the order of `--help`."""
    run: Callable[[argparse.Namespace], int]
    """The function that runs the command with its parsed options and returns the exit
    code.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's help texts and options to its parser."""
        parser.description = self.description
        parser.epilog = self.examples
        for declare in self.options:
            declare(parser)


class Run(NamedTuple):
    """The environment of a command that runs against a cluster."""

    admin: client.AdminClient
    options: argparse.Namespace
    io: CommandIO
    progress: ProgressBar
    """For calls that may take long."""


Work: TypeAlias = "Callable[[Run], Awaitable[Outcome | Exit]]"
"""A function that returns the outcome to print, or an exit code when it has printed
already.
"""


def on_cluster(work: Work) -> Callable[[argparse.Namespace], int]:
    """Return a `run` function that calls `work` with an admin client."""
    return partial(run_on_cluster, work=work)


def run_on_cluster(
    options: argparse.Namespace, work: Work, io: CommandIO | None = None
) -> int:
    """Connect to the cluster, do the work and print the outcome; return the exit code.

    Raises SettingError for an invalid option or setting.
    """
    import asyncio

    io = io or CommandIO()
    progress = ProgressBar(io.stderr)
    outcomes: list[Outcome | Exit] = []

    async def connect_and_work() -> None:
        async with connect.open_admin(options) as admin:
            outcome = await work(Run(admin, options, io, progress))
            if not isinstance(outcome, Exit) and outcome.failed:
                outcome = await next_steps.with_next_steps(admin, outcome)
            if not isinstance(outcome, Exit) and options.output in {"json", "yaml"}:
                cluster = await admin.brokers.describe()
                outcome = outcome._replace(cluster_id=cluster.cluster_id)
            # The coroutine does not return the outcome: asyncio.Runner of Python 3.11
            # formats the result of its main task for a debug message, which takes
            # seconds for many items.
            outcomes.append(outcome)

    try:
        asyncio.run(connect_and_work())
    except SettingError:
        raise
    except CoterieError as error:
        outcomes.append(next_steps.with_connection_step(failed_outcome(error)))
    finally:
        progress.clear()
    outcome = outcomes[-1]
    return int(outcome) if isinstance(outcome, Exit) else emit(outcome, options, io)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Declare --output, --columns and others; `output.emit` reads them."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        choices=OUTPUT_FORMATS,
        default="table",
        help="output format: table and md for people; wide is a table with every "
        "column; json and yaml are one document with a versioned envelope, jsonl one "
        "item per line, csv one item per row with snake_case names (default table)",
    )
    group.add_argument(
        "--wide",
        action="store_true",
        help="every column, in tables and md; other formats always have them",
    )
    group.add_argument(
        "--columns",
        metavar="NAME,...",
        help="the columns of table, md and csv, in this order, by their titles or keys",
    )
    group.add_argument(
        "--csv-safe",
        action="store_true",
        help="put a quote before csv cells that a spreadsheet would take for formulas",
    )


def add_execute_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare --execute and --yes; return their group for further options."""
    group = parser.add_argument_group(
        "writing", "Without --execute, the change is only shown."
    )
    add = group.add_argument
    add("--execute", action="store_true", help="write, after a question at a terminal")
    add("--yes", action="store_true", help="write without a question")
    return group


CLUSTER_OPTIONS: Final = (add_output_options, add_connection_options)
"""The options of every command that queries a cluster."""

EXECUTE_HINT: Final = "nothing was written: use --execute to write"
