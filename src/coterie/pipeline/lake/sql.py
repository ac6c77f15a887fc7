"""Query the tables of a lake in SQL with DuckDB: in this process, without Spark.

Every table is a view with the table's name. Each view has three additional columns:
`cluster_id`, `as_of_ts` (the time of the newest record in the lake) and
`history_from_ts` (the time of the oldest). DuckDB reads the Arrow dataset of a table,
so that columns and conditions of a query select what is read from the files.

A query may come from another program: it can read the views and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from coterie.errors import CoterieError, LogError, SettingError
from coterie.extras import describe_missing
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.table import Layer, Table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LISTING_KEYWORDS: Final = frozenset({"show", "list", "information_schema"})
_SETTINGS: Final = (
    "TimeZone = 'UTC'",
    "enable_progress_bar = false",  # it would be written to stdout
    "temp_directory = ''",
    "enable_external_access = false",
    "allow_persistent_secrets = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "lock_configuration = true",
)
"""In this order: the last one keeps a query from changing the others."""


class QueryResult(NamedTuple):
    """The first rows of a query's result."""

    rows: Any
    """An Arrow table; its column names are unique."""
    is_complete: bool


def tables_in(query: str) -> list[Table]:
    """Return the tables that a query names, or all for a query that lists tables."""
    words = set(re.findall(r"\w+", query.lower()))
    return [
        table
        for table in TABLES.values()
        if table.name in words or words & _LISTING_KEYWORDS
    ]


def unique_names(columns: Sequence[str]) -> list[str]:
    """Return the names of a result's columns; the second column n becomes n_2."""
    names: list[str] = []
    for index, name in enumerate(columns):
        earlier = columns[:index].count(name)
        names.append(f"{name}_{earlier + 1}" if earlier else name)
    return names


def connect(memory: str) -> DuckDBPyConnection:
    """Start DuckDB with this memory limit, as in 4g.

    It cannot open files, load extensions or change its settings; a query that needs
    more memory fails, as temporary files are off too. Raises SettingError.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise SettingError(describe_missing("duckdb")) from None
    connection = duckdb.connect()
    try:
        connection.execute(f"SET memory_limit = {_literal(memory)}")
    except duckdb.Error as error:
        raise SettingError(f"--memory {memory}: {_first_line(error)}") from None
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    return connection


def make_views(connection: DuckDBPyConnection, lake: Lake, query: str) -> None:
    """Create views of the tables in a query. Raises LogError."""
    version = lake.version
    columns = ", ".join(
        f"CAST({_literal(value)} AS {kind}) AS {name}"
        for name, kind, value in (
            ("cluster_id", "VARCHAR", lake.identity.cluster_id),
            ("as_of_ts", "TIMESTAMPTZ", version.as_of_ts),
            ("history_from_ts", "TIMESTAMPTZ", version.history_from_ts),
        )
    )
    for table in tables_in(query):
        relation = connection.from_arrow(lake.dataset(table.name))
        relation = relation.project(f"*, {columns}")
        relation.create_view(table.name, replace=True)


def run_sql(
    connection: DuckDBPyConnection, query: str, limit: int | None
) -> QueryResult:
    """Run one query and return at most `limit` rows.

    Raises SettingError for an invalid query, LogError when its execution fails, and
    KeyboardInterrupt when it is interrupted.
    """
    # DuckDB checks for signals between tasks only, which can take minutes each. The
    # main thread can handle Ctrl-C at any time while it waits for another thread.
    with ThreadPoolExecutor(max_workers=1) as executor:
        running = executor.submit(_fetch, connection, query, limit)
        try:
            return running.result()
        except KeyboardInterrupt:
            while not running.done():
                connection.interrupt()  # has no effect before the query has begun
                wait([running], timeout=0.05)
            raise


def _fetch(
    connection: DuckDBPyConnection, query: str, limit: int | None
) -> QueryResult:
    import duckdb

    try:
        query.encode()
    except UnicodeEncodeError:
        raise SettingError("the query must be UTF-8") from None
    try:
        if len(connection.extract_statements(query)) > 1:
            raise SettingError(
                "several statements in one query: run them one by one, or end each line"
                " with ';' at the prompt"
            )
        relation = connection.sql(query)
        if relation is None:  # a statement without a result
            return QueryResult(pa.table({}), is_complete=True)
        found = relation if limit is None else relation.limit(limit + 1)
        rows = found.to_arrow_table().rename_columns(unique_names(relation.columns))
    except (duckdb.Error, RuntimeError) as error:
        raise _explained(error, query) from None
    return QueryResult(rows.slice(0, limit), limit is None or len(rows) <= limit)


def _literal(value: object) -> str:
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


_MISSING_TABLE: Final = re.compile(r"Table with name (.+) does not exist")
_MISSING_FUNCTION: Final = re.compile(r"\w+ Function with name (.+) does not exist")
_MISSING_COLUMN: Final = re.compile(
    r'(?:Referenced column|have a column named) "([^"]+)"'
)


def _explained(error: Exception, query: str) -> CoterieError:
    """Return the error of a query: DuckDB's message on one line, and what to do."""
    import duckdb

    text, line = str(error), _first_line(error)
    if isinstance(error, duckdb.PermissionException) or "has been locked" in line:
        return SettingError(f"a query can only read the tables of the lake: {line}")
    if isinstance(error, duckdb.OutOfMemoryException):
        return LogError(f"the query needs more memory; set --memory: {line}")
    if missing := _MISSING_TABLE.search(text):
        names = (each.name for each in TABLES.values() if each.layer != Layer.INTERNAL)
        return SettingError(
            f"there is no table {missing[1]}; the tables are {', '.join(names)}"
        )
    if missing := _MISSING_FUNCTION.search(text):
        return SettingError(f"DuckDB has no function {missing[1]}")
    if missing := _MISSING_COLUMN.search(text):
        columns = {name for each in tables_in(query) for name in each.schema.names}
        similar = ", ".join(get_close_matches(missing[1], columns))
        advice = f"similar are {similar}" if similar else "DESCRIBE lists a table's"
        return SettingError(f"there is no column {missing[1]}; {advice}")
    if isinstance(error, duckdb.ParserException) or line.startswith("No function"):
        return SettingError(f"{line.rstrip('.')}: write it in the SQL of DuckDB")
    if "Arrow" in line:
        read = ", ".join(table.name for table in tables_in(query))
        return LogError(
            f"a file of {read} is missing or damaged: {line}; coterie pipeline"
            " backfill makes the silver and gold tables again"
        )
    is_invalid = isinstance(error, duckdb.ProgrammingError)
    return SettingError(line) if is_invalid else LogError(line)


def _first_line(error: Exception) -> str:
    """Return the first line of a message without its kind, as in Parser Error: ..."""
    line = str(error).partition("\n")[0]
    return re.sub(r"^[A-Z][\w ]+ Error: ", "", line)
