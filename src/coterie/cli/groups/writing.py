"""What every command that writes has in common: it plans, shows, asks, keeps, applies.

A verb hands over a `Writing`, made by its `plan(run)`; nothing is written without
--execute, and at a terminal not before somebody said yes. The same `plan(run)` serves
`coterie groups plan`, which writes a file instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cli.output.emit import Surroundings
    from coterie.cli.output.values import Failure, Outcome
    from coterie.cli.running import Run
    from coterie.operations.apply import ItemResult, OnResult
    from coterie.operations.plan import PlanItem
    from coterie.operations.planning import Planned
    from coterie.operations.snapshots import SnapshotWriter


@dataclass(frozen=True, slots=True)
class Writing:
    """What a command is about to do."""

    planned: tuple[Planned, ...]
    failures: tuple[Failure, ...] = ()
    """What went wrong before anything was planned."""
    said: str = ""
    """Which groups these are, and how many."""
    kafka_commands: tuple[str, ...] = ()
    """What would do the same with Kafka's own script."""


ADVICE: Final = "nothing was written: say --execute to do it"
MakesPlan: TypeAlias = Callable[["Run"], Awaitable[Writing]]


def add_write_options(parser: argparse.ArgumentParser) -> None:
    """Declare what every command that writes takes."""
    group = parser.add_argument_group(
        "writing", "Without --execute, it is only shown what would be done."
    )
    more = group.add_argument
    more("--execute", action="store_true", help="do it; at a terminal you are asked")
    more("--yes", action="store_true", help="do it, and do not ask")
    more(
        "--force",
        action="store_true",
        help="do it even to groups that changed since they were looked at",
    )
    add_snapshot_option(group)
    add_kafka_option(group)


def add_snapshot_option(parser: argparse._ActionsContainer) -> None:
    """Declare where old offsets are kept."""
    parser.add_argument(
        "--snapshots",
        metavar="DIR",
        help="where old offsets are kept, so that `coterie groups undo` can bring them "
        "back (default: coterie/snapshots in $XDG_STATE_HOME, or in ~/.local/state)",
    )


def add_kafka_option(parser: argparse._ActionsContainer) -> None:
    """Declare --print-kafka-command."""
    parser.add_argument(
        "--print-kafka-command",
        action="store_true",
        help="also say how to do the same with Kafka's own script",
    )


def run_writing(options: argparse.Namespace, plan: MakesPlan) -> int:
    """Run a command that writes; its exit code."""
    from coterie.cli.running import run_command

    return run_command(options, partial(_work, plan))


async def _work(plan: MakesPlan, run: Run) -> Outcome:
    return await carry_out(run, await plan(run))


async def carry_out(run: Run, writing: Writing) -> Outcome:
    """Show what is planned, or do it."""
    from coterie.cli.groups.write_outcome import done_of, preview_of
    from coterie.operations.planning import items_of

    items = items_of(writing.planned)
    if not items or not is_wanted(run):
        return preview_of(run, writing, writing.said, ADVICE if items else "")
    if not confirmed(run, preview_of(run, writing), writing.said, len(items)):
        return preview_of(run, writing, "nothing was written")
    keeper = await open_snapshot(run)
    results = await apply_all(run, items, keeper)
    return done_of(run, writing, results, keeper)


def is_wanted(run: Run) -> bool:
    """Whether something is to be written at all."""
    return bool(run.options.execute or run.options.yes)


def confirmed(run: Run, preview: Outcome, said: str, count: int) -> bool:
    """Whether to go on: nobody is there to be asked, or they say so. Either way it is
    said before anything is written which groups these are."""
    from coterie.cli.output.asking import ask, is_interactive, tell

    tell(run.where, said)
    if run.options.yes or not is_interactive(run.where):
        return True
    groups = "1 group" if count == 1 else f"{count} groups"
    return ask(run.where, preview, run.options, f"Write to {groups}?")


async def apply_all(
    run: Run,
    items: Sequence[PlanItem],
    keeper: SnapshotWriter,
    on_result: OnResult | None = None,
) -> tuple[ItemResult, ...]:
    """Do items, with a progress bar."""
    from coterie.operations.apply import apply_items

    done: list[ItemResult] = []

    def heard(result: ItemResult) -> None:
        done.append(result)
        run.progress(len(done), len(items))
        if on_result is not None:
            on_result(result)

    return await apply_items(
        run.admin, items, keeper, force=run.options.force, on_result=heard
    )


async def open_snapshot(run: Run, plan_id: str = "") -> SnapshotWriter:
    """Where the groups that this run writes to are kept."""
    from coterie.operations.documents import utc_text
    from coterie.operations.snapshots import SnapshotHead, SnapshotWriter

    cluster = await run.admin.describe_cluster()
    head = SnapshotHead(
        fresh_id(run.where),
        utc_text(run.where.now_ms()),
        cluster.cluster_id,
        f"coterie {run.options.command}",
        plan_id,
    )
    return SnapshotWriter(snapshot_directory(run.options), head)


def fresh_id(where: Surroundings) -> str:
    """A word for a plan or a snapshot: the time, and chance."""
    import secrets

    return f"{where.clock():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def snapshot_directory(options: argparse.Namespace) -> Path:
    """The directory of --snapshots, or where such things belong."""
    import os
    from pathlib import Path

    if options.snapshots:
        return Path(options.snapshots)
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "coterie" / "snapshots"
