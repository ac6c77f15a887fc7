"""Sums of lag, and the rates of groups between two reports."""

from __future__ import annotations

import asyncio

import pytest

from coterie.operations.lag import GroupLag, group_lag
from coterie.operations.lag_rollup import (
    ConsumptionRate,
    RollupBy,
    consumption_rate,
    roll_up,
)
from coterie.types import TopicPartition

from .fake_admin import FakeAdmin, FakeLog, group, member


def lag_of(**places: tuple[int, int]) -> GroupLag:
    """Return a group with the commit and the log end of each topic."""
    logs = {
        TopicPartition(topic, 0): FakeLog.of(0, end)
        for topic, (_, end) in places.items()
    }
    admin = FakeAdmin(known_logs=logs)
    admin.add(
        group("g"), **{topic: committed for topic, (committed, _) in places.items()}
    )
    (found,) = asyncio.run(group_lag(admin, ["g"])).groups
    return found


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((0, 100), (40, 110), ConsumptionRate(20.0, 5.0, 4_667)),
        ((0, 100), (5, 110), ConsumptionRate(2.5, 5.0, None)),
        ((0, 100), (100, 100), ConsumptionRate(50.0, 0.0, 0)),
        ((90, 100), (10, 100), ConsumptionRate()),
    ],
)
def test_rates_are_computed_from_two_reports(
    before: tuple[int, int], after: tuple[int, int], expected: ConsumptionRate
) -> None:
    assert consumption_rate(lag_of(t=before), lag_of(t=after), 2_000) == expected


def test_rates_cover_partitions_known_in_both_reports() -> None:
    before, after = lag_of(t=(0, 10)), lag_of(t=(5, 10), u=(900, 1_000))
    assert consumption_rate(before, after, 1_000).read_per_s == 5.0


def test_rates_leave_out_partitions_that_moved_back() -> None:
    before = lag_of(t=(0, 10), reset=(9, 10), recreated=(2, 10))
    after = lag_of(t=(5, 12), reset=(1, 10), recreated=(3, 4))
    rate = consumption_rate(before, after, 1_000)
    assert (rate.read_per_s, rate.written_per_s) == (5.0, 2.0)


def test_a_rate_without_elapsed_time_or_offsets_is_unknown() -> None:
    assert consumption_rate(lag_of(t=(0, 9)), lag_of(t=(1, 9)), 0) == ConsumptionRate()
    assert (
        consumption_rate(lag_of(u=(0, 9)), lag_of(t=(1, 9)), 1_000) == ConsumptionRate()
    )


def owned_by_two(end: int = 10) -> GroupLag:
    """Return a group with two members that own the same partition of two."""
    logs = {TopicPartition("t", each): FakeLog.of(0, end) for each in (0, 1)}
    admin = FakeAdmin(known_logs=logs)
    admin.add(group("g", member("a", ("t", 0)), member("b", ("t", 0), ("t", 1))), t=0)
    (found,) = asyncio.run(group_lag(admin, ["g"])).groups
    return found


def test_a_partition_of_two_members_is_counted_once() -> None:
    found = owned_by_two()
    assert [each.lag for each in found.rows if each.partition == 0] == [10, 10]
    assert found.total == 10
    for by in (RollupBy.GROUP, RollupBy.TOPIC):
        (sums,) = roll_up([found], by)
        assert (sums.lag, sums.partitions, sums.lagging) == (10, 2, 1)
        assert sums.uncommitted == 1
    of_members = roll_up([found], RollupBy.MEMBER)
    assert [(each.key, each.lag) for each in of_members] == [("a-id", 10), ("b-id", 10)]


def test_the_rate_of_a_partition_of_two_members_is_counted_once() -> None:
    rate = consumption_rate(owned_by_two(10), owned_by_two(30), 1_000)
    assert rate.written_per_s == 20.0
