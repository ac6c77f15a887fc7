"""`coterie groups describe` and `coterie groups lag`: their options and help texts.

`lag_report` fetches the lag and makes the rows.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, on_cluster
from coterie.cli.durations import whole_number
from coterie.cli.groups import lag_report
from coterie.cli.groups.selection import add_selection_options, read_selection
from coterie.cli.output.outcome import Outcome, show_duration


def add_row_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that filter and order rows; `lag_report` reads them."""
    add = parser.add_argument_group(
        "rows", "Rows with an error are always shown."
    ).add_argument
    add("--only-lagging", action="store_true", help="only rows with lag above 0")
    add(
        "--sort",
        metavar="COLUMN",
        help="column to sort by, numbers in descending order: lag, time_lag_ms, ...",
    )
    add(
        "--top", metavar="N", type=whole_number("a count"), help="only the first N rows"
    )
    add(
        "--fail-if-lag",
        metavar="COND",
        help="exit with 3 when the lag of any row, shown or not, is '>10000', ...",
    )
    add(
        "--fail-if-time-lag",
        metavar="COND",
        help="exit with 3 when the lag in time of any row is '>5m', '>=1h30m', ...; "
        "implies --time-lag",
    )
    add(
        "--fail-if-uncommitted",
        action="store_true",
        help="exit with 3 when a partition has no committed offset; its lag is "
        "unknown, so the other conditions are not true for it",
    )
    add(
        "--time-lag",
        action="store_true",
        help="compute the lag in milliseconds too, which --wide does by default",
    )
    add(
        "--read-committed",
        action="store_true",
        help="measure lag up to the last stable offset",
    )


def _declare_describe_by(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        choices=("partition", "topic", "member", "host", "group"),
        default="partition",
        help="unit of a row; lag is summed for all but partition (default partition)",
    )


def _declare_lag_by(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        choices=("group", "topic", "member", "host"),
        default="group",
        help="unit of a row within its group (default group)",
    )


async def describe(run: Run) -> Outcome:
    """Return a row for each partition, or for each group of partitions by --by."""
    schema = f"coterie.{run.options.command.replace(' ', '.')}.{run.options.by}"
    make_rows = lag_report.partition_rows
    if run.options.by != "partition":
        make_rows = partial(lag_report.rollup_rows, by=ops.RollupBy(run.options.by))
    selection = read_selection(run.options)
    outcome = await lag_report.lag_outcome(run, selection, schema, make_rows)
    if run.options.by != "partition" or not lag_report.is_wide(run.options):
        return outcome
    # The column EXPIRY refers to this setting.
    retention_ms = await ops.offsets_retention_ms(run.admin)
    note = f"offsets expire {show_duration(retention_ms)} after the event in EXPIRY"
    return outcome._replace(
        summary={**outcome.summary, "offsets_retention_ms": retention_ms},
        notes=(*outcome.notes, note) if retention_ms else outcome.notes,
    )


DESCRIBE: Final = Command(
    description="""\
Describe committed offsets, lag and owners, partition by partition.

Committed offsets are fetched before log end offsets, so a race cannot make the lag
negative. LAG counts records that still exist: for a commit below the log start offset
or beyond the log end offset, STATUS and lag_raw show the difference. An unknown value
is "-", or null, never 0.

TIME-LAG is the age of the first unread record by its timestamp; it is 0 when only
transaction markers are left to read. METHOD is exact when the record was fetched, which
needs READ on the topic; otherwise the age is interpolated from offsets by timestamp,
with an error of at most +/-. In json, jsonl and csv it is null unless --wide or
--time-lag is given.

MARGIN is the number of offsets between the log start offset and the commit. EXPIRY is
the event from which offsets.retention.minutes counts: since_commit, since_empty, or
stopped. No API returns the time of a commit, so last_commit_ms is always null.
""",
    examples="""\
examples:
  coterie groups describe orders
      one group; without a name, all groups
  coterie groups describe --glob 'orders-*' --topic payments --wide
      some groups on one topic, with every column
  coterie groups describe --all --sort lag --top 20
      the partitions with the greatest lag in the cluster
  coterie groups describe orders --by host
      sums by the host of the member
  coterie groups describe orders --fail-if-lag '>10000' > /dev/null
      exit code 3 when the lag of a partition is above 10000
  coterie groups describe orders --fail-if-time-lag '>5m' --fail-if-uncommitted
      exit code 3 when a partition is over 5 minutes late, or has no commit

exit codes: 0 success, 1 something could not be read, 2 usage error, 3 a --fail-if
condition is true
""",
    options=(
        add_selection_options,
        _declare_describe_by,
        add_row_options,
        *CLUSTER_OPTIONS,
    ),
    run=on_cluster(describe),
)

LAG: Final = Command(
    description="""\
Sum the lag of groups, one row per group or topic.

LAG is the sum over the partitions with a known lag, MAX-LAG the greatest of them.
Partitions without a commit (#UNCOMMITTED) and partitions that could not be read
(#UNKNOWN) are not in the sums. `coterie groups describe` shows single partitions.
""",
    examples="""\
examples:
  coterie groups lag
      every group, one row each
  coterie groups lag --sort lag --top 10 --wide
      the ten groups with the greatest lag, in time as well
  coterie groups lag orders billing --by topic
      by topic within the group
  coterie groups lag --all --fail-if-lag '>100000' --output json
      for cron: exit code 3 when the lag of a group is above 100000

exit codes: 0 success, 1 something could not be read, 2 usage error, 3 a --fail-if
condition is true
""",
    options=(add_selection_options, _declare_lag_by, add_row_options, *CLUSTER_OPTIONS),
    run=on_cluster(describe),
)
