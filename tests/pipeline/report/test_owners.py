"""The charts of partition owners."""

from __future__ import annotations

from typing import Any

from coterie.pipeline.report import owners
from coterie.pipeline.report.groups import GroupRow
from coterie.pipeline.report.rebalances import Rebalances
from tests.pipeline.lakes import AS_OF, ago
from tests.pipeline.report.memory_reader import memory_reader

Row = dict[str, Any]


def owned(
    group: str, partition: int, minutes: float, member: str = "m", **rest: Any
) -> Row:
    return {
        "group_id": group,
        "topic": "orders",
        "partition": partition,
        "member_id": member,
        "client_id": member,
        "client_host": "/10.0.0.1",
        "valid_from": ago(minutes=minutes),
        **rest,
    }


def chart_order(rows: list[Row], rebalances: list[Row], *groups: GroupRow) -> list[str]:
    reader = memory_reader({"partition_ownership_history": rows})
    by_id = {group.group_id: group for group in groups}
    found = owners.owner_charts(reader, by_id, Rebalances(rebalances, 0, []))
    return [chart.group_id for chart in found]


def test_a_group_with_a_problem_comes_first_then_most_rebalances_then_changes() -> None:
    rows = [owned(group, 0, 5) for group in ("busy", "bad", "warned", "quiet")]
    rows += [owned("moving", 0, each) for each in range(20)]
    rebalances = [{"group_id": "busy"}] * 3 + [{"group_id": "bad"}]
    order = chart_order(
        rows,
        rebalances,
        *(GroupRow(name, level="ok") for name in ("busy", "moving", "quiet")),
        GroupRow("bad", level="bad"),
        GroupRow("warned", level="warn"),
    )
    assert order == ["bad", "warned", "busy", "moving", "quiet"]


def test_groups_that_are_gone_have_no_chart() -> None:
    rows = [owned("gone", 0, 5), owned("here", 0, 5)]
    assert chart_order(rows, [], GroupRow("here")) == ["here"]


def test_the_partitions_with_most_changes_are_drawn_in_their_order() -> None:
    rows = [
        {**owned("g", part, 100 - each), "valid_to": None, "topic": "orders"}
        for part in range(20)
        for each in range(1 + part % 2)
    ]
    for row in rows:
        row["partition"] = (row["topic"], row["partition"])
    rows.sort(key=lambda row: row["valid_from"])
    chart = owners.owner_chart("g", rows, AS_OF)
    assert chart.partitions == 20
    drawn = [lane.partition for lane in chart.lanes]
    assert len(drawn) == owners.LANES_MAX
    assert {f"orders-{part}" for part in range(1, 20, 2)} <= set(drawn)
    assert drawn == sorted(drawn, key=lambda name: int(name.split("-")[1]))


def test_the_newest_owner_is_none_after_the_last_one_left() -> None:
    rows = [
        {**owned("g", 0, 9), "valid_to": ago(minutes=5), "end_reason": "member_left"},
        {**owned("g", 1, 9, "other"), "valid_to": None},
    ]
    for row in rows:
        row.update(partition=("orders", row["partition"]), client_host=None)
    chart = owners.owner_chart("g", rows, AS_OF)
    assert [lane.newest for lane in chart.lanes] == ["none", "other"]
    assert chart.lanes[1].spans[0].start + chart.lanes[1].spans[0].width == 100


def test_members_with_the_same_client_have_their_member_ids() -> None:
    rows = [
        {**owned("g", 0, 9, "m1"), "client_id": "app", "valid_to": None},
        {**owned("g", 1, 9, "m2"), "client_id": "app", "valid_to": None},
    ]
    for row in rows:
        row.update(partition=("orders", row["partition"]), client_host=None)
    chart = owners.owner_chart("g", rows, AS_OF)
    assert [owner for _, owner in chart.owners] == ["m1", "m2"]
