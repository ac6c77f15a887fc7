"""What the commands `coterie pipeline show ...` have in common.

They read one version of a lake by pyarrow: no Spark, no Java, no network. How old it is
they say on stderr; for programs the envelope has `cluster_id`, `as_of_ts` (the newest
record that was read) and `history_from_ts` (the oldest).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow.compute as pc

from coterie.cli.output.emit import Surroundings, emit
from coterie.cli.output.values import Outcome, show_duration
from coterie.cli.pipeline.show.options import named, read_time_ms
from coterie.cli.pipeline.show.values import columns_of, items_of, json_value, show_time
from coterie.errors import LogError
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.report.rows import Ask, read, time_of

if TYPE_CHECKING:
    from coterie.cli.output.values import Item


@dataclass(frozen=True)
class Asked:
    """What a command line asks, of which lake."""

    lake: Lake
    options: argparse.Namespace

    @property
    def limit(self) -> int | None:
        """The most rows that are wanted."""
        limit: int | None = self.options.limit
        return limit

    def among(self) -> dict[str, list[Any]]:
        """The rows that --group, --topic and --partition name."""
        return named(self.options)

    def time(self, name: str) -> Any:
        """The time of an option as the tables have it; None without it. Raises
        SettingError."""
        text = getattr(self.options, name)
        if text is None:
            return None
        return time_of(read_time_ms(text, newest_ms_of(self.lake)))

    def at(self) -> Any:
        """The time of --at."""
        return self.time("at")

    def since(self, column: str) -> Any:
        """The condition that --since puts on a column, or None."""
        since = self.time("since")
        return None if since is None else pc.field(column) >= since


Look: TypeAlias = Callable[[Asked], Ask]
Extend: TypeAlias = Callable[[Lake, list[dict[str, Any]]], list[dict[str, Any]]]
"""Says more of rows than their table does, from other tables of the lake."""


def show(
    options: argparse.Namespace,
    titles: Sequence[str],
    look: Look,
    extend: Extend | None = None,
    where: Surroundings | None = None,
) -> int:
    """Print what a command's `look` asks; the exit code. Raises SettingError."""
    where = where or Surroundings()
    try:
        lake = Lake.open(options.lake)
        asked = look(Asked(lake, options))
        read_rows, found = read(lake, asked)
        rows = read_rows.to_pylist()
        rows = extend(lake, rows) if extend else rows
    except LogError as error:
        from coterie.cli.running import failed_run  # asyncio is slow to come

        return emit(failed_run(error), options, where)
    name = options.command.rpartition(" ")[2]
    outcome = Outcome(
        schema=f"coterie.pipeline.show.{name}",
        columns=columns_of(asked.table, titles),
        items=tuple(items_of(rows)),
        summary={"rows": found},
        cluster_id=lake.identity.cluster_id,
        about=about(lake),
        notes=(*_left_out(len(rows), found), age(lake, where)),
    )
    return emit(outcome, options, where)


def about(lake: Lake) -> Item:
    """What the envelope says of the lake."""
    version = lake.version
    return {
        "lake_version": version.number,
        "as_of_ts": json_value(version.as_of_ts),
        "history_from_ts": json_value(version.history_from_ts),
    }


def age(lake: Lake, where: Surroundings) -> str:
    """How old what is shown is, in a sentence."""
    version = lake.version
    of = f"cluster {lake.identity.cluster_id}, " if lake.identity.cluster_id else ""
    if version.as_of_ts is None:
        return f"{of}lake version {version.number}: no record with a time was read yet"
    ago = show_duration(max(0, where.now_ms() - _ms(version.as_of_ts)))
    since = _text(version.history_from_ts)
    return (
        f"{of}lake version {version.number}: as of {_text(version.as_of_ts)} UTC, "
        f"{ago} ago; history from {since}"
    )


def newest_ms_of(lake: Lake) -> int:
    """When the newest record was written, in ms since 1970; 0 without records."""
    return _ms(lake.version.as_of_ts) if lake.version.as_of_ts else 0


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


def _text(at: datetime | None) -> str:
    return show_time(json_value(at))


def _left_out(shown: int, found: int) -> list[str]:
    if shown == found:
        return [] if found else ["nothing of that kind is in the lake"]
    return [f"{shown} of {found} rows; --limit 0 shows all"]
