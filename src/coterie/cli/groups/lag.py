"""Show how far groups are behind, one line a group or a topic.

LAG is the sum over the partitions whose lag is known, MAX-LAG the greatest of them.
#UNCOMMITTED partitions have no commit and #UNKNOWN ones could not be read: neither is
in the sums. `coterie groups describe` shows partitions one by one.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.selecting import add_selection_options
from coterie.cli.groups.shaping import add_shape_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.output.values import Outcome
    from coterie.cli.running import Run

EXAMPLES: Final = """\
examples:
  coterie groups lag
      every group, one line each
  coterie groups lag --sort lag --top 10 --wide
      the ten that are furthest behind, in time as well
  coterie groups lag orders billing --by topic
      by topic within the group
  coterie groups lag --all --fail-if-lag '>100000' --output json
      for cron: exit code 3 when any group is that far behind

exit codes: 0 all was read, 1 some of it was not, 2 asked for wrongly, 3 --fail-if-lag
is true
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_selection_options(parser)
    parser.add_argument(
        "--by",
        choices=("group", "topic", "member", "host"),
        default="group",
        help="what a row is about, within its group (default group)",
    )
    add_shape_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show it."""
    from coterie.cli.running import run_command

    return run_command(options, look)


async def look(run: Run) -> Outcome:
    """A row for each sum."""
    from coterie.cli.groups.lag_outcome import lag_outcome

    return await lag_outcome(run, f"coterie.groups.lag.{run.options.by}")
