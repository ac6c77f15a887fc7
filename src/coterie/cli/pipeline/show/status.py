"""Show whether groups were in trouble, by Burrow's rules and some more: at the end of
what was read, or at a time.

From the table group_status of a lake: the verdict on each group; with --partitions,
--topic or --partition, that on each partition.
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
  coterie pipeline show status --lake lake --bad
      groups in trouble, and which rule said so
  coterie pipeline show status --lake lake --group billing --at 2h --partitions
      each partition of a group two hours before the end

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "group_id GROUP",
    "topic TOPIC",
    "partition PARTITION",
    "verdict VERDICT",
    "lag LAG",
    "complete COMPLETE",
    "rule RULE",
    "window_end_ts JUDGED-AT",
)
_PARTITIONS: Final = tuple(
    (each, "ascending") for each in ("group_id", "topic", "partition")
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group", "topic", "partition", "at"))
    more = parser.add_argument
    more("--bad", action="store_true", help="only what is not OK")
    more("--partitions", action="store_true", help="the verdict on each partition")


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look)


def look(asked: Asked) -> Ask:
    """The verdicts that are meant."""
    import pyarrow.compute as pc

    from coterie.pipeline.report.rows import Ask

    at = asked.at()
    where = None if at is None else pc.field("window_end_ts") <= at
    if not _wants_partitions(asked.options):
        whole = pc.field("topic").is_null()
        where = whole if where is None else where & whole
    return Ask(
        "group_status",
        (("window_end_ts", "descending"), *_PARTITIONS),
        asked.among(),
        where=where,
        first_of=tuple(name for name, _ in _PARTITIONS),
        only=pc.field("verdict") != "OK" if asked.options.bad else None,
        then=_PARTITIONS,
        limit=asked.limit,
    )


def _wants_partitions(options: argparse.Namespace) -> bool:
    return bool(options.partitions or options.topic or options.partition is not None)
