"""Mutants: each patch applies, and the simulation detects one of them."""

from __future__ import annotations

import subprocess

import pytest

from sim.mutants import ROOT, Mutant, all_mutants, hunt

MUTANTS_MIN = 15


def test_the_number_of_mutants_does_not_shrink() -> None:
    mutants = all_mutants()
    assert len(mutants) >= MUTANTS_MIN
    assert all(mutant.what.endswith(".") for mutant in mutants)


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda each: each.name)
def test_each_mutant_patch_applies(mutant: Mutant) -> None:
    command = ["git", "apply", "--check", "-p1", str(mutant.patch)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.slow
def test_the_simulation_detects_a_mutant() -> None:
    (mutant,) = [
        each for each in all_mutants() if each.name == "owned-partition-assigned"
    ]
    (found,) = hunt([mutant])
    assert found.how is not None
    assert "BROKEN" in found.how
