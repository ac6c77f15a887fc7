"""Show who owned partitions, from when until when: all of it, or at a time.

From the table partition_ownership_history of a lake. Why an owner lost a partition is
in END and BECAUSE: the cause of the rebalance that took it, and who came or went.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.pipeline.show.options import add_options

if TYPE_CHECKING:
    from coterie.cli.pipeline.show.showing import Asked
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.report.rows import Ask

EXAMPLES: Final = """\
examples:
  coterie pipeline show ownership --lake lake --group billing --partition 3
      who had a partition, one after another
  coterie pipeline show ownership --lake lake --group billing --at 1m
      who owned what, one minute before the end of what was read

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_TITLES: Final = (
    "group_id GROUP",
    "topic TOPIC",
    "partition PARTITION",
    "member_id MEMBER",
    "client_id CLIENT",
    "client_host HOST",
    "valid_from FROM",
    "valid_to UNTIL",
    "end_reason END",
    "because BECAUSE",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group", "topic", "partition", "at", "since"))


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _TITLES, look, with_causes)


def look(asked: Asked) -> Ask:
    """The owners that are meant, by partition and time."""
    import pyarrow.compute as pc

    from coterie.pipeline.report.rows import Ask

    where, at = _open_after(asked.time("since")), asked.at()
    if at is not None:
        then = (pc.field("valid_from") <= at) & _open_after(at)
        where = then if where is None else where & then
    order = ("group_id", "topic", "topic_id", "partition", "valid_from")
    return Ask(
        "partition_ownership_history",
        (*((each, "ascending") for each in order), ("from_log_offset", "ascending")),
        asked.among(),
        where=where,
        limit=asked.limit,
    )


def with_causes(lake: Lake, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with why it ended: the rebalance that made the epoch that took it."""
    from coterie.pipeline.report.rows import is_one_of

    epochs = {(each["group_id"], each["epoch_to"]) for each in rows if each["epoch_to"]}
    causes: dict[tuple[str, int], str] = {}
    if epochs and "rebalance_timeline" in lake.version.tables:
        groups = is_one_of("group_id", sorted({group for group, _ in epochs}))
        for each in lake.read("rebalance_timeline", filters=groups).to_pylist():
            causes[each["group_id"], each["epoch"]] = _cause(each)
    return [
        {**each, "because": causes.get((each["group_id"], each["epoch_to"]))}
        for each in rows
    ]


def _cause(rebalance: dict[str, Any]) -> str:
    """A rebalance in words: joined: ada-1; left: grace-1."""
    who = [
        f"{did}: {', '.join(rebalance[did])}"
        for did in ("joined", "left")
        if rebalance[did]
    ]
    return "; ".join(who) or str(rebalance["cause"])


def _open_after(at: Any) -> Any:
    """The condition that an owner's time did not end at a time or before."""
    import pyarrow.compute as pc

    if at is None:
        return None
    return pc.field("valid_to").is_null() | (pc.field("valid_to") > at)
