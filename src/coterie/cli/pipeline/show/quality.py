"""Show how good what the tables say is: what was read of each partition of the log,
what did not read, and what is missing.

From the table data_quality of a lake.
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
  coterie pipeline show quality --lake lake
      every partition of the log
  coterie pipeline show quality --lake lake --partition 3 --wide
      one of them

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "log_partition LOG-PARTITION",
    "records RECORDS",
    "commits COMMITS",
    "quarantined QUARANTINED",
    "gaps GAPS",
    "missing_offsets MISSING",
    "held_back HELD-BACK",
    "first_ts FIRST",
    "last_ts LAST",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("partition",))


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look)


def look(asked: Asked) -> Ask:
    """The partitions of the log, by number."""
    from coterie.pipeline.report.rows import Ask

    among = asked.among()
    partitions = {"log_partition": among["partition"]} if among else {}
    return Ask(
        "data_quality",
        (("log_partition", "ascending"),),
        partitions,
        limit=asked.limit,
    )
