"""`python -m sim`: run worlds."""

from __future__ import annotations

import argparse
import sys
import time

from sim.exhaustive import explore
from sim.mutants import all_mutants, hunt
from sim.runner import run_seed, run_seeds


def main() -> int:
    """Run what was asked for; 1 when something is broken."""
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="one world, with its transcript")
    parser.add_argument("--seeds", default="1-300", help="many worlds: first-last")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--last", type=int, default=80, help="lines of a transcript")
    parser.add_argument(
        "--until-broken", action="store_true", help="stop at the first that breaks"
    )
    parser.add_argument(
        "--mutants", action="store_true", help="look for the bugs of sim/mutants"
    )
    parser.add_argument(
        "--exhaustive",
        type=int,
        metavar="DEPTH",
        help="every interleaving of a small world, to a depth",
    )
    given = parser.parse_args()
    if given.exhaustive is not None:
        print(f"every interleaving: {explore(given.exhaustive)}")
        return 0
    if given.mutants:
        return _hunt()
    if given.seed is not None:
        outcome = run_seed(given.seed)
        print(outcome.transcript)
        print(outcome)
        return bool(outcome.broken)
    first, last = map(int, given.seeds.split("-"))
    began = time.monotonic()
    count = steps = failures = 0
    for outcome in run_seeds(range(first, last + 1), given.jobs):
        count += 1
        steps += outcome.steps
        if outcome.broken:
            failures += 1
            print(outcome)
            if given.until_broken:
                break
    seconds = time.monotonic() - began
    print(
        f"{count} worlds, {steps} steps, {failures} broken, in {seconds:.1f} s: "
        f"{count / seconds:.1f} worlds a second"
    )
    return bool(failures)


def _hunt() -> int:
    """Look for every mutant; 1 when one got away."""
    away = 0
    for found in hunt(all_mutants()):
        away += found.how is None
        print(f"{found.mutant.name}: {found.mutant.what}")
        print(f"  {found.how or 'GOT AWAY'}", flush=True)
    print(f"{len(all_mutants())} mutants, {away} got away")
    return bool(away)


if __name__ == "__main__":
    sys.exit(main())
