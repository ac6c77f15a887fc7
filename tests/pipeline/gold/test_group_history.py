"""The replay in Spark: as without it, and in two builds as in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from coterie.pipeline.generator.compacted import write_compacted
from coterie.pipeline.generator.generate import Order, generate
from coterie.pipeline.gold import (
    current_groups,
    current_members,
    current_offsets,
    group_activity,
    group_history,
)
from coterie.pipeline.gold.groups.fold import Folded
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES
from tests.pipeline.generator.reading import truth_of
from tests.pipeline.gold.groups.coordinators import coordinators
from tests.pipeline.gold.groups.replaying import (
    Row,
    Silver,
    folded,
    silver_of,
    tables_of,
    us_of,
)
from tests.pipeline.gold.hand_made import arrow, at
from tests.pipeline.gold.looks import Lakeful, parts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "log"
    order = Order(folder=folder, groups=24, commits=300, days=6, partitions=2)
    write_compacted(generate(order), folder / "compacted")
    return folder


def _samples(made: Path) -> Any:
    rows = [
        {
            "topic": each["topic"],
            "topic_id": each["topic_id"],
            "sample_ts": at(index),
        }
        for index, each in enumerate(truth_of(made, "topics"))
    ]
    return arrow(PARTITION_END_SAMPLES, rows)


def _parts(silver: Silver) -> list[Any]:
    """Two runs: of each log partition the first records, and the rest."""
    tables = tables_of(silver)
    return parts_of({name: tables[name] for name in silver}, [{0: 300, 1: 300}])


def test_spark_says_what_the_replay_says_in_one_run_or_in_two(
    spark: SparkSession, made: Path
) -> None:
    """Names of topics become known after the first run, and topics were replayed."""
    silver = silver_of(made / "compacted")
    samples = {"partition_end_samples": _samples(made)}
    golds = [group_history.GOLD]
    once = Lakeful(spark, golds).run({**tables_of(silver), **samples})
    early, late = _parts(silver)
    assert all(part["consumer_group_records"].num_rows for part in (early, late))
    twice = Lakeful(spark, golds).run(early).run({**late, **samples})
    history = once.tables["group_history"]
    assert twice.tables["group_history"].equals(history)
    told = folded(made / "compacted", made)
    for kind in ("group", "member", "ownership", "session", "rebalance"):
        listed = [_in_micros(row[kind]) for row in _kind(history, kind)]
        replayed = [row for each in told.values() for row in _rows(each, kind)]
        assert sorted(listed, key=str) == sorted(replayed, key=str)


def _rows(told: Folded, kind: str) -> Sequence[Row]:
    if kind == "group":
        return [told.group]
    rows: Sequence[Row] = getattr(
        told, "ownership" if kind == "ownership" else f"{kind}s"
    )
    return rows


def _kind(table: Any, kind: str) -> list[Row]:
    rows = sorted(table.to_pylist(), key=lambda row: int(row["number"]))
    return [row for row in rows if row["kind"] == kind]


def _in_micros(row: Row) -> Row:
    return {
        name: us_of(value)
        if name.endswith("_ts") or name.startswith("valid")
        else value
        for name, value in row.items()
    }


@pytest.mark.fact("K-07")
def test_groups_and_members_are_those_that_truth_has(
    spark: SparkSession, made: Path
) -> None:
    """Simple groups among them: there are offsets, and no record of the group."""
    golds = [group_history, group_activity, current_offsets]
    golds += [current_groups, current_members]
    lake = Lakeful(spark, [each.GOLD for each in golds])
    lake.run(tables_of(silver_of(made / "compacted")))
    groups = lake.tables["current_groups"].to_pylist()
    members = lake.tables["current_members"].to_pylist()
    assert {
        row["group_id"]: tuple(row[name] for name in _SEEN) for row in groups
    } == coordinators(made)[0]
    assert "simple" in {row["group_type"] for row in groups}
    assert {(row["group_id"], row["member_id"]) for row in members} == {
        (each["group_id"], each["member_id"])
        for each in truth_of(made, "sessions")
        if each["end"] == "open"
    }


_SEEN: Final = ("group_type", "state", "epoch", "member_count")
