"""The command `coterie pipeline sql`, and its prompt.

At a terminal, lines can be edited, the history is stored in a file, and an error does
not end the session. Without a terminal statements are read from stdin, and the first
error ends the command.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final

from coterie.cli.command import Command, add_output_options
from coterie.cli.output.emit import CommandIO, emit
from coterie.cli.output.outcome import Outcome
from coterie.cli.pipeline.options import (
    add_as_of_option,
    add_lake_option,
    add_limit_option,
    open_lake,
    skip_pandas,
)
from coterie.errors import CoterieError
from coterie.files import make_private_directory, user_directory

if TYPE_CHECKING:
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.lake.sql import QueryResult

_DEFAULT_LIMIT: Final = 1_000


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "query", nargs="?", metavar="SQL", help="query; a prompt when omitted"
    )
    add_lake_option(parser)
    add_as_of_option(parser)
    parser.add_argument(
        "--memory",
        default="4g",
        metavar="SIZE",
        help="memory limit of a query (default 4g)",
    )
    add_limit_option(parser, _DEFAULT_LIMIT)


def _run(options: argparse.Namespace) -> int:
    skip_pandas()
    from coterie.pipeline.lake import sql

    io = CommandIO()
    lake = open_lake(options)
    connection = sql.connect(options.memory)

    def run_statement(query: str) -> int:
        sql.make_views(connection, lake, query)
        result = sql.run_sql(connection, query, options.limit)
        return emit(_outcome(lake, result, options.limit), options, io)

    if options.query is not None:
        return run_statement(options.query)
    return run_statements(run_statement)


def _outcome(lake: Lake, result: QueryResult, limit: int | None) -> Outcome:
    from coterie.cli.pipeline.tables import columns_named, items_of, lake_context

    more = f"the first {limit} rows; --limit 0 shows all"
    return Outcome(
        schema="coterie.pipeline.sql",
        columns=columns_named(result.rows.column_names),
        items=tuple(items_of(result.rows.to_pylist())),
        cluster_id=lake.identity.cluster_id,
        context=lake_context(lake),
        summary={"rows": len(result.rows), "is_all": result.is_complete},
        notes=() if result.is_complete else (more,),
    )


SQL: Final = Command(
    description="""\
Query a lake in SQL: one query, or a prompt for several.

Every table is a view of its name; docs/pipeline.md describes the columns. Each view has
three additional columns: cluster_id, as_of_ts and history_from_ts. Times are UTC.
DuckDB runs the query, which can only read the tables.
Without a query the command shows a prompt, where ";" ends a statement and quit ends the
session; when stdin is not a terminal, statements are read from it.
""",
    examples="""\
examples:
  coterie pipeline sql --lake lake "SELECT group_id, state FROM current_groups"
      one query, printed as a table
  coterie pipeline sql --lake lake --output csv --limit 0 \\
      "SELECT cause, count(*) AS times FROM rebalance_timeline GROUP BY cause"
      all rows, for a spreadsheet
  coterie pipeline sql --lake lake
      a prompt

exit codes: 0 success, 1 the query failed, 2 invalid query or usage error
""",
    options=(_add_options, add_output_options),
    run=_run,
)


# The prompt.

_PROMPT: Final = "lake> "
_CONTINUATION_PROMPT: Final = "  ... "
_QUIT: Final = {"quit", "exit", r"\q"}
_HISTORY_LINES: Final = 1_000


def run_statements(run_statement: Callable[[str], int]) -> int:
    """Run the statements of stdin; return the exit code of the last one."""
    if not sys.stdin.isatty():
        code = 0
        first = sys.stdin.readline().removeprefix("\ufeff")
        for piped in split_statements(chain([first], sys.stdin)):
            code = run_statement(piped)
        return code
    with _history():
        while (statement := _read_statement()) is not None:
            try:
                run_statement(statement)
            except CoterieError as error:
                sys.stderr.write(f"{error}\n")
            except KeyboardInterrupt:
                sys.stderr.write("interrupted\n")
    return 0


def split_statements(lines: Iterable[str]) -> Iterator[str]:
    """Split lines into statements.

    A ";" at the end of a line ends a statement; it is optional after the last one.
    """
    text = ""
    for line in lines:
        text += line
        if line.rstrip().endswith(";"):
            yield text.strip().rstrip(";")
            text = ""
    if text.strip():
        yield text.strip()


def _read_statement() -> str | None:
    """Read the next statement; None at the end of the session.

    Ctrl-C discards the lines of the current statement.
    """
    lines: list[str] = []
    while True:
        try:
            line = input(_CONTINUATION_PROMPT if lines else _PROMPT)
        except EOFError:
            sys.stderr.write("\n")
            return None
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            lines = []
            continue
        if not lines and line.strip().rstrip(";").lower() in _QUIT:
            return None
        lines = [*lines, line] if lines or line.strip() else []
        for statement in split_statements(f"{each}\n" for each in lines):
            if line.rstrip().endswith(";"):
                return statement


@contextmanager
def _history() -> Iterator[None]:
    """Offer the lines of earlier sessions, and keep those of this one, on systems that
    have readline."""
    if sys.platform == "win32":
        yield
        return
    try:
        import readline
    except ImportError:
        yield
        return
    state = user_directory(os.environ, "XDG_STATE_HOME", ".local/state")
    path = state / "coterie" / "sql-history"
    if path.exists():
        readline.read_history_file(path)
    try:
        yield
    finally:
        make_private_directory(path.parent)
        readline.set_history_length(_HISTORY_LINES)
        readline.write_history_file(path)
