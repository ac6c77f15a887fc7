"""Lag, verdicts, expiry and stale groups compared with the truth of a generated week;
and mutants of their transforms, which the comparison detects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from coterie.pipeline.gold.table_inputs import GoldTable, Plan
from coterie.pipeline.tables.all_tables import TABLES as TABLES_BY_NAME
from coterie.pipeline.tables.spark import empty_frame
from tests.pipeline.gold.expiry_truth import check_forecast
from tests.pipeline.gold.lag_truth import check_lag, check_status
from tests.pipeline.gold.week import Week

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Rows: TypeAlias = list[dict[str, Any]]
Patch: TypeAlias = Callable[[pytest.MonkeyPatch], None]
NEVER_MS: Final = 2**62


class WeekInputs:
    """The tables of the week as inputs of a build."""

    def __init__(self, spark: SparkSession, week: Week) -> None:
        self.spark = spark
        self.week = week
        self.settings = week.settings
        self.plan = Plan()

    def all(self, name: str) -> DataFrame:
        if name == "group_windows":
            return _gold(name).rows(self)
        return self.week.frame(self.spark, name)

    def of_days(self, name: str) -> DataFrame:
        return self.all(name)

    def since(self, name: str, time: datetime | None) -> DataFrame:
        assert time is None
        return self.all(name)

    def new(self, name: str) -> DataFrame:
        return self.all(name)

    def before(self, name: str | None = None) -> DataFrame:
        assert name in (None, "partition_ownership_history")
        return empty_frame(self.spark, TABLES_BY_NAME[name or "group_windows"])


def _built(spark: SparkSession, week: Week, name: str) -> Rows:
    rows: Rows = _gold(name).rows(WeekInputs(spark, week)).toArrow().to_pylist()
    return rows


def _gold(name: str) -> GoldTable:
    from coterie.pipeline.gold.all_gold import GOLD

    [gold] = [each for each in GOLD if each.table.name == name]
    assert isinstance(gold, GoldTable)
    return gold


def _check(week: Week, name: str, rows: Rows) -> None:
    match name:
        case "lag_history":
            check_lag(rows, week.truth, defaultdict(lambda: NEVER_MS))
        case "group_status":
            check_status(rows, week.truth, defaultdict(lambda: NEVER_MS))
        case "expiry_forecast":
            check_forecast(rows, week.drivers())
        case _:
            _check_stale(rows, week)


def _check_stale(rows: Rows, week: Week) -> None:
    """Check that only groups that never return are candidates."""
    scenarios = week.scenarios()
    found = {scenarios[row["group_id"]]: row for row in rows if not row["blockers"]}
    assert found.keys() == {"stale", "typo"}
    assert found["typo"]["looks_like"] in scenarios
    assert found["typo"]["class"] == "typo"
    [job] = [row for row in rows if scenarios[row["group_id"]] == "monthly"]
    assert 2.5 < job["usual_gap_days"] < 3.5
    assert job["idle_days"] > 1


@pytest.fixture(scope="session")
def week(tmp_path_factory: pytest.TempPathFactory) -> Week:
    return Week(tmp_path_factory.mktemp("week") / "log")


TABLES: Final = (
    "lag_history",
    "group_status",
    "expiry_forecast",
    "stale_group_candidates",
)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_matches_the_truth(spark: SparkSession, week: Week, name: str) -> None:
    _check(week, name, _built(spark, week, name))


def _one_sample_a_day(patch: pytest.MonkeyPatch) -> None:
    """Keep only the last sample of each day."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import partition_events

    def of_days(samples: DataFrame) -> DataFrame:
        day = F.to_date("sample_ts").alias("day")
        kept = {"topic", "partition", "sample_ts"}
        names = [each for each in samples.columns if each not in kept]
        row = F.max(F.struct("sample_ts", *names)).alias("row")
        days = samples.groupBy("topic", "partition", day).agg(row)
        return days.select("topic", "partition", "row.*")

    patch.setattr(partition_events, "of_minutes", of_days)


def _latest_of_all(patch: pytest.MonkeyPatch) -> None:
    """Use the last commit of each partition at every time."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import lag_history
    from coterie.pipeline.gold.partition_events import ORDER, PARTITION

    def last_of_all(name: str) -> Column:
        whole = Window.partitionBy(*PARTITION).orderBy(*ORDER)
        frame = whole.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        return F.last(name, ignorenulls=True).over(frame)

    patch.setattr(lag_history, "latest", last_of_all)


def _without_ends_of_ownership(patch: pytest.MonkeyPatch) -> None:
    """Ignore the ends of ownership."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import partition_events

    whole = partition_events._owners

    def kept(ownership: DataFrame) -> DataFrame:
        return whole(ownership).where(F.col("owner.member_id").isNotNull())

    patch.setattr(partition_events, "_owners", kept)


def _expiry_from_commits(patch: pytest.MonkeyPatch) -> None:
    """Measure the age of an empty group's offsets from their commits."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import expiry_forecast

    patch.setattr(expiry_forecast, "_base_ts", lambda: F.col("commit_ts"))


def _without_pauses(patch: pytest.MonkeyPatch) -> None:
    """Remove the pauses of all groups."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import stale_group_candidates as stale
    from coterie.pipeline.gold.group_periods import longest_pauses

    def without_pauses(periods: DataFrame, sessions: DataFrame) -> DataFrame:
        nothing = F.lit(None).cast("bigint")
        return longest_pauses(periods, sessions).withColumn("usual_gap_ms", nothing)

    patch.setattr(stale, "longest_pauses", without_pauses)


MUTANTS: Final[dict[str, tuple[str, Patch]]] = {
    "partition_end_samples": ("lag_history", _one_sample_a_day),
    "lag_history": ("lag_history", _latest_of_all),
    "group_status": ("group_status", _without_ends_of_ownership),
    "expiry_forecast": ("expiry_forecast", _expiry_from_commits),
    "stale_group_candidates": ("stale_group_candidates", _without_pauses),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_comparison_detects_a_mutant(
    spark: SparkSession, week: Week, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    name, patch = MUTANTS[mutant]
    patch(monkeypatch)
    rows = _built(spark, week, name)
    with pytest.raises(AssertionError):
        _check(week, name, rows)
