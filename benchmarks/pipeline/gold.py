"""Measure the cost of gold tables, and its growth with the number of commits.

The query of current_offsets is compared with `row_number` over all commits, and an
update with a fortieth of new commits with a build from all commits. Then each table is
measured with ten times the commits. Measured is the CPU time of all processes, without
writing rows; the sides alternate. Spark runs on this machine with 4 GiB.

`python -m benchmarks.pipeline.gold 20000000` measures the size for which most bars are
set. Without a number it measures 4 million commits, for which the fixed cost of a query
has more weight.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.harness.cpu import tree_cpu_of
from benchmarks.harness.figures import (
    Bar,
    Figure,
    Rounds,
    Skipped,
    alternate,
    median_ratio,
)
from benchmarks.harness.synthetic_silver import write_synthetic_silver
from coterie.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS: Final = 4_000_000
FULL: Final = 20_000_000
MEMORY_GIB: Final = 4
NEW_ONE_IN: Final = 40
DAYS: Final = tuple(date(2026, 1, 1) + timedelta(days=each) for each in range(90))
"""All days of the synthetic tables."""
WINDOW_BAR, MERGE_BAR, GROWTH_BAR = 3.0, 10.0, 12.0
Query = Callable[["Silver"], "DataFrame"]


class Silver:
    """The silver tables of a number of commits; the other tables are empty."""

    def __init__(self, spark: SparkSession, folder: Path, commits: int, first: int = 0):
        self.spark = spark
        self._folder = folder
        write_synthetic_silver(folder, commits, first=first)

    def table(self, name: str) -> DataFrame:
        """Return a table in its declared schema."""
        from coterie.pipeline.tables.all_tables import TABLES
        from coterie.pipeline.tables.spark import empty_frame, spark_schema

        path = self._folder / name
        if not path.exists():
            return empty_frame(self.spark, TABLES[name])
        schema = spark_schema(TABLES[name])
        return self.spark.read.schema(schema).parquet(str(path))


class CurrentOffsets(Silver):
    """A query of the current offsets in some silver tables."""

    def __init__(self, spark: SparkSession, folder: Path, of: Silver) -> None:
        self.spark = spark
        self._folder = folder
        build_current_offsets(of).write.parquet(str(folder / "current_offsets"))


class Inputs:
    """The tables of a build: new rows, and the table before it."""

    def __init__(
        self, new: Silver, previous: Silver, given: Mapping[str, DataFrame]
    ) -> None:
        from coterie.pipeline.gold.plans import Plan
        from coterie.pipeline.gold.settings import GoldSettings

        self.spark = new.spark
        self.settings = GoldSettings()
        self.plan = Plan(days=DAYS)
        self._new = new
        self._previous = previous
        self._given = given

    def read(self, how: str, name: str, time: datetime | None = None) -> DataFrame:
        if name in self._given:
            return self._given[name]
        return (self._new if how in {"new", "days"} else self._previous).table(name)


def build(
    name: str, new: Silver, previous: Silver | None = None, **given: DataFrame
) -> DataFrame:
    """Return a gold table from new silver rows, and from tables given by name."""
    from coterie.pipeline.gold.select import select
    from coterie.pipeline.tables.all_tables import GOLD

    return select(GOLD[name], Inputs(new, previous or new, given))


def build_current_offsets(new: Silver, previous: Silver | None = None) -> DataFrame:
    """Return the current offsets after new commits."""
    return build("current_offsets", new, previous)


def row_number_offsets(silver: Silver) -> DataFrame:
    """Return the current offsets by `row_number` over all commits."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from coterie.pipeline.tables.all_tables import GOLD

    names = [each.name for each in GOLD["current_offsets"].declared.columns]
    commits = silver.table("offset_commits").select(names)
    gone = silver.table("tombstones").drop(
        "base_offset", "size_bytes", "record_type", "member_id", "regex"
    )
    rows = commits.withColumn("is_there", F.lit(True)).unionByName(
        gone, allowMissingColumns=True
    )
    newest = Window.partitionBy("group_id", "topic", "partition").orderBy(
        F.desc("log_offset")
    )
    return (
        rows.withColumn("place", F.row_number().over(newest))
        .where("place = 1 and is_there")
        .select(names)
    )


def build_commit_history(silver: Silver) -> DataFrame:
    """Return the table offset_commit_history."""
    return build("offset_commit_history", silver)


def build_daily_usage(silver: Silver) -> DataFrame:
    """Return the table group_usage_daily; every commit counts as an advance by one
    offset.
    """
    from pyspark.sql import functions as F

    history = silver.table("offset_commits").withColumns(
        {"delta": F.lit(1).cast("bigint"), "direction": F.lit("forward")}
    )
    return build("group_usage_daily", silver, offset_commit_history=history)


