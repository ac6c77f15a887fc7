"""Show how far groups are, partition by partition, and who owns what.

Commits are read before the ends of the logs, so lag is never negative by a race. LAG
counts what the log still has: a commit below its start or beyond its end is clamped,
STATUS and lag_raw tell. What is not known is "-", or null, never 0.

TIME-LAG is how long ago the first unread record was written. METHOD is exact when that
record was fetched, which takes the right to read the topic; else it was searched for by
time and is interpolated, off by at most the time under +/-. In json, jsonl and csv it
is null unless --wide or --time-lag asks for it.

MARGIN is how many offsets may be deleted before the group misses any. EXPIRY is what
offsets.retention.minutes counts from: since_commit, since_empty, or stopped. When an
offset was committed no API says; last_commit_ms is null.
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
  coterie groups describe orders
      one group; without a name, all of them
  coterie groups describe --glob 'orders-*' --topic payments --wide
      what some groups make of one topic, with every column
  coterie groups describe --all --sort lag --top 20
      the worst partitions of the cluster
  coterie groups describe orders --by host
      added up by the machine that reads
  coterie groups describe orders --fail-if-lag '>10000' > /dev/null
      exit code 3 when any partition is that far behind

exit codes: 0 all was read, 1 some of it was not, 2 asked for wrongly, 3 --fail-if-lag
is true
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_selection_options(parser)
    parser.add_argument(
        "--by",
        choices=("partition", "topic", "member", "host", "group"),
        default="partition",
        help="what a row is about; all but partitions are added up (default partition)",
    )
    add_shape_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.running import run_command

    return run_command(options, look)


async def look(run: Run) -> Outcome:
    """A row for each partition, or for each sum."""
    from coterie.cli.groups.lag_outcome import lag_outcome

    return await lag_outcome(run, f"coterie.groups.describe.{run.options.by}")
