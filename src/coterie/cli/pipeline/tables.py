"""Query the tables of a lake and format their rows, for `coterie pipeline`.

Reads one version of a lake with pyarrow: no Spark, no Java, no network. The age of the
data is written to stderr; the JSON envelope has `cluster_id`, `as_of_ts` (the time of
the newest record that was read) and `history_from_ts` (that of the oldest).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from math import isfinite
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from coterie import client
from coterie.cli.output.emit import CommandIO, emit
from coterie.cli.output.outcome import (
    Column,
    Failure,
    Item,
    Json,
    Outcome,
    Role,
    failed_outcome,
    show_duration,
    show_value,
)
from coterie.cli.pipeline.options import open_lake, read_time_ms
from coterie.client.settings import nearest
from coterie.errors import ApiError, LogError
from coterie.pipeline.lake.query import TableQuery, run_query, timestamp
from coterie.pipeline.tables.all_tables import TABLES

if TYPE_CHECKING:
    from coterie.pipeline.lake.lake import Lake

Row = dict[str, Any]
_NO_VALUE: Final = "-"
_JSON_TYPES: Final = (str, bool, int, float, type(None))
_ROLES: Final = {
    "group_id": Role.IDENTITY,
    "topic": Role.IDENTITY,
    "partition": Role.IDENTITY,
    "member_id": Role.ID,
    "client_id": Role.ID,
    "client_host": Role.ID,
    "reasons": Role.TEXT,
    "because": Role.TEXT,
}
_COLUMN_OF_OPTION: Final = {
    "group": "group_id",
    "topic": "topic",
    "partition": "partition",
}


@dataclass(frozen=True)
class TableRequest:
    """A lake and the options of a `show` command."""

    lake: Lake
    options: argparse.Namespace

    @property
    def among(self) -> dict[str, list[Any]]:
        """The values of --group, --topic and --partition, by column."""
        values = {
            column: getattr(self.options, option, None)
            for option, column in _COLUMN_OF_OPTION.items()
        }
        return {column: given for column, given in values.items() if given}

    @property
    def at(self) -> Any:
        """The time of --at as an Arrow timestamp, or None. Raises SettingError."""
        return self._time("at")

    @property
    def since(self) -> Any:
        """The time of --since as an Arrow timestamp, or None. Raises SettingError."""
        return self._time("since")

    def _time(self, option: str) -> Any:
        text = getattr(self.options, option, None)
        if text is None:
            return None
        newest = self.lake.version.as_of_ts
        return timestamp(read_time_ms(text, _epoch_ms(newest) if newest else 0))

    def query(
        self,
        table: str,
        order: tuple[tuple[str, str], ...],
        among: Mapping[str, Sequence[Any]] | None = None,
        **options: Any,
    ) -> TableQuery:
        """Return a query with the filters and the limit of the command line."""
        among = self.among if among is None else among
        limit = self.options.limit
        return TableQuery(table, order, among, limit=limit, **options)

    def in_period(self, column: str, *others: Any) -> Any:
        """Return the condition that a time is in the period of --since and --at and
        that the other conditions hold, those that are not None; None for no condition.
        """
        since, at = self.since, self.at
        conditions = [
            None if since is None else pc.field(column) >= since,
            None if at is None else pc.field(column) <= at,
            *others,
        ]
        given = [each for each in conditions if each is not None]
        return reduce(and_, given) if given else None


def show_table(
    name: str,
    options: argparse.Namespace,
    make_query: Callable[[TableRequest], TableQuery],
    titles: str,
    extend: Callable[[Lake, list[Row]], list[Row]] | None,
) -> int:
    """Run the query of a `show` command and print its rows; return the exit code.

    `extend` adds values of other tables to the rows. Raises SettingError.
    """
    io = CommandIO()
    try:
        lake = open_lake(options)
        query = make_query(TableRequest(lake, options))
        table, total = run_query(lake, query)
        rows: list[Row] = table.to_pylist()
        if extend is not None:
            rows = extend(lake, rows)
        failures, hints = _unknown_names(lake, options, query.table, total)
    except LogError as error:
        return emit(failed_outcome(error), options, io)
    notes = [*hints, lake_age(lake, io)]
    if not total and not failures:
        notes.insert(0, "no rows match")
    elif len(rows) < total:
        notes.insert(0, f"{len(rows)} of {total} rows; --limit 0 shows all")
    outcome = Outcome(
        schema=f"coterie.pipeline.show.{name}",
        columns=_table_columns(query.table, titles),
        items=tuple(items_of(rows)),
        summary={"rows": total},
        cluster_id=lake.identity.cluster_id,
        context=lake_context(lake),
        notes=tuple(notes),
        failures=failures,
    )
    return emit(outcome, options, io)


_TABLES_WITH_GROUPS: Final = (
    "current_groups",
    "group_activity",
    "offset_commit_history",
)
_TABLES_WITH_TOPICS: Final = (
    "current_offsets",
    "newest_partition_ends",
    "offset_commit_history",
    "partition_ownership_history",
)


def _unknown_names(
    lake: Lake, options: argparse.Namespace, table: str, total: int
) -> tuple[tuple[Failure, ...], list[str]]:
    """Return a failure for each group of --group that the lake never had, and for each
    such topic of --topic if no row matches; and notes with similar names."""
    failures: list[Failure] = []
    notes = []
    for option, column, code, tables in (
        ("group", "group_id", client.ErrorCode.GROUP_ID_NOT_FOUND, _TABLES_WITH_GROUPS),
        (
            "topic",
            "topic",
            client.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            _TABLES_WITH_TOPICS,
        ),
    ):
        wanted = set(getattr(options, option, None) or ())
        if not wanted or (option == "topic" and total):
            continue
        names: set[str] = set()
        for each in (*tables, *([table] if _has_column(table, column) else ())):
            if wanted <= names:  # the last tables are large
                break
            names.update(lake.read(each, [column])[column].unique().to_pylist())
        names.discard(None)
        for name in sorted(wanted - names):
            missing = ApiError(code, f"the lake has no {option} {name!r}")
            failures.append(Failure.of(option, name, missing))
            near = nearest(name, names)
            notes += [] if near is None else [f"{name!r}: did you mean {near!r}?"]
    return tuple(failures), notes


def _has_column(table: str, name: str) -> bool:
    return any(each.name == name for each in TABLES[table].columns)


def lake_context(lake: Lake) -> Item:
    """Return the keys of the envelope that describe the lake's version."""
    version = lake.version
    return {
        "lake_version": version.number,
        "as_of_ts": json_value(version.as_of_ts),
        "history_from_ts": json_value(version.history_from_ts),
    }


