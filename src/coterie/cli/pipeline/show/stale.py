"""Show which groups may go and what speaks against it: the surest first.

From the table stale_group_candidates of a lake. Groups that are to be kept are left
out unless --all or --group asks for them.
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
  coterie pipeline show stale --lake lake
      what may be deleted, and why
  coterie pipeline show stale --lake lake --all --output json
      every group, with what speaks for and against it

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "group_id GROUP",
    "class CLASS",
    "score SCORE",
    "idle_days IDLE-DAYS",
    "usual_gap_days USUAL-GAP",
    "total_lag LAG",
    "reasons REASONS",
    "blockers BLOCKERS",
    "last_hosts LAST-HOSTS",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group",))
    parser.add_argument(
        "--all", action="store_true", help="groups that are to be kept, too"
    )


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look)


def look(asked: Asked) -> Ask:
    """The groups that are meant; the surest first."""
    import pyarrow.compute as pc

    from coterie.pipeline.report.rows import Ask

    everything = asked.options.all or asked.options.group
    return Ask(
        "stale_group_candidates",
        (("score", "descending"), ("group_id", "ascending")),
        asked.among(),
        where=None if everything else pc.field("class") != "keep",
        limit=asked.limit,
    )
