"""Exhaustive exploration of a small model, and the detection of a bug in it."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.consumer import reconcile
from sim.broken import Broken
from sim.exhaustive import explore


@pytest.mark.slow
def test_the_invariants_hold_in_every_state_up_to_a_small_depth() -> None:
    explored = explore(3)
    assert explored.worlds > 100


@pytest.mark.slow
def test_a_violation_is_reported_with_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replace a function so that owned partitions are assigned to other members."""
    monkeypatch.setattr(reconcile, "_still_owns", lambda owned, revoked: False)
    with pytest.raises(Broken, match=r"(?s)reads .* may not, after:.*beats"):
        explore(4)
