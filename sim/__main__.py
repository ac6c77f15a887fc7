"""Run worlds: `python -m sim --seed 7`, or `python -m sim --seeds 0-9999 --jobs 2`."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.progress import Progress

from sim.world import World

CHUNK = 50


def run_seed(seed: int) -> str | None:
    """One world; what went wrong and how it came to that, or None."""
    world = World(seed)
    try:
        world.run()
    except Exception:
        lines = [f"seed {seed}", *world.transcript.lines(), traceback.format_exc()]
        return "\n".join(lines)
    return None


def run_seeds(seeds: range) -> list[str]:
    """Many worlds, one after the other; what went wrong in them."""
    found = (run_seed(seed) for seed in seeds)
    return [failure for failure in found if failure is not None]


def main() -> int:
    """0 if every world held, 1 if one did not."""
    parser = argparse.ArgumentParser(prog="sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="one world, with its transcript")
    parser.add_argument("--seeds", default="0-499", help="worlds from A to B: A-B")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    if given.seed is not None:
        return _one(given.seed)
    first, _, last = given.seeds.partition("-")
    return _many(range(int(first), int(last or first) + 1), given.jobs)


def _one(seed: int) -> int:
    world = World(seed)
    try:
        world.run()
    finally:
        sys.stdout.write("\n".join(world.transcript.lines()) + "\n")
    return 0


def _many(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    failures: list[str] = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("worlds", total=len(seeds))
        for chunk, found in _chunks(seeds, jobs):
            failures += found
            progress.advance(task, len(chunk))
    seconds = time.monotonic() - began
    for failure in failures[:3]:
        sys.stdout.write(failure + "\n")
    a_minute = len(seeds) / seconds * 60
    sys.stdout.write(
        f"{len(seeds)} worlds, {len(failures)} failed, {a_minute:,.0f} a minute\n"
    )
    return 1 if failures else 0


def _chunks(seeds: range, jobs: int) -> Iterator[tuple[range, list[str]]]:
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    if jobs == 1:
        yield from ((chunk, run_seeds(chunk)) for chunk in chunks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(chunks, pool.map(run_seeds, chunks), strict=True)


if __name__ == "__main__":
    sys.exit(main())
