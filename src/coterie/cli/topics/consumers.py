"""`coterie topics consumers`: the groups that read a topic, and their lag."""

from __future__ import annotations

import argparse
from typing import Final

from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, on_cluster
from coterie.cli.groups import lag_report
from coterie.cli.groups.lag import add_row_options
from coterie.cli.output import outcome as out


def _declare_topics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="topic name")


async def list_consumers(run: Run) -> out.Outcome:
    """Return a row for each topic and each group that reads it."""
    topics = tuple(dict.fromkeys(run.options.topics))
    has_readers = False

    def make_rows(report: ops.GroupLagReport) -> lag_report.Rows:
        nonlocal has_readers
        group, *sums = lag_report.rollup_columns(ops.RollupBy.GROUP)
        columns = (
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            group,
            *(each for each in sums if each.key != "topics"),
        )
        items = tuple(
            _item(topic, each)
            for topic in topics
            for each in report.groups
            if ops.reads(each, {topic})
        )
        has_readers = bool(items)
        return columns, items

    selection = ops.Selection(topics=frozenset(topics))
    outcome = await lag_report.lag_outcome(
        run, selection, "coterie.topics.consumers", make_rows
    )
    described = await run.admin.topics.describe(topics)
    missing = (
        out.Failure.of("topic", topic, error)
        for topic, error in described.errors.items()
    )
    outcome = outcome._replace(failures=(*outcome.failures, *missing))
    if has_readers:
        return outcome
    return outcome._replace(notes=(f"no group reads {', '.join(topics)}",))


def _item(topic: str, group: ops.GroupLag) -> out.Item:
    """Return the item of one group and one topic, with sums. Members count if they own
    a partition of the topic or subscribed to it by name.
    """
    report = ops.GroupLagReport((group,)).of_topics({topic})
    (sums,) = lag_report.rollup_items(report, ops.RollupBy.GROUP)
    members = group.description.members if group.description else ()
    readers = sum(
        1
        for each in members
        if topic in (each.subscribed_topics or ())
        or any(topic == owned.topic for owned in each.assignment)
    )
    others = {key: value for key, value in sums.items() if key != "topics"}
    return {"topic": topic, **others, "members": readers}


CONSUMERS: Final = Command(
    description="""\
List the groups that read a topic, with their lag.

A group reads a topic when it has committed offsets for it, or a member owns one of its
partitions or subscribed to it by name. A deleted topic can still have groups with
committed offsets.
""",
    examples="""\
examples:
  coterie topics consumers payments
      the groups that read one topic
  coterie topics consumers payments refunds --sort lag --wide
      several topics, the greatest lag first, with the lag in time
  coterie topics consumers payments --output csv
      for a spreadsheet

exit codes: 0 success, 1 something could not be read or a topic does not exist, 2 usage
error, 3 a --fail-if condition is true
""",
    options=(_declare_topics, add_row_options, *CLUSTER_OPTIONS),
    run=on_cluster(list_consumers),
)
