"""Every interleaving of a small world, and that a bug in it is found."""

from __future__ import annotations

import pytest

from coterie.coordinator.consumer import reconcile
from sim.broken import Broken
from sim.exhaustive import explore


@pytest.mark.slow
def test_nothing_breaks_to_a_small_depth() -> None:
    explored = explore(3)
    assert explored.worlds > 100


@pytest.mark.slow
def test_a_bug_is_found_and_the_steps_to_it_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A partition is handed out while somebody else holds it."""
    monkeypatch.setattr(reconcile, "_still_owns", lambda owned, revoked: False)
    with pytest.raises(Broken, match=r"(?s)reads .* may not, after:.*beats"):
        explore(4)
