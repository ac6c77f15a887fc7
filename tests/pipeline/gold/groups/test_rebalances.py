"""Moves of partitions, and rebalance storms."""

from __future__ import annotations

import pytest

from coterie.pipeline.gold.groups.rebalances import fewest_moves
from coterie.pipeline.gold.groups.record import TopicPartition
from tests.pipeline.gold.groups.group_log import GroupLog, generation


def test_five_rebalances_in_ten_minutes_are_a_storm_until_ten_quiet_minutes() -> None:
    log = GroupLog()
    pauses = [0, 700, 10, 10, 10, 10, 599, 600, 1, 1]
    for number, pause_s in enumerate(pauses, 1):
        members = {"a": [number], "b": [number]} if number % 2 else {"a": [number]}
        log.batch(generation(number, members), after_s=pause_s)
    storms = [(row["storm_id"], row["storm_size"]) for row in log.replay().rebalances]
    assert storms == [(None, None)] + [("g@1", 6)] * 6 + [(None, None)] * 3


def test_a_group_that_only_starts_and_grows_has_no_storm() -> None:
    log = GroupLog()
    for number in range(1, 13):
        members = {f"m{each}": [each] for each in range(number)}
        log.batch(generation(number, members), after_s=1)
    assert {row["storm_id"] for row in log.replay().rebalances} == {None}


def _owners(owners: str) -> dict[TopicPartition, str]:
    return {
        TopicPartition(None, "t", i): owner
        for i, owner in enumerate(owners)
        if owner != "-"
    }


@pytest.mark.parametrize(
    ("before", "after", "fewest"),
    [
        ("aaaa", "aabb", 2),
        ("aaaa", "abab", 2),
        ("aabb", "bbaa", 0),
        ("aabbcc", "aaabbb", 2),
        ("aabb--", "aabbcc", 0),
        ("aabb", "cccc", 4),
        ("----", "aabb", 0),
        ("aaab", "ab--", 1),
    ],
)
def test_the_fewest_possible_moves_are_computed(
    before: str, after: str, fewest: int
) -> None:
    assert fewest_moves(_owners(before), _owners(after)) == fewest
