"""The simulation itself: worlds come to order, replay exactly, and tell their story."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.coordinator.consumer import reconcile
from sim.broken import Broken, Ears, listening
from sim.plan import Kind, Plan
from sim.runner import run_seed
from sim.world import World


def plan_of(seed: int) -> Plan:
    return World(seed, Ears()).plan


def seeds_with(kind: Kind) -> Iterator[int]:
    """The seeds of worlds whose one group is of that kind."""
    for seed in range(1, 1_000):
        groups = plan_of(seed).groups
        if len(groups) == 1 and groups[0].kind is kind:
            yield seed


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*Kind])
def test_a_world_comes_to_order(kind: Kind) -> None:
    outcome = run_seed(next(seeds_with(kind)))
    assert outcome.broken is None, outcome


@pytest.mark.slow
def test_a_seed_replays_exactly() -> None:
    first, again = run_seed(11), run_seed(11)
    assert first.transcript
    assert first == again


def test_another_seed_is_another_world() -> None:
    assert plan_of(1) != plan_of(2)


@pytest.mark.slow
def test_a_bug_is_found_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is to revoke partitions is not waited for."""
    monkeypatch.setattr(reconcile, "_still_owns", lambda owned, revoked: False)
    outcomes = (run_seed(seed) for seed in seeds_with(Kind.CONSUMER))
    outcome = next(outcome for outcome in outcomes if outcome.broken)
    assert outcome.broken is not None
    assert "two owners" in outcome.broken
    assert "reads" in outcome.transcript


def test_what_the_server_logs_as_a_bug_breaks_a_world() -> None:
    with listening() as ears:
        world = World(1, ears)
        world.start_server()
        assert world.server is not None
        world.server.loop.settle()
        world.server.runtime.notify(object())
        with pytest.raises(Broken, match="a bug"):
            world._pass(5_000)
