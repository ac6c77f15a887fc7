"""Show who owned partitions, from when until when: all of it, or at a time.

From the table partition_ownership_history of a lake. Why an owner lost a partition is
in END and BECAUSE: the cause of the rebalance that took it, and who came or went.
"""

from __future__ import annotations

import argparse
from collections import Counter
from functools import reduce
from operator import and_
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

    among, at = asked.among(), asked.at()
    conditions = [_named(asked.lake, among), _open_after(asked.time("since"))]
    if at is not None:
        conditions += [pc.field("valid_from") <= at, _open_after(at)]
    given = [each for each in conditions if each is not None]
    order = ("group_id", "topic", "partition", "valid_from")
    return Ask(
        "partition_ownership_history",
        (*((each, "ascending") for each in order), ("from_log_offset", "ascending")),
        among,
        where=reduce(and_, given) if given else None,
        limit=asked.limit,
    )


def with_causes(lake: Lake, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with why it ended: the rebalance that made the epoch that took it."""
    from coterie.pipeline.report.rows import is_one_of

    groups = is_one_of("group_id", sorted({each["group_id"] for each in rows}))
    named = _clients(lake.read("member_sessions", _MEMBER, groups).to_pylist())
    made: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in lake.read("rebalance_timeline", _REBALANCE, groups).to_pylist():
        made.setdefault((each["group_id"], each["epoch"]), []).append(each)

    def because(row: dict[str, Any]) -> str | None:
        # A group that changes its protocol has an epoch twice: the nearer one is meant.
        found = made.get((row["group_id"], row["epoch_to"]), [])
        end = row["to_log_offset"] or 0
        nearest = min(found, key=lambda it: abs(it["log_offset"] - end), default=None)
        return _cause(nearest, named) if nearest else None

    return [{**each, "because": because(each)} for each in rows]


_MEMBER: Final = ("group_id", "member_id", "client_id")
_REBALANCE: Final = ("group_id", "epoch", "log_offset", "cause", "joined", "left")


def _clients(sessions: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """What people call members, where no two of a group are called so."""
    named = {
        (each["group_id"], each["member_id"]): each["client_id"] for each in sessions
    }
    times = Counter((group, client) for (group, _), client in named.items())
    return {
        (group, member): client
        for (group, member), client in named.items()
        if client and times[group, client] == 1
    }


def _cause(rebalance: dict[str, Any], named: dict[tuple[str, str], str]) -> str:
    """A rebalance in words: joined: ada; left: grace."""
    group = rebalance["group_id"]
    who = [
        f"{did}: {', '.join(named.get((group, each), each) for each in rebalance[did])}"
        for did in ("joined", "left")
        if rebalance[did]
    ]
    return "; ".join(who) or str(rebalance["cause"])


def _named(lake: Lake, among: dict[str, list[Any]]) -> Any:
    """The condition that rows are of the topics that are named, or of their ids: where
    only those are in the log, the name is null."""
    import pyarrow.compute as pc

    from coterie.pipeline.report.rows import is_one_of

    names = among.pop("topic", None)
    if names is None:
        return None
    of_names = is_one_of("topic", names)
    ids: set[str] = set()
    for table in ("partition_end_samples", "current_offsets"):
        found = lake.read(table, ["topic_id"], of_names)["topic_id"]
        ids.update(each for each in found.unique().to_pylist() if each)
    return of_names | (pc.field("topic").is_null() & is_one_of("topic_id", sorted(ids)))


def _open_after(at: Any) -> Any:
    """The condition that an owner's time did not end at a time or before."""
    import pyarrow.compute as pc

    if at is None:
        return None
    return pc.field("valid_to").is_null() | (pc.field("valid_to") > at)
