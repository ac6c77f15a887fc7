"""Make members leave a group, as if they had said so themselves.

A consumer that is still alive may join again at once. Static members go by their
instance ids. Without --execute, it is only shown what would be done; there is no undo.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.writing import add_write_options, run_writing
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.cli.groups.writing import Writing
    from coterie.cli.running import Run
    from coterie.client.admin.remove_members import MemberToRemove

EXAMPLES: Final = """\
examples:
  coterie groups remove-members billing --all
      show who would be removed
  coterie groups remove-members billing --instance pod-7 --execute
      free the place of a static member that will not come back
  coterie groups remove-members billing --member consumer-1-8d1f... --execute
      one member, by its member id

exit codes: 0 all well, 1 a member could not be removed, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configure_plan(parser)
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def configure_plan(parser: argparse.ArgumentParser) -> None:
    """Declare what is to be done to which group."""
    parser.add_argument("group", metavar="GROUP", help="the group's id")
    group = parser.add_argument_group("members, may be repeated")
    more = group.add_argument
    more("--member", metavar="ID", action="append", help="by its member id")
    more("--instance", metavar="ID", action="append", help="by its group.instance.id")
    more("--all", action="store_true", help="all that are there now")
    parser.add_argument(
        "--reason", metavar="TEXT", default="", help="for the coordinator's log"
    )


def run(options: argparse.Namespace) -> int:
    """Remove them, or show whom."""
    return run_writing(options, plan)


async def plan(run: Run) -> Writing:
    """Who would be removed."""
    from dataclasses import replace

    from coterie.cli.groups.writing import Writing
    from coterie.operations.planning import plan_remove_members

    options = run.options
    planned = await plan_remove_members(run.admin, options.group, _members(options))
    if planned.item is not None:
        planned = replace(planned, item=replace(planned.item, reason=options.reason))
    count = len(planned.item.members) if planned.item else 0
    members, are = ("member", "is") if count == 1 else ("members", "are")
    said = f"{count} {members} of {options.group} {are} selected"
    return Writing(
        (planned,), (), said, ("(it cannot remove members of consumer groups)",)
    )


def _members(options: argparse.Namespace) -> Sequence[MemberToRemove] | None:
    """Whom the options name; None: all. Raises SettingError."""
    from coterie.client.admin.remove_members import MemberToRemove
    from coterie.errors import SettingError

    named = [
        *(MemberToRemove(each) for each in options.member or ()),
        *(MemberToRemove(instance_id=each) for each in options.instance or ()),
    ]
    if options.all == bool(named):
        raise SettingError("say either --all, or which --member or --instance")
    return named or None
