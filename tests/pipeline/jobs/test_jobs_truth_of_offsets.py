"""Tables of offsets, as built by a run, and mutants compared with the truth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import functions as F

from coterie.pipeline.gold import (
    coordinator_load,
    current_offsets,
    data_quality,
    group_usage_daily,
    offset_commit_history,
)
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.gold.generated_silver import GeneratedSilver
from tests.pipeline.gold.memory_lake import MemoryInputs, Tables, arrow_of
from tests.pipeline.gold.offset_truth import (
    check_actors,
    check_causes,
    check_changes,
    check_current_offsets,
    check_load,
    check_quality,
    check_usage,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from coterie.pipeline.lake.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
Check = Callable[[Tables, GeneratedSilver], None]
CHECKS = (
    check_current_offsets,
    check_changes,
    check_actors,
    check_causes,
    check_quality,
    check_load,
    check_usage,
)


@pytest.fixture(scope="module")
def story(log: Path) -> GeneratedSilver:
    return GeneratedSilver(log)


@pytest.fixture(scope="module")
def built(whole: Lake) -> dict[str, Any]:
    """All tables of the run."""
    return {name: whole.read(name) for name in TABLES}


@pytest.mark.parametrize("check", CHECKS)
def test_a_run_builds_tables_that_match_the_generated_truth(
    built: dict[str, Any], story: GeneratedSilver, check: Check
) -> None:
    check(built, story)


def _without_tombstones(*frames: Any) -> Any:
    return last_positions(*frames[:-1])


last_positions = current_offsets._last_positions


def _never_owner() -> Column:
    return F.lit("member")


def _rewind_is_forward() -> Column:
    return F.when(F.col("committed_offset").isNull(), "tombstone").otherwise("forward")


def _everything_expires(_: int) -> Column:
    return F.lit(True)


def _days_begin_at_noon(time: Any) -> Column:
    return F.floor((F.unix_seconds(time) + 43_200) / 86_400).cast("int")


def _counts_twice() -> Column:
    return F.lit(2).cast("bigint")


def _smallest_groups(commits: Any) -> Any:
    of_groups = commits.groupBy("log_partition", "group_id").agg(
        F.count("*").alias("commits")
    )
    top = F.min(F.struct("commits", "group_id")).alias("top")
    return of_groups.groupBy("log_partition").agg(top)


class Mutant(NamedTuple):
    """A module, the wrong function in it, and the check that detects it."""

    module: Any
    name: str
    replacement: Callable[..., Any]
    detected_by: Check


MUTANTS = (
    Mutant(
        current_offsets, "_last_positions", _without_tombstones, check_current_offsets
    ),
    Mutant(offset_commit_history, "_direction", _rewind_is_forward, check_changes),
    Mutant(offset_commit_history, "_actor", _never_owner, check_actors),
    Mutant(offset_commit_history, "_is_expired", _everything_expires, check_causes),
    Mutant(group_usage_daily, "_day_number", _days_begin_at_noon, check_usage),
    Mutant(data_quality, "_one", _counts_twice, check_quality),
    Mutant(coordinator_load, "_top_groups", _smallest_groups, check_load),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_the_checks_detect_a_wrong_table(
    built: dict[str, Any],
    story: GeneratedSilver,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Mutant,
) -> None:
    monkeypatch.setattr(mutant.module, mutant.name, mutant.replacement)
    gold = mutant.module.GOLD
    rest = {name: rows for name, rows in built.items() if name != gold.table.name}
    inputs = MemoryInputs(spark, GoldSettings(), gold, rest, rest, {})
    broken = arrow_of(gold.rows(inputs), gold)
    with pytest.raises(AssertionError):
        mutant.detected_by({**rest, gold.table.name: broken}, story)
