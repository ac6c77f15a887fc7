"""What `acls add` and `remove` have in common: they show, ask, write and tell."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from coterie.auth.acl import Acl
    from coterie.cli.output.values import Outcome
    from coterie.cli.running import Run
    from coterie.errors import CoterieError

    Done: TypeAlias = Mapping[Acl, CoterieError]
    """Why some of it could not be done."""
    Plan: TypeAlias = Callable[[Run], Awaitable[Sequence[Acl]]]
    Write: TypeAlias = Callable[[Run, Sequence[Acl]], Awaitable[Done]]

ADVICE: Final = "nothing was written: add --execute to do it"


def add_write_options(parser: argparse.ArgumentParser) -> None:
    """Declare --execute and --yes."""
    group = parser.add_argument_group(
        "writing", "Without --execute, it is only shown what would be done."
    )
    more = group.add_argument
    more("--execute", action="store_true", help="do it; at a terminal you are asked")
    more("--yes", action="store_true", help="do it, and do not ask")


def run_writing(
    options: argparse.Namespace, plan: Plan, write: Write, *, done: str
) -> int:
    """Show what is planned, or write it; the exit code. `done` says what was done to a
    binding."""
    from coterie.cli.running import run_command

    return run_command(options, partial(_work, plan, write, done))


async def _work(plan: Plan, write: Write, done: str, run: Run) -> Outcome:
    acls = await plan(run)
    if not acls:
        return _outcome(run, acls, "planned", "there is nothing to do")
    if not (run.options.execute or run.options.yes):
        return _outcome(run, acls, "planned", ADVICE)
    if not _confirmed(run, acls):
        return _outcome(run, acls, "planned", "nothing was written")
    return _outcome(run, acls, done, errors=await write(run, acls))


def _confirmed(run: Run, acls: Sequence[Acl]) -> bool:
    from coterie.cli.output.asking import ask, is_interactive

    if run.options.yes or not is_interactive(run.where):
        return True
    preview = _outcome(run, acls, "planned")
    which = "this binding" if len(acls) == 1 else f"these {len(acls)} bindings"
    return ask(run.where, preview, run.options, f"Write {which}?")


def _outcome(
    run: Run,
    acls: Sequence[Acl],
    result: str,
    *notes: str,
    errors: Done | None = None,
) -> Outcome:
    from coterie.cli.acls.naming import columns, item_of
    from coterie.cli.output.values import Column, Outcome, show_error

    failed = errors or {}
    *named, _ = columns()
    return Outcome(
        schema=f"coterie.{run.options.command.replace(' ', '.')}",
        columns=(
            *named,
            Column("result", "RESULT"),
            Column("error", "ERROR", is_wide=not failed, show=show_error),
        ),
        items=tuple(
            item_of(acl, failed.get(acl), result="failed" if acl in failed else result)
            for acl in acls
        ),
        summary={"executed": result != "planned", "acls": len(acls)},
        notes=notes,
    )
