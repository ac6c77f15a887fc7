"""The tables of the lake: each is a file of SQL, with what it means and how it is built.

    -- Which groups exist, and in which state?
    CREATE TABLE current_groups (
      group_id string NOT NULL,  -- ID of the group
      epoch int,  -- generation or group epoch; null for simple groups
      PRIMARY KEY (group_id)
    ) WITH (merge = append) AS
    SELECT ...

A file creates a TABLE of the gold layer, a BRONZE, SILVER or INTERNAL TABLE, or a VIEW
for the queries of tables. Jobs fill the tables without a query. The options of a table:

| option | meaning |
|---|---|
| day_of | the time column by whose date the table is partitioned |
| plan | a function of `gold.plans`: what a build reads and replaces |
| merge | append: the rows are added; since: they replace those from the plan's base on; without it, they replace all rows |

A query names its inputs in braces, and a setting or a value of the plan as `:name`:

| input | rows |
|---|---|
| {name} | all rows of a table or view; of the table itself, its last result |
| {new_name} | those added since the table was last built |
| {old_name} | those at the time that the table was last built |
| {days_name} | those of the plan's days, and perhaps others |
| {since_name} | those from two hours before the plan's base on, and perhaps earlier ones |
| {earlier_name} | those from the least time in a collected view on, and perhaps earlier ones |

What SQL cannot say is a function over Arrow batches: a view with `MAP module.function
RETURNS table` yields its results. A view with `COLLECT column` is collected first; the
column has the times in ms that `{earlier_name}` refers to.
"""  # noqa: E501 - tables

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final

import pyarrow as pa

from coterie.pipeline.tables.table import TIME, Column, Layer, Table

_FILE: Final = re.compile(
    r"(?P<comment>(?:--.*\n)*)CREATE (?P<layer>\w* ?)(?P<kind>TABLE|VIEW) \w+"
    r"(?: \((?P<columns>.*?)\n\))?(?P<options>[^\n]*?)(?: AS)?\n(?P<sql>.*)",
    re.DOTALL,
)
_COLUMN: Final = re.compile(r"(\w+) (.+?)( NOT NULL)?")
_MAP: Final = re.compile(r"MAP (\S+) RETURNS (\w+)")
_INPUT: Final = re.compile(r"\{(\w+)\}")
_PARAMETER: Final = re.compile(r":([a-z_]+)")
READS: Final = ("new", "old", "days", "since", "earlier")
_TYPES: Final[Mapping[str, Any]] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp": TIME,
    "date": pa.date32(),
}
_NOT_IN_ROWS: Final = {
    "group_id",
    "log_partition",
    "topic_count",
    "partition_count",
    "last_commit_ts",
}
"""Columns that every row of group_history has, and those computed from offsets."""