def lake_age(lake: Lake, io: CommandIO) -> str:
    """Return a sentence with the lake's cluster, version and age."""
    version, cluster_id = lake.version, lake.identity.cluster_id
    prefix = f"cluster {cluster_id}, " if cluster_id else ""
    prefix += f"lake version {version.number}: "
    if version.as_of_ts is None:
        return f"{prefix}no record with a timestamp was read yet"
    age = show_duration(max(0, io.now_ms() - _epoch_ms(version.as_of_ts)))
    newest = _show_time(json_value(version.as_of_ts))
    oldest = _show_time(json_value(version.history_from_ts))
    return f"{prefix}as of {newest} UTC, {age} ago; history from {oldest}"


def read_groups(lake: Lake, table: str, group_ids: Sequence[str]) -> list[Row]:
    """Return the rows of these groups, or of all groups when none are given."""
    among = {"group_id": list(group_ids)} if group_ids else {}
    query = TableQuery(table, (("group_id", "ascending"),), among)
    rows: list[Row] = run_query(lake, query)[0].to_pylist()
    return rows


def _epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


# Values for programs.


def items_of(rows: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return rows as items, with times as ISO 8601 in UTC."""
    return [{name: json_value(value) for name, value in row.items()} for row in rows]


def json_value(value: Any) -> Json:
    """Return the value of a cell as JSON."""
    if isinstance(value, datetime):
        unit = "microseconds" if value.microsecond % 1_000 else "milliseconds"
        return value.isoformat(timespec=unit).replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, dict):
        return {name: json_value(each) for name, each in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON has no infinity and no NaN
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)  # DuckDB's sum of integers is a decimal
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, _JSON_TYPES) else str(value)


# Values for people.


def _table_columns(table: str, titles: str) -> tuple[Column, ...]:
    """Return the columns of a table's output.

    `titles` (name=TITLE, separated by spaces) come first; they may name columns that
    `extend` added. The table's other columns follow and are shown only with --wide. A
    narrow terminal leaves out the last titles first.
    """
    titled = dict(each.split("=") for each in titles.split())
    columns = [
        Column(
            name,
            title,
            show=_formatter(name),
            role=_ROLES.get(name, Role.VALUE),
            drop=len(titled) - at,
        )
        for at, (name, title) in enumerate(titled.items())
    ]
    for column in TABLES[table].columns:
        if column.name not in titled:
            title = column.name.removesuffix("_ts").removesuffix("_ms")
            title = title.replace("_", "-").upper()
            show = _formatter(column.name)
            columns.append(Column(column.name, title, is_wide=True, show=show))
    return tuple(columns)


def columns_named(names: Sequence[str]) -> tuple[Column, ...]:
    """Return columns that no table declares, titled by their names."""
    return tuple(Column(name, name, show=_formatter(name, _exact)) for name in names)


def _formatter(
    name: str, show_other: Callable[[Json], str] | None = None
) -> Callable[[Json], str]:
    if name.endswith("_ts") or name in {"valid_from", "valid_to"}:
        return _show_time
    if name.endswith("_ms"):
        return _show_span
    if name == "eta_s":
        return _show_seconds
    if name in {"assigned", "pending_revocation"}:
        return _show_partitions
    return show_other or _show_any


def _show_time(value: Json) -> str:
    return value[:19].replace("T", " ") if isinstance(value, str) else _exact(value)


def _show_span(value: Json) -> str:
    if not isinstance(value, int):
        return _exact(value)
    # A negative span is in the past: the expiry of an offset that is overdue.
    return f"-{show_duration(-value)}" if value < 0 else show_duration(value)


def _show_seconds(value: Json) -> str:
    if not isinstance(value, float):
        return _exact(value)
    return _show_span(round(value * 1000))


def _show_any(value: Json) -> str:
    return f"{value:.4g}" if isinstance(value, float) else show_value(value)


def _exact(value: Json) -> str:
    """Format a value with all its digits."""
    return repr(value) if isinstance(value, float) else show_value(value)


def _show_partitions(value: Json) -> str:
    """Format partitions by topic: orders[0,2] payments[1]."""
    if not isinstance(value, list) or not all(isinstance(x, Mapping) for x in value):
        return _exact(value)
    by_topic: dict[str, list[str]] = {}
    for each in value:
        topic = str(each["topic"] or each["topic_id"])
        by_topic.setdefault(topic, []).append(str(each["partition"]))
    texts = (f"{topic}[{','.join(parts)}]" for topic, parts in by_topic.items())
    return " ".join(texts) or _NO_VALUE
