"""Changes of a draft, which are applied before the records of the same result."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.client_side.values import Computation
from coterie.broker.coordinator.consumer.draft import ComputationSet
from coterie.broker.coordinator.state import State


@pytest.mark.parametrize(
    "ended", [None, Computation("", passed_over=frozenset({"m"}))], ids=["end", "skip"]
)
def test_the_end_of_a_computation_creates_no_group(ended: Computation | None) -> None:
    state = State()
    ComputationSet("g", ended).apply(state)
    assert state.consumer_groups == {}
    begun = Computation("m")
    ComputationSet("g", begun).apply(state)
    assert state.consumer_groups["g"].computation == begun
    ComputationSet("g", ended).apply(state)
    assert state.consumer_groups["g"].computation == ended
