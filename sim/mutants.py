"""Bugs put in on purpose: the simulation is worth what it finds of them.

Each patch of `sim/mutants` is one bug in the coordinator, or in what it stands on; its
first line says which. A patch is applied to a copy of the sources, and worlds are lived
through in it until one breaks. A patch that no longer applies is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent
WORLDS: Final = 2_000
"""How many worlds a mutant may live through before it has got away."""
PATIENCE_S: Final = 900


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug."""

    name: str
    what: str
    patch: Path


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a mutant: which world broke and how, or that none did."""

    mutant: Mutant
    how: str | None


def all_mutants() -> list[Mutant]:
    """Every bug there is a patch of, by name."""
    patches = sorted((HERE / "mutants").glob("*.patch"))
    return [
        Mutant(patch.stem, patch.read_text().splitlines()[0], patch)
        for patch in patches
    ]


def hunt(mutants: list[Mutant], jobs: int = 1) -> Iterator[Found]:
    """Look for each of them, some at a time.

    Raises RuntimeError when a patch does not apply.
    """
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(_hunt_one, mutants)


def _hunt_one(mutant: Mutant) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        for part in ("src", "sim"):
            ignored = shutil.ignore_patterns("__pycache__", "mutants")
            shutil.copytree(ROOT / part, where / part, ignore=ignored)
        _apply(mutant, where)
        return Found(mutant, _look_for(where))


def _apply(mutant: Mutant, where: Path) -> None:
    command = ["git", "apply", "-p1", str(mutant.patch.absolute())]
    done = subprocess.run(command, cwd=where, check=False, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{mutant.name} does not apply: {done.stderr.decode()}")


def _look_for(where: Path) -> str | None:
    """The line that says how a world broke; None when all of them held."""
    worlds = ["-m", "sim", "--seeds", f"1-{WORLDS}", "--until-broken"]
    done = subprocess.run(
        [sys.executable, *worlds],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(where / "src")},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    broken = [line for line in done.stdout.splitlines() if "BROKEN" in line]
    return broken[0] if broken else None
