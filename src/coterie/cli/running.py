"""Runs a command that asks a cluster: connects, does the work, prints what came of it.

    def run(options):
        return run_command(options, look)

    async def look(run: Run) -> Outcome: ...

What concerns the whole run, as a cluster that cannot be reached, is printed in the
form that was asked for too, so that a script never has to parse a sentence.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from coterie.cli import connect
from coterie.cli.output.emit import Surroundings, emit
from coterie.cli.output.progress import Bar
from coterie.cli.output.values import Exit, Failure, Outcome
from coterie.errors import CoterieError, SettingError

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient


@dataclass(frozen=True, slots=True)
class Run:
    """What the work of a command gets."""

    admin: AdminClient
    options: argparse.Namespace
    where: Surroundings
    progress: Bar
    """For calls that may take long; shows itself at terminals only."""


Work: TypeAlias = Callable[[Run], Awaitable[Outcome | Exit]]
"""Gives what is to be printed; or an exit code, when it printed by itself."""


def run_command(
    options: argparse.Namespace, work: Work, where: Surroundings | None = None
) -> int:
    """Do the work and print its outcome; the exit code. Raises SettingError."""
    where = where or Surroundings()
    done: list[Outcome | Exit] = []

    async def run() -> None:
        # Not its result: asyncio's runner has Python 3.11 write the result of what it
        # runs as text, for a message that nobody sees, which takes seconds for many.
        done.append(await _done(options, work, where))

    asyncio.run(run())
    [outcome] = done
    return int(outcome) if isinstance(outcome, Exit) else emit(outcome, options, where)


async def _done(
    options: argparse.Namespace, work: Work, where: Surroundings
) -> Outcome | Exit:
    progress = Bar(where.stderr)
    try:
        async with connect.open_admin(options) as admin:
            outcome = await work(Run(admin, options, where, progress))
            if isinstance(outcome, Exit) or options.output != "json":
                return outcome
            cluster = await admin.describe_cluster()
            return replace(outcome, cluster_id=cluster.cluster_id)
    except SettingError:
        raise
    except CoterieError as error:
        return failed_run(error)
    finally:
        progress.clear()


def failed_run(error: CoterieError) -> Outcome:
    """What is printed when nothing could be found out."""
    failure = Failure.of("run", "", error)
    return Outcome(schema="coterie.failure", columns=(), items=(), failures=(failure,))
