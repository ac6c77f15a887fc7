"""Stored state: how updates combine."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from coterie.broker.coordinator.share_partition.state import (
    ShareState,
    StateBatch,
    StateUpdate,
    combined,
)

STATE = ShareState(3, 1, 0, 10, 0, 0, 0)


def per_offset(batches: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    states: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for at in range(max(first, start), last + 1):
            states[at] = max(states.get(at, (-1, -1)), (count, state))
    return states


@pytest.mark.fact("SG-335")
@pytest.mark.parametrize("seed", range(50))
def test_overlapping_batches_combine_by_offset(seed: int) -> None:
    chance = Random(seed)
    batches = []
    for _ in range(chance.randint(0, 12)):
        first = chance.randint(0, 30)
        last = first + chance.randint(0, 10)
        state, count = chance.choice([0, 2, 4]), chance.randint(1, 3)
        batches.append(StateBatch(first, last, state, count))
    start = chance.randint(0, 20)
    result = list(combined(batches, start))
    assert per_offset(result, 0) == per_offset(batches, start)
    for one, two in pairwise(result):
        assert one.last_offset < two.first_offset
        assert one[1:] != (two.first_offset - 1, *two[2:]), "neighbours are joined"


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [(10, 5, (10, 5)), (8, 5, (8 + 2, 0)), (12, 1, (12, 1))],
)
def test_an_update_never_lowers_the_start_offset(
    start: int, count: int, expected: tuple[int, int]
) -> None:
    state = STATE.updated(StateUpdate(start, count, ()))
    assert (state.start_offset, state.delivery_complete_count) == expected
    assert state.update_count == 1


def test_an_update_drops_what_is_below_its_start_offset() -> None:
    state = STATE.updated(StateUpdate(10, 2, (StateBatch(10, 14, 2, 1),)))
    state = state.updated(StateUpdate(13, 2, (StateBatch(16, 16, 0, 1),)))
    assert state.batches == (StateBatch(13, 14, 2, 1), StateBatch(16, 16, 0, 1))
