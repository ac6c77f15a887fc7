"""Fuzz every decoder and a whole broker for a limited time; exit with 1 if a decoder
raises any other error than MalformedFrame, or the broker has a bug.

    python -m fuzz --seconds 60
    python -m fuzz --only "record batches" --seed 7
    python -m fuzz --only requests --seed 7 --count 10000

fuzz/mutator.py generates the inputs of decoders, and fuzz/request_values.py requests;
the same ones for the same seed. The decoders and the broker have half of the time each.
If atheris is installed and no seed is given, atheris generates the decoders' inputs for
half of their time, guided by coverage.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Final

from coterie.errors import MalformedFrame
from fuzz.mutator import mutate
from fuzz.requests import BugFound, Fuzzer
from fuzz.target import Target
from fuzz.targets import families, targets

SECONDS: Final = 60.0
INPUTS_MAX: Final = 50_000_000
REQUESTS: Final = "requests"
ROUND: Final = 50
"""The number of inputs of one target before the next target."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer; return 0 when no bug was found."""
    options = _parse(arguments)
    seed = time.time_ns() % 2**32 if options.seed is None else options.seed
    if options.only == REQUESTS:
        return send_requests(options.seconds, options.count, seed)
    chosen = [target for target in targets() if options.only in target.name]
    guided = [target for target in families() if options.only in target.name]
    if not chosen:
        print(f"no decoder has {options.only!r} in its name", file=sys.stderr)
        return 2
    seconds: float = options.seconds
    if not options.only:
        seconds /= 2
        if send_requests(seconds, options.count, seed):
            return 1
    if options.seed is not None or find_spec("atheris") is None or not guided:
        return fuzz_decoders(chosen, seconds, options.count, seed)
    return fuzz_decoders(chosen, seconds / 2, options.count, seed) or _guide(
        guided, seconds / 2
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument(
        "--count", type=int, default=INPUTS_MAX, help="largest number of inputs"
    )
    parser.add_argument("--seed", type=int, help="seed of the inputs, to repeat a run")
    parser.add_argument(
        "--only", default="", help=f"part of a decoder's name, or {REQUESTS!r}"
    )
    return parser.parse_args(arguments)


def send_requests(seconds: float, count: int, seed: int) -> int:
    """Send requests to a broker; return 0 when no bug was found."""
    print(f"whole requests, {seconds:g} s, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        fuzzer = Fuzzer(seed, Path(directory))
        try:
            asyncio.run(fuzzer.run(seconds, count))
        except BugFound as error:
            print(f"{error}\nafter {fuzzer.sent} requests, with seed {seed}")
            return 1
    print(f"{fuzzer.sent} requests, each with a response; no bug, no closed connection")
    return 0


def fuzz_decoders(
    chosen: Sequence[Target], seconds: float, count: int, seed: int
) -> int:
    """Feed mutated bytes to decoders; return 0 when no bug was found."""
    print(f"{len(chosen)} decoders, {seconds:g} s, seed {seed}", flush=True)
    chance = Random(seed)
    deadline = time.monotonic() + seconds
    tried = malformed = 0
    while time.monotonic() < deadline and tried < count:
        for target in chosen:
            for _ in range(ROUND):
                data = mutate(chance.choice(target.seeds), target.seeds, chance)
                outcome = attempt(target, data)
                tried += 1
                malformed += outcome is False
                if outcome is None:
                    return 1
            if time.monotonic() >= deadline or tried >= count:
                break
    print(f"{tried} inputs, {malformed} malformed, the rest values; nothing else")
    return 0


def attempt(target: Target, data: bytes) -> bool | None:
    """Return True for a valid input, False for a malformed one, None for a bug."""
    try:
        target.run(data)
    except MalformedFrame:
        return False
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        traceback.print_exc()
        print(f"\nfound by {target.name}:\nbytes.fromhex({data.hex()!r})")
        return None
    return True


def _guide(chosen: Sequence[Target], seconds: float) -> int:
    """Run atheris in one process per target, because libFuzzer exits its process."""
    each = max(1, round(seconds / len(chosen)))
    for target in chosen:
        command = [sys.executable, "-m", "fuzz.guided", target.name, str(each)]
        print(f"{target.name}, guided by coverage: {each} s", flush=True)
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode:
            print(done.stdout.decode(errors="replace"), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
