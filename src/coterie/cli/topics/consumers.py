"""Show which groups read a topic, and how far behind they are.

A group reads a topic when it committed offsets for it, when a member owns some of it,
or when a member subscribed to it by name. A topic that is gone can still have groups
that committed for it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.shaping import add_shape_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.output.values import Failure, Item, Outcome
    from coterie.cli.running import Run
    from coterie.operations.lag import GroupLag

EXAMPLES: Final = """\
examples:
  coterie topics consumers payments
      who reads it
  coterie topics consumers payments refunds --sort lag --wide
      of several topics, the slowest first, with the time they are behind
  coterie topics consumers payments --output csv
      for a spreadsheet

exit codes: 0 all was read, 1 some of it was not, or there is no such topic, 2 asked for
wrongly, 3 --fail-if-lag is true
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="a topic's name")
    add_shape_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.running import run_command

    return run_command(options, look)


async def look(run: Run) -> Outcome:
    """A row for each topic and each group that reads it."""
    from dataclasses import replace

    from coterie.cli.groups.lag_outcome import outcome_of
    from coterie.cli.groups.lag_view import rollup_columns
    from coterie.cli.groups.looking import look_at
    from coterie.cli.output.values import Column
    from coterie.operations.rollup import By
    from coterie.operations.select import Selection, reads

    topics = tuple(dict.fromkeys(run.options.topics))
    selection = Selection(topics=frozenset(topics))
    looked = await look_at(run, selection)
    failures = (*looked.failures, *await _missing(run, topics))
    items = tuple(
        _item(topic, each)
        for topic in topics
        for each in looked.report.groups
        if reads(each, {topic})
    )
    group, *rest = rollup_columns(By.GROUP)
    columns = (
        Column("topic", "TOPIC"),
        group,
        *(each for each in rest if each.key != "topics"),
    )
    looked = replace(looked, failures=failures)
    outcome = outcome_of(run, "coterie.topics.consumers", looked, columns, items)
    if items:
        return outcome
    return replace(outcome, notes=(f"no group reads {', '.join(topics)}",))


def _item(topic: str, group: GroupLag) -> Item:
    """What a group has of one topic. Members are those that own some of it, or
    subscribed to it by name."""
    from dataclasses import replace

    from coterie.cli.groups.lag_view import rollup_items
    from coterie.operations.lag import GroupLagReport
    from coterie.operations.rollup import By

    rows = tuple(row for row in group.rows if row.topic == topic)
    part = GroupLagReport((replace(group, rows=rows),))
    (sums,) = rollup_items(part, By.GROUP)
    members = group.description.members if group.description else ()
    readers = sum(
        1
        for each in members
        if topic in (each.subscribed_topics or ())
        or any(topic == owned.topic for owned in each.assignment)
    )
    others = {key: value for key, value in sums.items() if key != "topics"}
    return {"topic": topic, **others, "members": readers}


async def _missing(run: Run, topics: tuple[str, ...]) -> list[Failure]:
    from coterie.cli.output.values import Failure

    described = await run.admin.describe_topics(topics)
    return [
        Failure.of("topic", topic, error) for topic, error in described.errors.items()
    ]
