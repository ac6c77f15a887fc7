"""Write what is to be done to groups to a file, to be reviewed and then applied.

The file has every group as it was seen: its state, members, epochs and offsets.
`coterie groups apply` does only what still fits. Nothing is written to any group here.
docs/plan-files.md shows the file.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.writing import add_kafka_option
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from types import ModuleType

    from coterie.cli.groups.writing import Writing
    from coterie.cli.output.values import Outcome
    from coterie.cli.running import Run
    from coterie.operations.plan import Plan

EXAMPLES: Final = """\
examples:
  coterie groups plan cleanup.json delete --empty --orphaned
      groups whose topics are gone, to be deleted
  coterie groups plan monday.json reset --glob 'billing-*' --by-duration P2D
      a reset of many groups
  coterie groups plan move.json clone billing billing-v2
  coterie groups apply cleanup.json --execute
      later, by whoever reviewed it

exit codes: 0 all planned, 1 a group could not be planned for (the file has the others),
2 asked for wrongly
"""


class _Action(NamedTuple):
    """A command whose plan can be written to a file."""

    name: str
    summary: str
    module: str
    example: str

    def load(self) -> ModuleType:
        """Its module."""
        return import_module(f"coterie.cli.groups.{self.module}")


_ACTIONS: Final = (
    _Action(
        "reset", "choose where groups read next", "reset", "reset billing --to-earliest"
    ),
    _Action("set", "commit exact offsets", "offsets.set", "set billing orders:0=1500"),
    _Action(
        "import",
        "commit the offsets of a file",
        "offsets.import_",
        "import offsets.json",
    ),
    _Action(
        "delete-offsets",
        "delete committed offsets",
        "offsets.delete",
        "delete-offsets billing --partitions refunds",
    ),
    _Action(
        "delete",
        "delete groups that have no members",
        "delete",
        "delete --empty --orphaned",
    ),
    _Action(
        "clone",
        "give one group the offsets of another",
        "clone",
        "clone billing billing-v2",
    ),
    _Action(
        "remove-members",
        "make members leave a group",
        "remove_members",
        "remove-members billing --all",
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("plan_file", metavar="FILE", help="a new file")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for action in _ACTIONS:
        module = action.load()
        subparser = actions.add_parser(
            action.name,
            help=action.summary,
            description=module.__doc__,
            epilog=f"example:\n  coterie groups plan FILE {action.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure_plan(subparser)
        add_kafka_option(subparser)
        add_output_options(subparser)
        add_connection_options(subparser)
        subparser.set_defaults(make_plan=module.plan)


def run(options: argparse.Namespace) -> int:
    """Write the file."""
    from coterie.cli.running import run_command

    return run_command(options, write_plan)


async def write_plan(run: Run) -> Outcome:
    """Plan, write the file, and show what is in it."""
    from coterie.cli.groups.files import write_new
    from coterie.cli.groups.write_outcome import preview_of
    from coterie.operations.plan import encode_plan
    from coterie.operations.planning import items_of

    writing: Writing = await run.options.make_plan(run)
    items = items_of(writing.planned)
    if not items:
        return preview_of(run, writing, writing.said, "no plan was written")
    file = run.options.plan_file
    write_new(file, encode_plan(await _plan(run, writing)))
    count = "1 item is" if len(items) == 1 else f"{len(items)} items are"
    advice = f"{count} in {file}: coterie groups apply {file} --execute"
    return preview_of(run, writing, writing.said, advice)


async def _plan(run: Run, writing: Writing) -> Plan:
    from coterie.cli.groups.writing import fresh_id
    from coterie.operations.documents import utc_text
    from coterie.operations.plan import Plan
    from coterie.operations.planning import items_of

    cluster = await run.admin.describe_cluster()
    return Plan(
        fresh_id(run.where),
        utc_text(run.where.now_ms()),
        cluster.cluster_id,
        items_of(writing.planned),
        f"coterie {run.options.command}",
    )
