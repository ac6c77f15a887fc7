"""How fast groups read, from two looks."""

from __future__ import annotations

import asyncio

import pytest

from coterie.operations.lag import GroupLag, group_lag
from coterie.operations.pace import Pace, pace
from coterie.types import TopicPartition

from .fake_admin import FakeAdmin, FakeLog, group


def seen(**places: tuple[int, int]) -> GroupLag:
    """A group that committed so much of a log which is so long, for each topic."""
    logs = {
        TopicPartition(topic, 0): FakeLog.of(0, end)
        for topic, (_, end) in places.items()
    }
    admin = FakeAdmin(logs=logs)
    admin.add(
        group("g"), **{topic: committed for topic, (committed, _) in places.items()}
    )
    (found,) = asyncio.run(group_lag(admin, ["g"])).groups
    return found


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((0, 100), (40, 110), Pace(20.0, 5.0, 4_667)),
        ((0, 100), (5, 110), Pace(2.5, 5.0, None)),
        ((0, 100), (100, 100), Pace(50.0, 0.0, 0)),
        ((90, 100), (10, 100), Pace()),
    ],
)
def test_what_was_read_and_written_between_two_looks(
    before: tuple[int, int], after: tuple[int, int], expected: Pace
) -> None:
    assert pace(seen(t=before), seen(t=after), 2_000) == expected


def test_only_partitions_that_were_known_both_times_count() -> None:
    before, after = seen(t=(0, 10)), seen(t=(5, 10), u=(900, 1_000))
    assert pace(before, after, 1_000).read_per_s == 5.0


def test_no_time_and_nothing_known_are_no_pace() -> None:
    assert pace(seen(t=(0, 9)), seen(t=(1, 9)), 0) == Pace()
    assert pace(seen(u=(0, 9)), seen(t=(1, 9)), 1_000) == Pace()
