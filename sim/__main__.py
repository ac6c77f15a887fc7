"""`python -m sim`: run simulated worlds."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from sim.disk import STORES
from sim.exhaustive import explore
from sim.mutants import all_mutants, hunt
from sim.runner import Outcome, run_gateway_seed, run_seed, run_seeds


def main() -> int:
    """Run the command line; return 1 if a world violates an invariant."""
    given = _arguments().parse_args()
    if given.exhaustive is not None:
        print(f"every interleaving: {explore(given.exhaustive)}")
        return 0
    if given.mutants is not None:
        return _hunt(given.mutants, given.jobs)
    if given.seed is not None:
        return _print_world(given.seed, given.store, gateway=given.gateway)
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    outcomes = run_seeds(seeds, given.jobs, given.store, gateway=given.gateway)
    if given.history is not None:
        outcomes = _export(outcomes, given.history)
    return _run(outcomes, until_broken=given.until_broken)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument(
        "--seed", type=int, help="seed of one world; print its transcript"
    )
    parser.add_argument("--seeds", default="1-300", help="range of seeds, first-last")
    parser.add_argument(
        "--store",
        choices=STORES,
        default=STORES[0],
        help="store of the simulated server's log",
    )
    parser.add_argument(
        "--gateway",
        action="store_true",
        help="simulate several nodes of a gateway and their upstream cluster",
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument(
        "--until-broken",
        action="store_true",
        help="stop at the first world that violates an invariant",
    )
    parser.add_argument(
        "--history",
        type=Path,
        help="file for the histories of commits and fetches, with --gateway",
    )
    parser.add_argument(
        "--mutants",
        nargs="*",
        metavar="NAME",
        help="run all mutants of sim/mutants, or only those named",
    )
    parser.add_argument(
        "--exhaustive",
        type=int,
        metavar="DEPTH",
        help="depth of the exhaustive exploration of a small world",
    )
    return parser


def _print_world(seed: int, store: str, *, gateway: bool) -> int:
    outcome = run_gateway_seed(seed) if gateway else run_seed(seed, store=store)
    print(outcome.transcript)
    print(outcome)
    return bool(outcome.broken)


def _run(outcomes: Iterable[Outcome], *, until_broken: bool) -> int:
    began = time.monotonic()
    count = steps = failures = 0
    for outcome in outcomes:
        count += 1
        steps += outcome.steps
        if outcome.broken:
            failures += 1
            print(outcome, flush=True)
            if until_broken:
                break
    seconds = time.monotonic() - began
    print(
        f"{count} worlds, {steps} steps, {failures} broken, in {seconds:.1f} s: "
        f"{count / seconds:.1f} worlds a second"
    )
    return bool(failures)


def _export(outcomes: Iterable[Outcome], path: Path) -> Iterator[Outcome]:
    """Write the history of each world as a line of a file."""
    with path.open("w") as file:
        for outcome in outcomes:
            file.write(f"{outcome.history}\n")
            yield outcome


def _hunt(names: list[str], jobs: int) -> int:
    """Run every mutant; return 1 if the simulation does not find one."""
    mutants = [each for each in all_mutants() if not names or each.name in names]
    missed = 0
    for found in hunt(mutants, jobs):
        missed += found.how is None
        print(f"{found.mutant.name}: {found.mutant.what}")
        print(f"  {found.how or 'NOT FOUND'}", flush=True)
    print(f"{len(mutants)} mutants, {missed} not found")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
