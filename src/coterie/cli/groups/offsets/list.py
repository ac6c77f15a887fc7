"""List what groups committed: offsets, leader epochs and metadata.

Unlike `coterie groups lag`, it asks nothing about the logs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.partitions import add_partition_option
from coterie.cli.groups.selecting import add_selection_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.cli.output.values import Item, Outcome
    from coterie.cli.running import Run
    from coterie.operations.seen import GroupSeen

EXAMPLES: Final = """\
examples:
  coterie groups offsets list billing
      every offset of a group, with its metadata
  coterie groups offsets list billing audit --partitions orders
      of one topic, in two groups

exit codes: 0 all listed, 1 something could not be read, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_selection_options(parser)
    add_partition_option(parser, "only these")
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """List them."""
    from coterie.cli.running import run_command

    return run_command(options, look)


async def look(run: Run) -> Outcome:
    """The offsets of the groups that are meant."""
    from coterie.cli.groups.offsets.reading import read_groups
    from coterie.cli.output.values import Column, Outcome, show_error

    read = await read_groups(run)
    items = tuple(item for each in read.groups for item in _items(each))
    has_errors = any(item["error"] for item in items)
    return Outcome(
        schema="coterie.groups.offsets.list",
        columns=(
            Column("group_id", "GROUP"),
            Column("topic", "TOPIC"),
            Column("partition", "PARTITION"),
            Column("committed_offset", "OFFSET"),
            Column("leader_epoch", "LEADER-EPOCH"),
            Column("metadata", "METADATA"),
            Column("error", "ERROR", is_wide=not has_errors, show=show_error),
        ),
        items=items,
        failures=read.failures,
    )


def _items(group: GroupSeen) -> Iterator[Item]:
    from coterie.cli.output.values import error_item

    for at in sorted({*group.committed, *group.offsets.errors}):
        committed = group.committed.get(at)
        yield {
            "group_id": group.group_id,
            "topic": at.topic,
            "partition": at.partition,
            "committed_offset": None if committed is None else committed.offset,
            "leader_epoch": None if committed is None else committed.leader_epoch,
            "metadata": None if committed is None else committed.metadata,
            "error": error_item(group.offsets.errors.get(at)),
        }