def build_coordinator_load(silver: Silver) -> DataFrame:
    """Return the table coordinator_load."""
    return build(
        "coordinator_load",
        silver,
        data_quality=build_data_quality(silver),
        group_activity=build("group_activity", silver),
    )


def build_data_quality(silver: Silver) -> DataFrame:
    """Return the table data_quality, with commits in place of records."""
    from pyspark.sql import functions as F

    bronze = {"outcome": F.lit(None).cast("string"), "is_control": F.lit(False)}
    records = silver.table("offset_commits").withColumns(bronze)
    return build("data_quality", silver, records=records)


TABLES: Final[dict[str, Query]] = {
    "current_offsets": build_current_offsets,
    "offset_commit_history": build_commit_history,
    "group_usage_daily": build_daily_usage,
    "coordinator_load": build_coordinator_load,
    "data_quality": build_data_quality,
}


def seconds(rows: DataFrame) -> float:
    """Return the CPU time of computing rows without writing them."""
    sink = rows.write.format("noop").mode("overwrite")
    return tree_cpu_of(sink.save)


def measure(rounds: Rounds, commits: int = COMMITS) -> Iterable[Figure]:
    """Measure all figures for a number of commits."""
    try:
        from coterie.pipeline.spark_session import Engine, start_session

        spark = start_session(Engine(memory=f"{MEMORY_GIB}g"))
    except (ImportError, SettingError) as reason:
        raise Skipped(f"NO SPARK: {reason}") from None
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield from _figures(spark, Path(folder), rounds.times, commits)
    finally:
        spark.stop()


def _figures(
    spark: SparkSession, folder: Path, times: int, commits: int
) -> Iterator[Figure]:
    small = Silver(spark, folder / "small", commits // 10)
    large = Silver(spark, folder / "large", commits)
    new = Silver(spark, folder / "new", commits // NEW_ONE_IN, first=commits)
    _must_be_equal(build_current_offsets(small), row_number_offsets(small))
    current = CurrentOffsets(spark, folder / "held", large)
    rounds = Rounds(min(3, times), 0)
    at_full = commits >= FULL
    yield _beside(
        "current_offsets: CPU time of row_number relative to ours",
        alternate(
            rounds,
            lambda: _of(row_number_offsets, large),
            lambda: _of(build_current_offsets, large),
        ),
        WINDOW_BAR if at_full else None,
    )
    yield _beside(
        f"current_offsets: full build relative to adding 1 in {NEW_ONE_IN}",
        alternate(
            rounds,
            lambda: _of(build_current_offsets, large),
            lambda: seconds(build_current_offsets(new, current)),
        ),
        MERGE_BAR if at_full else None,
    )
    for name, query in TABLES.items():
        seconds(query(small))
        yield _grown(name, [(_of(query, large), _of(query, small)) for _ in "ab"])
    yield Figure(
        name=f"sufficient driver memory for {commits / 1e6:g} M commits",
        value=MEMORY_GIB,
        unit="GiB",
        bar=MEMORY_GIB if at_full else None,
        side=Bar.AT_MOST,
    )


def _of(query: Query, silver: Silver) -> float:
    return seconds(query(silver))


def _beside(name: str, pairs: list[tuple[float, float]], bar: float | None) -> Figure:
    theirs, ours = pairs[-1]
    return Figure(
        name=name,
        value=median_ratio(pairs),
        bar=bar,
        detail=f"CPU seconds, last round: {theirs:.1f} | {ours:.1f}",
    )


def _grown(name: str, pairs: list[tuple[float, float]]) -> Figure:
    large, small = pairs[-1]
    return Figure(
        name=f"{name}: CPU time with ten times the commits",
        value=min(large / small for large, small in pairs),
        bar=GROWTH_BAR,
        side=Bar.AT_MOST,
        detail=f"CPU seconds, last round: {small:.1f} | {large:.1f}",
    )


def _must_be_equal(ours: DataFrame, theirs: DataFrame) -> None:
    from pyspark.sql import functions as F

    def sums(rows: DataFrame) -> Any:
        each = F.xxhash64(*sorted(rows.columns))
        return rows.agg(F.count("*"), F.bit_xor(each)).first()

    if sums(ours) != sums(theirs):
        raise RuntimeError("the two queries return different rows")


def main() -> None:
    from rich.console import Console

    from benchmarks.__main__ import figure_table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs="?", type=int, default=COMMITS)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    console = Console(width=160)
    for figure in measure(Rounds(options.rounds, 0), options.commits):
        console.print(figure_table([figure], header=False))


if __name__ == "__main__":
    main()
