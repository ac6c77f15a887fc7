"""Simulated worlds of several gateway nodes: no invariant is violated, and runs depend
only on their seed.
"""

from __future__ import annotations

import pytest

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
