"""Lag, verdicts, expiry and stale groups against what truly happened in a week; and
wrong transforms, each of which the truth must see through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from coterie.pipeline.gold.look import Gold
from tests.pipeline.gold.expiry_truth import check_forecast
from tests.pipeline.gold.lag_truth import check_lag, check_status
from tests.pipeline.gold.week import Week

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Rows: TypeAlias = list[dict[str, Any]]
Patch: TypeAlias = Callable[[pytest.MonkeyPatch], None]
NEVER_MS: Final = 2**62


class WeekLook:
    """A `Look` at the week."""

    def __init__(self, spark: SparkSession, week: Week) -> None:
        self.spark = spark
        self.week = week
        self.settings = week.settings

    def all(self, name: str) -> DataFrame:
        return self.week.frame(self.spark, name)

    def new(self, name: str) -> DataFrame:
        return self.all(name)

    def before(self, name: str | None = None) -> DataFrame:
        raise AssertionError("these tables are made anew")


def _built(spark: SparkSession, week: Week, name: str) -> Rows:
    from coterie.pipeline.gold.all_gold import GOLD

    [gold] = [each for each in GOLD if each.table.name == name]
    assert isinstance(gold, Gold)
    rows: Rows = gold.build(WeekLook(spark, week)).toArrow().to_pylist()
    return rows


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
    """Who left for good may go; who comes every few days stays, as do all others."""
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
def test_a_table_says_what_is_true(spark: SparkSession, week: Week, name: str) -> None:
    _check(week, name, _built(spark, week, name))


def _by_day(patch: pytest.MonkeyPatch) -> None:
    """The last sample of each day is taken for all."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import lag_history

    def of_days(samples: DataFrame) -> DataFrame:
        day = F.to_date("sample_ts").alias("day")
        kept = {"topic", "partition", "sample_ts"}
        names = [each for each in samples.columns if each not in kept]
        row = F.max(F.struct("sample_ts", *names)).alias("row")
        days = samples.groupBy("topic", "partition", day).agg(row)
        return days.select("topic", "partition", "row.*")

    patch.setattr(lag_history, "of_minutes", of_days)


def _prophetic(patch: pytest.MonkeyPatch) -> None:
    """What is committed last is taken to have held all the time."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import lag_history
    from coterie.pipeline.gold.partition_events import ORDER, PLACE

    def last_of_all(name: str) -> Column:
        whole = Window.partitionBy(*PLACE).orderBy(*ORDER)
        frame = whole.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        return F.last(name, ignorenulls=True).over(frame)

    patch.setattr(lag_history, "in_force", last_of_all)


def _ownerless(patch: pytest.MonkeyPatch) -> None:
    """Nobody is seen to give a partition up."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import partition_events

    whole = partition_events._owners

    def kept(ownership: DataFrame) -> DataFrame:
        return whole(ownership).where(F.col("owner.member_id").isNotNull())

    patch.setattr(partition_events, "_owners", kept)


def _all_by_commit(patch: pytest.MonkeyPatch) -> None:
    """An empty group's offsets are taken to be as old as their commits."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import expiry_forecast

    patch.setattr(expiry_forecast, "_base_ts", lambda: F.col("commit_ts"))


def _forgetful(patch: pytest.MonkeyPatch) -> None:
    """How long a group paused before is not known."""
    from pyspark.sql import functions as F

    from coterie.pipeline.gold import stale_group_candidates as stale
    from coterie.pipeline.gold.pauses import longest_pauses

    def forgotten(history: DataFrame, sessions: DataFrame) -> DataFrame:
        nothing = F.lit(None).cast("bigint")
        return longest_pauses(history, sessions).withColumn("usual_gap_ms", nothing)

    patch.setattr(stale, "longest_pauses", forgotten)


MUTANTS: Final[dict[str, tuple[str, Patch]]] = {
    "partition_end_samples": ("lag_history", _by_day),
    "lag_history": ("lag_history", _prophetic),
    "group_status": ("group_status", _ownerless),
    "expiry_forecast": ("expiry_forecast", _all_by_commit),
    "stale_group_candidates": ("stale_group_candidates", _forgetful),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_transform_is_seen_through(
    spark: SparkSession, week: Week, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    name, patch = MUTANTS[mutant]
    patch(monkeypatch)
    rows = _built(spark, week, name)
    with pytest.raises(AssertionError):
        _check(week, name, rows)
