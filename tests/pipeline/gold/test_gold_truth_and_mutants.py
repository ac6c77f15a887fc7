"""Lag, verdicts, expiry and stale groups compared with the truth of a generated week;
and mutants of their transforms, which the comparison detects."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from coterie.pipeline.tables.all_tables import GOLD
from tests.pipeline.gold.expiry_truth import check_forecast
from tests.pipeline.gold.lag_truth import check_lag, check_status
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.mutants import Mutant
from tests.pipeline.gold.week import Week

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Rows: TypeAlias = list[dict[str, Any]]
NEVER_MS: Final = 2**62
INTERNAL: Final = {"group_windows", "newest_partition_ends", "group_periods"}
"""Inputs that are built, too."""


def _built(spark: SparkSession, week: Week, name: str) -> Rows:
    needed = (*(each for each in GOLD if each in INTERNAL & GOLD[name].inputs), name)
    lake = MemoryLake(spark, needed, week.settings).run(week.tables())
    rows: Rows = lake.tables[name].to_pylist()
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


MUTANTS: Final = (
    # The last sample of each day only.
    Mutant("partition_ends", "'minute'", "'day'", in_table="lag_history"),
    # The last commit of each partition at every time.
    Mutant(
        "lag_rows",
        "UNBOUNDED PRECEDING AND CURRENT ROW",
        "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        in_table="lag_history",
    ),
    # The ends of ownership do not count.
    Mutant(
        "partition_events",
        "FROM owned WHERE valid_to IS NOT NULL",
        "FROM owned WHERE false",
        in_table="group_status",
    ),
    # The age of an empty group's offsets counts from their commits.
    Mutant("expiry_forecast", "coalesce(empty_since_ts, commit_ts)", "commit_ts"),
    # No group pauses.
    Mutant(
        "active_pauses",
        "FILTER (WHERE pause_ms > 0)",
        "FILTER (WHERE false)",
        in_table="stale_group_candidates",
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_comparison_detects_a_mutant(
    spark: SparkSession, week: Week, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    mutant.apply(monkeypatch)
    rows = _built(spark, week, mutant.table)
    with pytest.raises(AssertionError):
        _check(week, mutant.table, rows)
