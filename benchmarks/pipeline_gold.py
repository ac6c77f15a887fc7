"""What do gold tables cost, and how does that grow?

Committed offsets that hold: beside what one writes first, `row_number` over all; and,
with the table there and a fortieth of new commits, beside making it from all. Then how
much each table costs with ten times the commits. CPU time of all processes, sides
alternated, nothing written; Spark here, with 4 GiB.

`python -m benchmarks.pipeline_gold 20000000` asks at the size that most bars are for;
without a number there are 4 million commits, where what any query costs counts more.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.cpu import tree_cpu_of
from benchmarks.figures import Bar, Figure, Rounds, Skipped, alternate, median_ratio
from benchmarks.silver import synthesise
from coterie.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS: Final = 4_000_000
FULL: Final = 20_000_000
MEMORY_GIB: Final = 4
NEW_ONE_IN: Final = 40
WINDOW_BAR, MERGE_BAR, GROWTH_BAR = 3.0, 10.0, 12.0
Query = Callable[["Silver"], "DataFrame"]


class Silver:
    """Tables of so many commits; those that nobody filled have no rows."""

    def __init__(self, spark: SparkSession, folder: Path, commits: int, first: int = 0):
        self._spark = spark
        self._folder = folder
        synthesise(folder, commits, first=first)

    def table(self, name: str) -> DataFrame:
        """A table in its declared schema."""
        from coterie.pipeline.gold.look import empty, spark_schema
        from coterie.pipeline.tables.all_tables import TABLES

        path = self._folder / name
        if not path.exists():
            return empty(self._spark, TABLES[name])
        schema = spark_schema(TABLES[name])
        return self._spark.read.schema(schema).parquet(str(path))


class Held(Silver):
    """The offsets that hold of some tables."""

    def __init__(self, spark: SparkSession, folder: Path, of: Silver) -> None:
        self._spark = spark
        self._folder = folder
        folded(of).write.parquet(str(folder / "current_offsets"))


def folded(new: Silver, held: Silver | None = None) -> DataFrame:
    """Ours: what holds after these commits, from what held before them."""
    from coterie.pipeline.gold.current_offsets import fold

    before = (held or new).table("current_offsets")
    return fold(before, new.table("offset_commits"), new.table("tombstones"))


def windowed(silver: Silver) -> DataFrame:
    """The same rows as one writes it first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from coterie.pipeline.tables.current_offsets import CURRENT_OFFSETS

    names = [each.name for each in CURRENT_OFFSETS.columns]
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


def told(silver: Silver) -> DataFrame:
    """The history of commits."""
    from coterie.pipeline.gold.offset_commit_history import Known, history
    from coterie.pipeline.gold.presence import presence

    records = ("classic_group_records", "consumer_group_records", "tombstones")
    known = Known(
        held=silver.table("current_offsets"),
        ownership=silver.table("partition_ownership_history"),
        presence=presence(*(silver.table(name) for name in records)),
        gaps=silver.table("log_gaps"),
        retention_ms=7 * 86_400_000,
    )
    return history(silver.table("offset_commits"), silver.table("tombstones"), known)


def used(silver: Silver) -> DataFrame:
    """What groups did each day; from the commits alone, as a log of first commits."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold.group_usage_daily import usage, with_shares

    commits = silver.table("offset_commits")
    history = commits.withColumns(
        {"delta": F.lit(1).cast("bigint"), "direction": F.lit("forward")}
    )
    return with_shares(usage(history, commits))


def loaded(silver: Silver) -> DataFrame:
    """What log partitions have to do."""
    from coterie.pipeline.gold.coordinator_load import load

    commits = silver.table("offset_commits")
    return load(commits, commits, counted(silver), silver.table("current_groups"))


def counted(silver: Silver) -> DataFrame:
    """How much was read; commits stand for records."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold.data_quality import Came, heads_of, quality

    commits = silver.table("offset_commits")
    bronze = {"outcome": F.lit(None).cast("string"), "is_control": F.lit(False)}
    names = ("classic_group_records", "consumer_group_records", "quarantine")
    came = Came(
        records=commits.withColumns(bronze),
        offset_commits=commits,
        tombstones=silver.table("tombstones"),
        log_gaps=silver.table("log_gaps"),
        **{name: silver.table(name) for name in names},
    )
    heads = heads_of(commits.sparkSession, [])
    return quality(silver.table("data_quality"), came, heads)


TABLES: Final[dict[str, Query]] = {
    "current_offsets": folded,
    "offset_commit_history": told,
    "group_usage_daily": used,
    "coordinator_load": loaded,
    "data_quality": counted,
}


def seconds(rows: DataFrame) -> float:
    """The CPU time of making rows that nobody keeps."""
    sink = rows.write.format("noop").mode("overwrite")
    return tree_cpu_of(sink.save)


def measure(rounds: Rounds, commits: int = COMMITS) -> Iterable[Figure]:
    """Figures at one size."""
    try:
        from coterie.pipeline.session.session import Engine, start_session

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
    _must_be_equal(folded(small), windowed(small))
    held = Held(spark, folder / "held", large)
    rounds = Rounds(min(3, times), 0)
    at_full = commits >= FULL
    yield _beside(
        "current_offsets: CPU time of row_number beside ours",
        alternate(rounds, lambda: _of(windowed, large), lambda: _of(folded, large)),
        WINDOW_BAR if at_full else None,
    )
    yield _beside(
        f"current_offsets: CPU time of all beside merging 1 in {NEW_ONE_IN}",
        alternate(
            rounds, lambda: _of(folded, large), lambda: seconds(folded(new, held))
        ),
        MERGE_BAR if at_full else None,
    )
    for name, query in TABLES.items():
        seconds(query(small))
        yield _grown(name, [(_of(query, large), _of(query, small)) for _ in "ab"])
    yield Figure(
        name=f"driver memory that was enough for {commits / 1e6:g} M commits",
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
        raise RuntimeError("both sides give other rows")


def main() -> None:
    from rich.console import Console

    from benchmarks.__main__ import table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs="?", type=int, default=COMMITS)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    console = Console(width=160)
    for figure in measure(Rounds(asked.rounds, 0), asked.commits):
        console.print(table([figure], header=False))


if __name__ == "__main__":
    main()
