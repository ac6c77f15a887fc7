"""Values of a table's columns, for programs and for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.output.values import Column, show_duration, show_value
from coterie.pipeline.tables.all_tables import TABLES

if TYPE_CHECKING:
    from coterie.cli.output.values import Item, Json

_NOTHING: Final = "-"
_PLAIN: Final = (str, bool, int, float, type(None))


def items_of(rows: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Rows as items: every column, times as ISO-8601 in UTC."""
    return [{name: json_value(value) for name, value in row.items()} for row in rows]


def json_value(value: Any) -> Json:
    """A value of a cell as JSON has it."""
    if isinstance(value, datetime):
        parts = "microseconds" if value.microsecond % 1_000 else "milliseconds"
        return value.isoformat(timespec=parts).replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, dict):
        return {name: json_value(each) for name, each in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, _PLAIN) else str(value)


def columns_of(table: str, titles: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a table of the lake: first those with a title, "name TITLE", its
    own or not, and then its others, which are wide."""
    declared = {each.name: each for each in TABLES[table].columns}
    wanted = dict(each.split(" ", 1) for each in titles)
    rest = [name for name in declared if name not in wanted]
    return (
        *(Column(name, title, show=_show(name)) for name, title in wanted.items()),
        *(
            Column(name, title_of(name), is_wide=True, show=_show(name))
            for name in rest
        ),
    )


def columns_named(names: Sequence[str]) -> tuple[Column, ...]:
    """Columns that no table declares, by their own names."""
    return tuple(Column(name, name, show=_show(name)) for name in names)


def title_of(name: str) -> str:
    """A column's title, when nobody gives it another."""
    for ending in ("_ts", "_ms"):
        name = name.removesuffix(ending)
    return name.replace("_", "-").upper()


def _show(name: str) -> Callable[[Json], str] | None:
    if name.endswith("_ts") or name in {"valid_from", "valid_to"}:
        return show_time
    if name.endswith("_ms"):
        return show_span
    if name == "eta_s":
        return _show_seconds
    if name in {"assigned", "pending_revocation"}:
        return _show_partitions
    return _show_any


def show_time(value: Json) -> str:
    """A time to the second, UTC."""
    return value[:19].replace("T", " ") if isinstance(value, str) else _NOTHING


def show_span(value: Json) -> str:
    """Milliseconds as people say them, below 0 too."""
    if isinstance(value, int) and value < 0:
        return f"-{show_duration(-value)}"
    return show_duration(value)


def _show_seconds(value: Json) -> str:
    return show_span(round(value * 1000)) if isinstance(value, float) else _NOTHING


def _show_any(value: Json) -> str:
    return f"{value:.4g}" if isinstance(value, float) else show_value(value)


def _show_partitions(value: Json) -> str:
    """Partitions by topic: orders[0,2] payments[1]."""
    by_topic: dict[str, list[str]] = {}
    for each in value if isinstance(value, Sequence) else ():
        assert isinstance(each, Mapping)
        topic = str(each["topic"] or each["topic_id"])
        by_topic.setdefault(topic, []).append(str(each["partition"]))
    texts = (f"{topic}[{','.join(parts)}]" for topic, parts in by_topic.items())
    return " ".join(texts) or _NOTHING
