"""Show which committed offsets go away by themselves, and when: the next ones first.

From the table expiry_forecast of a lake. What never goes is left out unless --all asks
for it. TRAP is yes for a consumer group's quiet partition: its offset goes as soon as
the last member does, where a classic group's would stay.
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
  coterie pipeline show expiry --lake lake --limit 20
      what goes next
  coterie pipeline show expiry --lake lake --group billing --all --wide
      one group's offsets, those that stay too, and why

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "group_id GROUP",
    "topic TOPIC",
    "partition PARTITION",
    "expires_ts EXPIRES",
    "remaining_ms IN",
    "basis BASIS",
    "at_risk_messages AT-RISK",
    "is_trap TRAP",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group", "topic", "partition"))
    parser.add_argument("--all", action="store_true", help="what never goes, too")


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look)


def look(asked: Asked) -> Ask:
    """The offsets that are meant; the next to go first."""
    import pyarrow.compute as pc

    from coterie.pipeline.report.rows import Ask

    order = ("expires_ts", "group_id", "topic", "partition")
    return Ask(
        "expiry_forecast",
        tuple((each, "ascending") for each in order),
        asked.among(),
        where=None if asked.options.all else pc.field("expires_ts").is_valid(),
        limit=asked.limit,
    )
