"""Simulated worlds of several gateway nodes: no invariant is violated, and runs depend
only on their seed.
"""

from __future__ import annotations

import pytest

from coterie.gateway.ownership import Lease
from sim.broken import BugRecorder
from sim.gateway.plan import GatewayPlan
from sim.gateway.world import GatewayWorld
from sim.runner import run_gateway_seed


def plan_of(seed: int) -> GatewayPlan:
    return GatewayWorld(seed, BugRecorder()).gateway


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 25))
def test_a_world_of_several_nodes_keeps_the_invariants(seed: int) -> None:
    outcome = run_gateway_seed(seed, keep_transcript=False)
    assert outcome.broken is None, outcome


@pytest.mark.slow
def test_a_seed_reproduces_the_same_run() -> None:
    first, again = run_gateway_seed(3), run_gateway_seed(3)
    assert first.transcript
    assert first == again


def test_another_seed_gives_another_plan() -> None:
    assert plan_of(1) != plan_of(2)


@pytest.mark.slow
def test_a_lease_that_never_ends_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "is_held", lambda lease: not lease._has_ended)
    outcomes = (run_gateway_seed(seed, keep_transcript=False) for seed in range(1, 400))
    broken = next(outcome.broken for outcome in outcomes if outcome.broken)
    assert broken is not None
    assert "answers with" in broken