@dataclass(frozen=True)
class Query:
    """A table or view that a query builds."""

    name: str
    sql: str
    table: Table | None
    """The declaration of a table, None for a view."""
    options: Mapping[str, str] = field(default_factory=dict)
    function: str | None = None
    """The function of a view, by its module below `pipeline.gold` and its name."""
    returns: str | None = None
    """The table whose columns that function returns."""
    collect: str | None = None
    """The column of times in a view that is collected."""

    @property
    def declared(self) -> Table:
        """The declaration of a table."""
        assert self.table is not None, f"{self.name} is a view"
        return self.table

    @property
    def merge(self) -> str:
        return self.options.get("merge", "replace")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The inputs that the query names, in order."""
        return tuple(dict.fromkeys(_INPUT.findall(self.sql)))

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The settings and values of the plan that the query names."""
        return frozenset(_PARAMETER.findall(self.sql))

    @property
    def parameters_of_parts(self) -> frozenset[str]:
        """The same of the query and the views that it reads."""
        return frozenset().union(*(each.parameters for each in self.parts))

    @cached_property
    def parts(self) -> tuple[Query, ...]:
        """The query itself, and the views that it reads, directly or not."""
        found = {self.name: self}
        for name in self.names:
            if name in VIEWS:
                found |= {each.name: each for each in VIEWS[name].parts}
        return tuple(found.values())

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The names of the tables that a build reads, except its own last result."""
        names = {read_of(name)[1] for part in self.parts for name in part.names}
        return frozenset(names - VIEWS.keys() - {self.name})


def read_of(name: str) -> tuple[str, str]:
    """Return how a query reads an input, and the name of the table."""
    how, _, table = name.partition("_")
    return (how, table) if how in READS else ("all", name)


@cache
def load(name: str) -> Query:
    """Read a file of SQL."""
    text = files("coterie.pipeline.tables").joinpath(f"{name}.sql").read_text("utf-8")
    match = _FILE.fullmatch(text)
    assert match, f"{name}.sql does not create a table or a view"
    options = match["options"]
    if match["kind"] == "VIEW":
        mapped = _MAP.search(options)
        _, _, collect = options.partition("COLLECT ")
        function, returns = mapped.groups() if mapped else (None, None)
        return Query(name, match["sql"], None, {}, function, returns, collect or None)
    chosen = dict(re.findall(r"(\w+) = (\w+)", options))
    *columns, key = _columns(match["columns"])
    question = match["comment"].partition("\n--\n")[0]
    table = Table(
        name,
        Layer[match["layer"].strip() or "GOLD"],
        " ".join(question.replace("-- ", "").split()),
        key=tuple(re.findall(r"\w+", key[0].partition("(")[2])),
        columns=tuple(_column(*each) for each in columns),
        day_of=chosen.get("day_of"),
    )
    return Query(name, match["sql"], table, chosen)


def _columns(text: str) -> Iterator[tuple[str, str]]:
    """Yield the declaration of each column, then the key, each with its comment."""
    for entry in re.split(r"\n  (?! )", text)[1:]:
        code, comments = [], []
        for line in entry.splitlines():
            before, _, after = f"{line} ".partition("-- ")
            code.append(before.strip())
            comments.append(after.strip())
        yield " ".join(code).strip().removesuffix(","), " ".join(comments).strip()


def _column(declaration: str, meaning: str) -> Column:
    match = _COLUMN.fullmatch(declaration)
    assert match, f"{declaration} does not declare a column"
    return Column(match[1], _arrow_type(match[2]), meaning, nullable=not match[3])


def _arrow_type(text: str) -> Any:
    kind, _, inner = text.removesuffix(">").partition("<")
    if kind == "array":
        return pa.list_(_arrow_type(inner))
    if kind == "struct":
        fields = (each.partition(": ") for each in _split(inner))
        return pa.struct([(name, _arrow_type(of)) for name, _, of in fields])
    if kind == "row":
        columns = load(inner).declared.columns
        return pa.struct(
            [(c.name, c.type) for c in columns if c.name not in _NOT_IN_ROWS]
        )
    return _TYPES[text]


def _split(fields: str) -> Iterator[str]:
    """Yield the fields of a struct, which may be structs."""
    begin = depth = 0
    for index, character in enumerate(fields):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and not depth:
            yield fields[begin:index].strip()
            begin = index + 1
    yield fields[begin:].strip()


def _in_build_order(queries: Mapping[str, Query]) -> dict[str, Query]:
    """Return tables so that each follows those that it reads, in as few groups of
    tables that do not read each other as possible."""
    levels: dict[str, int] = {}

    def level_of(name: str) -> int:
        if name not in levels:
            read = queries.keys() & queries[name].inputs
            levels[name] = 1 + max(map(level_of, read), default=0)
        return levels[name]

    names = sorted(queries, key=lambda name: (level_of(name), name))
    return {name: queries[name] for name in names}


_ALL: Final = {
    name: load(name)
    for each in files("coterie.pipeline.tables").iterdir()
    if (name := each.name.removesuffix(".sql")) != each.name
}
_LAYERS: Final = [*Layer]
TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in sorted(
        (query.table for query in _ALL.values() if query.table),
        key=lambda table: (_LAYERS.index(table.layer), table.name),
    )
}
"""All tables by name: bronze tables first, then silver, gold and internal ones."""
VIEWS: Final = {name: query for name, query in _ALL.items() if query.table is None}
GOLD: Final = _in_build_order({n: q for n, q in _ALL.items() if q.table and q.sql})
"""The tables that queries build by name, in build order."""


def needed(*names: str) -> tuple[Query, ...]:
    """Return these gold tables and their inputs, in build order."""
    table_names = set(names)
    for name in reversed(GOLD):
        if name in table_names:
            table_names |= GOLD[name].inputs
    return tuple(query for name, query in GOLD.items() if name in table_names)


def of_layer(layer: Layer) -> list[Table]:
    return [table for table in TABLES.values() if table.layer is layer]
