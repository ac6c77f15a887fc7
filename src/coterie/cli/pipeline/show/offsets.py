"""Show what each group has committed: where it goes on from, on each partition.

From the table current_offsets of a lake. Nothing is connected to.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.pipeline.show.options import add_options

if TYPE_CHECKING:
    from coterie.cli.pipeline.show.showing import Asked
    from coterie.pipeline.report.rows import Ask

EXAMPLES: Final = """\
examples:
  coterie pipeline show offsets --lake lake --group billing
      one group's offsets
  coterie pipeline show offsets --lake lake --topic orders --output csv
      those of every group on a topic

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "group_id GROUP",
    "topic TOPIC",
    "partition PARTITION",
    "committed_offset OFFSET",
    "commit_ts COMMITTED",
    "metadata METADATA",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group", "topic", "partition"))


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look)


def look(asked: Asked) -> Ask:
    """The offsets that are meant, by group and partition."""
    from coterie.pipeline.report.rows import Ask

    order = tuple((each, "ascending") for each in ("group_id", "topic", "partition"))
    return Ask("current_offsets", order, asked.among(), limit=asked.limit)
