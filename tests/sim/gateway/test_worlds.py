"""Simulated worlds of several gateway nodes: no invariant is violated, and runs depend
only on their seed.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sim.broken import BugRecorder
from sim.gateway.plan import GatewayPlan
from sim.gateway.world import GatewayWorld
from sim.mutants import ROOT
from sim.runner import run_gateway_seed


def plan_of(seed: int) -> GatewayPlan:
    return GatewayWorld(seed, BugRecorder()).gateway


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 25))
def test_a_world_of_several_nodes_keeps_the_invariants(seed: int) -> None:
    outcome = run_gateway_seed(seed, keep_transcript=False)
    assert outcome.broken is None, outcome


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_reproduces_the_same_run_in_any_process(hash_seed: str) -> None:
    """Compare the transcript, which ends with checksums of upstream's logs."""
    first = run_gateway_seed(3)
    assert "upstream's partition 0 has" in first.transcript
    done = subprocess.run(
        [sys.executable, "-m", "sim", "--gateway", "--seed", "3"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{first.transcript}\n{first}\n"


def test_another_seed_gives_another_plan() -> None:
    assert plan_of(1) != plan_of(2)
