"""Ask a lake in Spark SQL: one query, or a prompt for many.

Every table is a view of its name; docs/pipeline.md tells their columns. Each has three
columns more: cluster_id, as_of_ts and history_from_ts. Times are UTC. Without a query
there is a prompt, in which a statement ends with ";" (quit leaves it); from a pipe
statements are read.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.output.options import add_output_options
from coterie.cli.pipeline.engine import add_engine_options
from coterie.cli.pipeline.show.options import read_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.cli.output.values import Outcome
    from coterie.pipeline.lake.lake import Lake

EXAMPLES: Final = """\
examples:
  coterie pipeline sql --lake lake "SELECT group_id, state FROM current_groups"
      one query, as a table
  coterie pipeline sql --lake lake --output csv --limit 0 \\
      "SELECT cause, count(*) AS times FROM rebalance_timeline GROUP BY cause"
      all rows for a spreadsheet
  coterie pipeline sql --lake lake
      a prompt

exit codes: 0 answered, 1 the query failed, 2 the query or an option makes no sense
"""
_LIMIT: Final = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "query", nargs="?", metavar="SQL", help="what to ask; without it, a prompt"
    )
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="where `coterie pipeline run` wrote its tables",
    )
    parser.add_argument(
        "--limit",
        type=read_limit,
        default=_LIMIT,
        metavar="N",
        help=f"at most so many rows, 0 for all (default {_LIMIT})",
    )
    add_output_options(parser)
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Answer it, or what comes from the prompt."""
    from coterie.cli.output.emit import Surroundings, emit
    from coterie.cli.pipeline.engine import engine_of, start
    from coterie.cli.pipeline.sql_prompt import answer_all
    from coterie.pipeline.lake.lake import Lake

    where = Surroundings()
    lake = Lake.open(options.lake)
    spark = start(engine_of(options))

    def answer(query: str) -> int:
        return emit(outcome_of(spark, lake, query, options.limit), options, where)

    if options.query is not None:
        return answer(options.query)
    return answer_all(answer)


def outcome_of(
    spark: SparkSession, lake: Lake, query: str, limit: int | None
) -> Outcome:
    """What a query gives, to be printed. Raises SettingError and LogError."""
    from coterie.cli.output.values import Outcome
    from coterie.cli.pipeline.show.showing import about
    from coterie.cli.pipeline.show.values import columns_named, items_of
    from coterie.pipeline.jobs.sql import ask, make_views

    make_views(spark, lake, query)
    found = ask(spark, query, limit)
    more = f"the first {limit} rows; --limit 0 gives all"
    return Outcome(
        schema="coterie.pipeline.sql",
        columns=columns_named(found.rows.column_names),
        items=tuple(items_of(found.rows.to_pylist())),
        cluster_id=lake.identity.cluster_id,
        about=about(lake),
        summary={"rows": len(found.rows), "is_all": found.is_all},
        notes=() if found.is_all else (more,),
    )
