"""The simulation: runs converge, depend only on their seed, and report violations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.broker.coordinator.consumer import reconcile
from sim.broken import Broken, BugRecorder, recording_bugs
from sim.plan import Kind, Plan
from sim.runner import run_seed
from sim.world import World


def plan_of(seed: int) -> Plan:
    return World(seed, BugRecorder()).plan


def seeds_with(kind: Kind) -> Iterator[int]:
    """Return the seeds of worlds whose one group has that type."""
    for seed in range(1, 1_000):
        groups = plan_of(seed).groups
        if len(groups) == 1 and groups[0].kind is kind:
            yield seed


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*Kind])
def test_a_simulated_run_converges(kind: Kind) -> None:
    outcome = run_seed(next(seeds_with(kind)))
    assert outcome.broken is None, outcome


@pytest.mark.slow
def test_a_seed_reproduces_the_same_run() -> None:
    first, again = run_seed(11), run_seed(11)
    assert first.transcript
    assert first == again


def test_another_seed_gives_another_run() -> None:
    assert plan_of(1) != plan_of(2)


@pytest.mark.slow
def test_a_violation_is_detected_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a function so that partitions are assigned before they are revoked."""
    monkeypatch.setattr(reconcile, "_still_owns", lambda owned, revoked: False)
    outcomes = (run_seed(seed) for seed in seeds_with(Kind.CONSUMER))
    outcome = next(outcome for outcome in outcomes if outcome.broken)
    assert outcome.broken is not None
    assert "two owners" in outcome.broken
    assert "reads" in outcome.transcript


def test_a_bug_logged_by_the_server_fails_the_run() -> None:
    with recording_bugs() as recorder:
        world = World(1, recorder)
        world.start_server()
        assert world.server is not None
        world.server.loop.settle()
        world.server.runtime.broadcast(object())
        with pytest.raises(Broken, match="a bug"):
            world.advance(5_000)


@pytest.mark.slow
def test_a_run_is_the_same_with_journals() -> None:
    assert run_seed(11, store="journal") == run_seed(11)
