"""Rebalances over time, and storms."""

from __future__ import annotations

from typing import Any

from coterie.pipeline.report import rebalances
from coterie.pipeline.report.rebalances import find_storms, rebalance_lanes
from tests.pipeline.lakes import AS_OF, ago
from tests.pipeline.report.memory_reader import memory_reader

Row = dict[str, Any]


def rebalance(at: int, cause: str, storm: str | None = "s", group: str = "g") -> Row:
    return {
        "group_id": group,
        "log_offset": at,
        "cause": cause,
        "storm_id": storm,
        "start_ts": ago(minutes=30, seconds=-10 * at),
    }


def read(*rows: Row) -> rebalances.Rebalances:
    return rebalances.read_rebalances(memory_reader({"rebalance_timeline": rows}))


def test_storms_are_those_that_the_table_marks() -> None:
    marked = [rebalance(at, "restarted") for at in range(5)]
    others = [rebalance(at, "restarted", storm=None) for at in range(20)]
    assert [each.rebalances for each in find_storms([*marked, *others])] == [5]


def test_groups_with_a_storm_come_first_then_those_with_most_rebalances() -> None:
    storm = [rebalance(at, "restarted", group="storm") for at in range(5)]
    many = [rebalance(at, "joined", None, group="many") for at in range(30)]
    few = [rebalance(at, "joined", None, group="few") for at in range(9)]
    axis, lanes = rebalance_lanes(read(*few, *many, *storm), AS_OF)
    assert [lane.group_id for lane in lanes] == ["storm", "many", "few"]
    assert [len(lane.storms) for lane in lanes] == [1, 0, 0]
    assert axis.at(axis.end) == 100


def test_rebalances_at_one_place_are_one_mark() -> None:
    close = [rebalance(0, "joined", None), rebalance(0, "joined", None)]
    other = rebalance(100, "left", None)
    _, (lane,) = rebalance_lanes(read(*close, other), AS_OF)
    assert lane.rebalances == 3
    assert sorted(mark.kind for mark in lane.marks) == ["joined", "left"]
    tips = [mark.tip for mark in lane.marks]
    assert any(tip.startswith("2 rebalances from") for tip in tips)


def test_only_storms_of_the_last_day_are_recent() -> None:
    old = [
        {**rebalance(at, "restarted", "old"), "start_ts": ago(days=2, seconds=at)}
        for at in range(9)
    ]
    new = [rebalance(at, "restarted", "new") for at in range(6)]
    found = read(*old, *new)
    assert len(found.storms) == 2
    assert found.recent_storms(AS_OF)["g"].rebalances == 6


def test_a_lake_without_rebalances_has_no_lanes() -> None:
    assert rebalance_lanes(read(), AS_OF)[1] == []
