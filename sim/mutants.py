"""Mutation tests of the simulation: deliberate bugs that it must find. Each patch of
`sim/mutants` is one bug in the coordinator or below it, or in the gateway if its name
says so, described by its first line. A patch is applied to a copy of the sources, where
worlds run until one violates an invariant. A patch that does not apply is an error.
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
"""The number of worlds that a mutant may survive."""
PATIENCE_S: Final = 900


@dataclass(frozen=True, slots=True)
class Mutant:
    """A deliberate bug."""

    name: str
    what: str
    patch: Path

    @property
    def is_of_gateway(self) -> bool:
        """Whether worlds of several gateway nodes must find it."""
        return self.name.startswith("gateway-")


@dataclass(frozen=True, slots=True)
class MutantResult:
    """The result for a mutant: the violated invariant, or None."""

    mutant: Mutant
    how: str | None


def all_mutants() -> list[Mutant]:
    """Return all mutants by name."""
    patches = sorted((HERE / "mutants").glob("*.patch"))
    return [
        Mutant(patch.stem, patch.read_text().splitlines()[0], patch)
        for patch in patches
    ]


def hunt(mutants: list[Mutant], jobs: int = 1) -> Iterator[MutantResult]:
    """Run the mutants, several at a time. Raise RuntimeError when a patch does not
    apply.
    """
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(_hunt_one, mutants)


def _hunt_one(mutant: Mutant) -> MutantResult:
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        for part in ("src", "sim"):
            ignored = shutil.ignore_patterns("__pycache__", "mutants")
            shutil.copytree(ROOT / part, where / part, ignore=ignored)
        apply(mutant, where)
        return MutantResult(mutant, _find_broken(mutant, where))


def apply(mutant: Mutant, where: Path) -> None:
    """Apply a mutant to a copy of the sources. Raise RuntimeError when it does not
    apply.
    """
    command = ["git", "apply", "-p1", str(mutant.patch.absolute())]
    done = subprocess.run(command, cwd=where, check=False, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{mutant.name} does not apply: {done.stderr.decode()}")


def _find_broken(mutant: Mutant, where: Path) -> str | None:
    """Return the output line of a world that violates an invariant; None if there is
    none.
    """
    worlds = ["-m", "sim", "--seeds", f"1-{WORLDS}", "--until-broken"]
    if mutant.is_of_gateway:
        worlds.append("--gateway")
    try:
        done = subprocess.run(
            [sys.executable, *worlds],
            cwd=where,
            env={**os.environ, "PYTHONPATH": str(where / "src")},
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return None  # a world that does not end shows nothing
    broken = [line for line in done.stdout.splitlines() if "BROKEN" in line]
    return broken[0] if broken else None
