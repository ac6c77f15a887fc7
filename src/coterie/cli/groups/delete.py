"""`coterie groups delete` and `coterie groups remove-members`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from coterie import client
from coterie import operations as ops
from coterie.cli.command import Command, Run
from coterie.cli.groups import write
from coterie.cli.groups.change_rows import PlannedChange
from coterie.cli.groups.selection import add_selection_options, choose_groups
from coterie.errors import SettingError


async def plan_delete(run: Run) -> PlannedChange:
    """Plan to delete the selected groups."""
    chosen = await choose_groups(run)
    planned = await ops.plan_delete_groups(run.admin, chosen.ids)
    return PlannedChange(planned, chosen.failures, chosen.summary)


DELETE: Final = Command(
    description="""\
Delete groups that have no members, with all their committed offsets.

Each group is read again just before it is deleted, and refused if it has gained a
member or a commit since. Its offsets are saved first: `coterie groups undo` restores
them. Without --execute, the change is only shown.
""",
    examples="""\
examples:
  coterie groups delete billing-test
      show the offsets that would be deleted
  coterie groups delete billing-test billing-old --execute
      delete two groups
  coterie groups delete --empty --orphaned --exclude 'prod-*' --execute --yes
      in a script: groups without members whose topics no longer exist

An Empty group may still be in use: consumers that assign partitions themselves are not
members, and some jobs run once a month. `coterie groups plan` writes a file for review
first.

exit codes: 0 success, 1 a group could not be deleted, 2 usage error
""",
    options=(add_selection_options, *write.WRITE_OPTIONS),
    run=write.writes(plan_delete),
)


def declare_members(parser: argparse.ArgumentParser) -> None:
    """Declare the group, the members to remove, and the reason."""
    parser.add_argument("group", metavar="GROUP", help="group id")
    add = parser.add_argument_group("members, may be repeated").add_argument
    add("--member", metavar="ID", action="append", help="member id")
    add("--instance", metavar="ID", action="append", help="group.instance.id")
    add("--all", action="store_true", help="all current members")
    parser.add_argument(
        "--reason", metavar="TEXT", default="", help="text for the coordinator's log"
    )


async def plan_remove(run: Run) -> PlannedChange:
    """Plan to remove members from a group."""
    options = run.options
    members = _members_to_remove(options)
    planned = await ops.plan_remove_members(
        run.admin, options.group, members, options.reason
    )
    count = len(planned.item.members) if planned.item else 0
    noun, verb = ("member", "is") if count == 1 else ("members", "are")
    return PlannedChange(
        (planned,),
        summary=(
            ""
            if planned.error
            else f"{count} {noun} of {options.group} {verb} selected"
        ),
    )


def _members_to_remove(
    options: argparse.Namespace,
) -> Sequence[client.MemberToRemove] | None:
    """Return the named members, or None for all. Raises SettingError."""
    named = [
        *(client.MemberToRemove(each) for each in options.member or ()),
        *(client.MemberToRemove(instance_id=each) for each in options.instance or ()),
    ]
    if options.all == bool(named):
        raise SettingError("use either --all, or --member and --instance")
    return named or None


REMOVE_MEMBERS: Final = Command(
    description="""\
Remove members from a group, with the effect of a LeaveGroup request of each member.

A consumer that still runs may join again at once. Static members are removed by their
instance ids. Without --execute, the change is only shown. It cannot be undone.
""",
    examples="""\
examples:
  coterie groups remove-members billing --all
      show the members that would be removed
  coterie groups remove-members billing --instance pod-7 --execute
      remove a static member that will not come back
  coterie groups remove-members billing --member consumer-1-8d1f... --execute
      one member, by its member id

exit codes: 0 success, 1 a member could not be removed, 2 usage error
""",
    options=(declare_members, *write.WRITE_OPTIONS),
    run=write.writes(plan_remove),
)
