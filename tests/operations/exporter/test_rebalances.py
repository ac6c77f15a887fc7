"""Counts of rebalances from the differences between polls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.client.admin.groups import GroupDescription, GroupState
from coterie.operations.exporter.rebalances import RebalanceCounts
from tests.operations.fake_admin import group, member

STABLE = group("g", member("a", ("t", 0)))
MOVED = group("g", member("a", ("t", 1)))
JOINING = replace(STABLE, state=GroupState.PREPARING_REBALANCE, members=())
SYNCING = replace(STABLE, state=GroupState.COMPLETING_REBALANCE)
EMPTY = replace(STABLE, state=GroupState.EMPTY, members=())


def epoch(number: int) -> GroupDescription:
    return replace(STABLE, group_epoch=number)


def generation(number: int) -> GroupDescription:
    return replace(STABLE, generation_id=number)


@pytest.mark.parametrize(
    ("polls", "count"),
    [
        ([STABLE], 0),
        ([STABLE, STABLE], 0),
        ([epoch(3), epoch(3), epoch(7)], 4),
        ([generation(3), generation(4)], 1),
        ([epoch(9), epoch(2)], 1),  # deleted and created again
        ([epoch(9), epoch(0)], 0),
        ([STABLE, MOVED], 1),
        ([STABLE, JOINING, SYNCING, MOVED], 1),
        ([STABLE, JOINING, STABLE, JOINING, STABLE], 2),
        ([EMPTY, STABLE, EMPTY], 2),
    ],
)
def test_rebalances_are_counted(polls: list[GroupDescription], count: int) -> None:
    counts = RebalanceCounts()
    for each in polls:
        counts.add(each)
    assert counts.counts["g"] == count


def test_groups_that_went_away_are_forgotten() -> None:
    counts = RebalanceCounts()
    counts.add(epoch(1))
    counts.keep(["other"])
    assert "g" not in counts.counts
    counts.add(epoch(5))
    assert counts.counts["g"] == 0
