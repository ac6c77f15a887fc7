"""The bugs put in on purpose: they apply, and one of them is hunted down."""

from __future__ import annotations

import subprocess

import pytest

from sim.mutants import ROOT, Mutant, all_mutants, hunt

MUTANTS_MIN = 15


def test_there_are_enough_of_them() -> None:
    mutants = all_mutants()
    assert len(mutants) >= MUTANTS_MIN
    assert all(mutant.what.endswith(".") for mutant in mutants)


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda each: each.name)
def test_each_still_applies(mutant: Mutant) -> None:
    command = ["git", "apply", "--check", "-p1", str(mutant.patch)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.slow
def test_one_is_found() -> None:
    (mutant,) = [
        each for each in all_mutants() if each.name == "hands-out-what-is-held"
    ]
    (found,) = hunt([mutant])
    assert found.how is not None
    assert "BROKEN" in found.how
