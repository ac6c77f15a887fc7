"""Tables of offsets held against the truth: as a run makes them, and broken ones."""

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
from tests.pipeline.gold.generated import Story
from tests.pipeline.gold.looks import MemoryLook, Tables, arrow_of
from tests.pipeline.gold.offset_truths import (
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
Check = Callable[[Tables, Story], None]
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
def story(log: Path) -> Story:
    return Story(log)


@pytest.fixture(scope="module")
def made(whole: Lake) -> dict[str, Any]:
    """All tables, as the run made them."""
    return {name: whole.read(name) for name in TABLES}


@pytest.mark.parametrize("check", CHECKS)
def test_what_a_run_makes_is_the_truth(
    made: dict[str, Any], story: Story, check: Check
) -> None:
    check(made, story)


def _forgets_tombstones(first: Any, *more: Any) -> Any:
    return current_offsets_last(first, *more[:-1])


current_offsets_last = current_offsets.last_places


def _never_the_owner() -> Column:
    return F.lit("member")


def _back_is_forward() -> Column:
    return F.when(F.col("committed_offset").isNull(), "tombstone").otherwise("forward")


def _everything_expires(_: int) -> Column:
    return F.lit(True)


def _days_begin_at_noon(time: Any) -> Column:
    return F.floor((F.unix_seconds(time) + 43_200) / 86_400).cast("int")


def _once_is_twice() -> Column:
    return F.lit(2).cast("bigint")


def _least_busy(commits: Any) -> Any:
    of_groups = commits.groupBy("log_partition", "group_id").agg(
        F.count("*").alias("commits")
    )
    top = F.min(F.struct("commits", "group_id")).alias("top")
    return of_groups.groupBy("log_partition").agg(top)


class Mutant(NamedTuple):
    """A module, what is wrong in it, and who is to see that."""

    module: Any
    name: str
    wrong: Callable[..., Any]
    seen_by: Check


MUTANTS = (
    Mutant(current_offsets, "last_places", _forgets_tombstones, check_current_offsets),
    Mutant(offset_commit_history, "_direction", _back_is_forward, check_changes),
    Mutant(offset_commit_history, "_actor", _never_the_owner, check_actors),
    Mutant(offset_commit_history, "_is_expired", _everything_expires, check_causes),
    Mutant(group_usage_daily, "_number", _days_begin_at_noon, check_usage),
    Mutant(data_quality, "_one", _once_is_twice, check_quality),
    Mutant(coordinator_load, "_busiest", _least_busy, check_load),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_table_that_is_wrong_is_seen(
    made: dict[str, Any],
    story: Story,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Mutant,
) -> None:
    monkeypatch.setattr(mutant.module, mutant.name, mutant.wrong)
    gold = mutant.module.GOLD
    rest = {name: rows for name, rows in made.items() if name != gold.table.name}
    look = MemoryLook(spark, GoldSettings(), gold, rest, rest, {})
    broken = arrow_of(gold.build(look), gold)
    with pytest.raises(AssertionError):
        mutant.seen_by({**rest, gold.table.name: broken}, story)
