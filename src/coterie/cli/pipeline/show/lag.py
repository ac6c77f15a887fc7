"""Show how far behind groups were, in records and in time: at the newest sample of each
partition's end, at a time, or at every sample since a time.

From the table lag_history of a lake. METHOD says how the time was found: head (nothing
to read), interpolated between samples, extrapolated (at least so much).
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
  coterie pipeline show lag --lake lake --group billing
      the newest that is known of a group, the furthest behind first
  coterie pipeline show lag --lake lake --topic orders --at 2026-11-21T10:00:00Z
      what held at a time
  coterie pipeline show lag --lake lake --group billing --since 6h --output csv
      every sample of the last six hours

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "group_id GROUP",
    "topic TOPIC",
    "partition PARTITION",
    "committed_offset OFFSET",
    "log_end_offset END",
    "lag LAG",
    "time_lag_ms TIME-LAG",
    "time_lag_method METHOD",
    "eta_s CAUGHT-UP-IN",
    "lag_status STATUS",
    "messages_lost LOST",
    "sample_ts SAMPLED",
)
_PARTITIONS: Final = tuple(
    (each, "ascending") for each in ("group_id", "topic", "partition")
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group", "topic", "partition", "at", "since"))


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look)


def look(asked: Asked) -> Ask:
    """The samples that are meant."""
    import pyarrow.compute as pc

    from coterie.pipeline.report.rows import Ask

    where, at = asked.since("sample_ts"), asked.at()
    if at is not None:
        before = pc.field("sample_ts") <= at
        where = before if where is None else where & before
    is_history = asked.options.since is not None
    return Ask(
        "lag_history",
        (("sample_ts", "descending"), *_PARTITIONS),
        asked.among(),
        where=where,
        first_of=() if is_history else tuple(name for name, _ in _PARTITIONS),
        then=() if is_history else (("lag", "descending"), *_PARTITIONS),
        limit=asked.limit,
    )
