"""List the groups of a cluster, of both protocols.

States and types are filtered by the brokers. PROTOCOL is the protocol type; a simple
group is one that nobody ever joined: somebody commits offsets by hand.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.selecting import add_selection_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.output.values import Item, Json, Outcome
    from coterie.cli.running import Run
    from coterie.client.admin.group_values import GroupListing

EXAMPLES: Final = """\
examples:
  coterie groups list
      every group, with its type and state
  coterie groups list --glob 'orders-*' --exclude '*-test' --state Stable
      those of a name that have members at work
  coterie groups list --topic payments
      who reads this topic
  coterie groups list --empty --orphaned --output jsonl
      groups to clean up: nobody is there, and their topics are gone
  coterie groups list --lag '>10000'
      those that are far behind

exit codes: 0 all listed, 1 some broker or group could not be asked, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_selection_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """List them."""
    from coterie.cli.running import run_command

    return run_command(options, look)


async def look(run: Run) -> Outcome:
    """The groups that are meant. One that was named and is not there is a failure."""
    from coterie.cli.groups.selecting import (
        NO_GROUP,
        read_selection,
        selection_failures,
    )
    from coterie.cli.output.values import Column, Failure, Outcome
    from coterie.operations.select import select_groups

    selection = read_selection(run.options)
    selected = await select_groups(
        run.admin, selection, must_list=True, progress=run.progress
    )
    missing = (
        Failure("group", each, "GROUP_ID_NOT_FOUND", "there is no such group")
        for each in selected.missing
    )
    return Outcome(
        schema="coterie.groups.list",
        columns=(
            Column("group_id", "GROUP"),
            Column("group_type", "TYPE"),
            Column("protocol_type", "PROTOCOL", show=_protocol),
            Column("state", "STATE"),
            Column("coordinator_id", "COORDINATOR", is_wide=True),
        ),
        items=tuple(_item(each) for each in selected.groups),
        failures=(*selection_failures(selected), *missing),
        summary={"groups": len(selected.groups)},
        notes=() if selected.groups or selected.missing else (NO_GROUP,),
    )


def _protocol(value: Json) -> str:
    return str(value) if value else "simple"


def _item(group: GroupListing) -> Item:
    return {
        "group_id": group.group_id,
        "group_type": group.type.value if group.type else None,
        "protocol_type": group.protocol_type,
        "is_simple": group.is_simple,
        "state": group.state.value if group.state else None,
        "coordinator_id": group.coordinator_id,
        "error": None,
    }
