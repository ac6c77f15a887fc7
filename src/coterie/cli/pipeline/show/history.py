"""Show what each group committed, when, and who did it: the newest first.

From the table offset_commit_history of a lake, rewinds and expired offsets included.
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
  coterie pipeline show history --lake lake --group billing --topic orders
      the last 100 commits of a group on a topic
  coterie pipeline show history --lake lake --group billing --partition 3 --since 1h
      those of the last hour of the log on a partition
  coterie pipeline show history --lake lake --limit 0 --output jsonl
      everything that was ever committed

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "commit_ts COMMITTED",
    "group_id GROUP",
    "topic TOPIC",
    "partition PARTITION",
    "committed_offset OFFSET",
    "delta DELTA",
    "direction DIRECTION",
    "actor ACTOR",
    "owner_client_id CLIENT",
    "tombstone_cause GONE-BY",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group", "topic", "partition", "since"), limit=100)


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look)


def look(asked: Asked) -> Ask:
    """The commits that are meant, the newest first."""
    from coterie.pipeline.report.rows import Ask

    return Ask(
        "offset_commit_history",
        (
            ("commit_ts", "descending"),
            ("log_partition", "ascending"),
            ("log_offset", "descending"),
        ),
        asked.among(),
        where=asked.since("commit_ts"),
        limit=asked.limit,
    )
