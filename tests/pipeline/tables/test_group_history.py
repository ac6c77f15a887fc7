"""Tests for the replay in Spark, which returns the same rows as without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from coterie.pipeline.gold.groups.replay import GroupHistory
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES
from coterie.testing.log_generator.generate import (
    GeneratorOptions,
    generate,
    write_compacted,
)
from tests.pipeline.gold.groups.coordinator_state import coordinator_state
from tests.pipeline.gold.groups.generated_log import (
    Row,
    Silver,
    arrow_tables,
    micros_of,
    replayed_folder,
    silver_of,
)
from tests.pipeline.gold.memory_lake import MemoryLake, parts_of
from tests.pipeline.gold.rows import arrow, at
from tests.testing.log_generator.generated_log import read_truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "log"
    order = GeneratorOptions(
        folder=folder, groups=24, commits=300, days=6, partitions=2
    )
    write_compacted(generate(order), folder / "compacted")
    return folder


def _samples(log_folder: Path) -> Any:
    rows = [
        {
            "topic": each["topic"],
            "topic_id": each["topic_id"],
            "sample_ts": at(index),
        }
        for index, each in enumerate(read_truth(log_folder, "topics"))
    ]
    return arrow(PARTITION_END_SAMPLES, rows)


def _parts(silver: Silver) -> list[Any]:
    """Split each log partition into its first records and the rest."""
    tables = arrow_tables(silver)
    return parts_of({name: tables[name] for name in silver}, [{0: 300, 1: 300}])


def test_spark_returns_the_rows_of_the_replay_in_one_run_and_in_two(
    spark: SparkSession, log_folder: Path
) -> None:
    """Provide topic names only after the first run, so that their groups are
    replayed."""
    silver = silver_of(log_folder / "compacted")
    samples = {"partition_end_samples": _samples(log_folder)}
    golds = ["topic_names", "group_history"]
    once = MemoryLake(spark, golds).run({**arrow_tables(silver), **samples})
    early, late = _parts(silver)
    assert all(part["consumer_group_records"].num_rows for part in (early, late))
    twice = MemoryLake(spark, golds).run(early).run({**late, **samples})
    table = once.tables["group_history"]
    assert twice.tables["group_history"].equals(table)
    histories = replayed_folder(log_folder / "compacted", log_folder)
    for kind in ("group", "member", "ownership", "session", "rebalance"):
        listed = [_in_micros(_row(row)) for row in _kind(table, kind)]
        replayed = [row for each in histories.values() for row in _rows(each, kind)]
        assert sorted(listed, key=_by_columns) == sorted(replayed, key=_by_columns)


def _by_columns(row: Row) -> str:
    return str(sorted(row.items()))


def _rows(history: GroupHistory, kind: str) -> Sequence[Row]:
    if kind == "group":
        return [history.group]
    rows: Sequence[Row] = getattr(
        history, "ownership" if kind == "ownership" else f"{kind}s"
    )
    return rows


def _kind(table: Any, kind: str) -> list[Row]:
    rows = sorted(table.to_pylist(), key=lambda row: int(row["number"]))
    return [row for row in rows if row["kind"] == kind]


def _row(row: Row) -> Row:
    names = {"nameless_topic_ids": row["nameless_topic_ids"]}
    fields: Row = row[row["kind"]]
    return fields | (names if row["kind"] == "group" else {})


def _in_micros(row: Row) -> Row:
    return {
        name: micros_of(value)
        if name.endswith("_ts") or name.startswith("valid")
        else value
        for name, value in row.items()
    }


@pytest.mark.fact("K-07a")
def test_groups_and_members_match_the_coordinator_and_the_truth(
    spark: SparkSession, log_folder: Path
) -> None:
    """Include simple groups, which have offsets and no group record."""
    golds = [
        "topic_names",
        "group_history",
        "group_activity",
        "current_offsets",
        "current_groups",
        "current_members",
    ]
    lake = MemoryLake(spark, golds)
    lake.run(arrow_tables(silver_of(log_folder / "compacted")))
    groups = lake.tables["current_groups"].to_pylist()
    members = lake.tables["current_members"].to_pylist()
    assert {
        row["group_id"]: tuple(row[name] for name in _GROUP_COLUMNS) for row in groups
    } == coordinator_state(log_folder)[0]
    assert "simple" in {row["group_type"] for row in groups}
    assert {(row["group_id"], row["member_id"]) for row in members} == {
        (each["group_id"], each["member_id"])
        for each in read_truth(log_folder, "sessions")
        if each["end"] == "open"
    }


_GROUP_COLUMNS: Final = ("group_type", "state", "epoch", "member_count")
