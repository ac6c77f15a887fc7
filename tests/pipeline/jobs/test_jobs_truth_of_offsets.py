"""Tables of offsets, as built by a run, and mutants compared with the truth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.gold.generated_silver import GeneratedSilver
from tests.pipeline.gold.memory_lake import Tables, build
from tests.pipeline.gold.mutants import Mutant
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
    from pyspark.sql import SparkSession

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


MUTANTS: tuple[tuple[Mutant, Check], ...] = (
    (
        Mutant("current_offsets", "WHERE topic IS NOT NULL", "WHERE false"),
        check_current_offsets,
    ),
    (Mutant("offset_commit_history", "THEN 'rewind'", "THEN 'forward'"), check_changes),
    (Mutant("offset_commit_history", "THEN 'owner'", "THEN 'member'"), check_actors),
    (Mutant("offset_commit_history", "WHEN is_expired", "WHEN true"), check_causes),
    # Days begin at noon.
    (
        Mutant(
            "group_usage_daily",
            "unix_seconds(at_ts) / 86400",
            "(unix_seconds(at_ts) + 43200) / 86400",
        ),
        check_usage,
    ),
    (Mutant("data_quality", "count(*)", "2 * count(*)"), check_quality),
    # The smallest groups.
    (
        Mutant("coordinator_load", "max(struct(commits", "min(struct(commits"),
        check_load,
    ),
)


@pytest.mark.parametrize(("mutant", "check"), MUTANTS)
def test_the_checks_detect_a_wrong_table(
    built: dict[str, Any],
    story: GeneratedSilver,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Mutant,
    check: Check,
) -> None:
    mutant.apply(monkeypatch)
    rest = {name: rows for name, rows in built.items() if name != mutant.table}
    broken = build(spark, mutant.table, rest)
    with pytest.raises(AssertionError):
        check({**rest, mutant.table: broken}, story)
