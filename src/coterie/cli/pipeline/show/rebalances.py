"""Show when groups rebalanced, why, and what that moved: the newest first.

From the table rebalance_timeline of a lake. EXCESS is what moved without need; a storm
is five rebalances or more within ten minutes.
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
  coterie pipeline show rebalances --lake lake --group billing
      the last 100 rebalances of a group
  coterie pipeline show rebalances --lake lake --since 1d --storms
      rebalances of the last day that were part of a storm

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "start_ts STARTED",
    "group_id GROUP",
    "epoch EPOCH",
    "cause CAUSE",
    "duration_ms TOOK",
    "members_before BEFORE",
    "members_after AFTER",
    "partitions_moved MOVED",
    "excess_moves EXCESS",
    "storm_size STORM",
    "joined JOINED",
    "left LEFT",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group", "since"), limit=100)
    parser.add_argument("--storms", action="store_true", help="those in storms alone")


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look)


def look(asked: Asked) -> Ask:
    """The rebalances that are meant, the newest first."""
    import pyarrow.compute as pc

    from coterie.pipeline.report.rows import Ask

    where = asked.since("start_ts")
    if asked.options.storms:
        stormy = pc.field("storm_id").is_valid()
        where = stormy if where is None else where & stormy
    return Ask(
        "rebalance_timeline",
        (
            ("start_ts", "descending"),
            ("log_partition", "ascending"),
            ("log_offset", "descending"),
        ),
        asked.among(),
        where=where,
        limit=asked.limit,
    )
