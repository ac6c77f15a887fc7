"""Fuzz every decoder for a limited time; exit with 1 if one raises any other error than
MalformedFrame.

    python -m fuzz --seconds 60
    python -m fuzz --only "record batches" --seed 7

fuzz/mutator.py generates the inputs, the same inputs for the same seed. If atheris is
installed and no seed is given, atheris generates the inputs for the second half of the
time, guided by coverage.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from random import Random
from typing import Final

from coterie.errors import MalformedFrame
from fuzz.mutator import mutate
from fuzz.targets import Target, families, targets

SECONDS: Final = 60.0
INPUTS_MAX: Final = 50_000_000
ROUND: Final = 50
"""The number of inputs of one target before the next target."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer; return 0 when no bug was found."""
    options = _parse(arguments)
    chosen = [target for target in targets() if options.only in target.name]
    guided = [target for target in families() if options.only in target.name]
    if not chosen:
        print(f"no decoder has {options.only!r} in its name", file=sys.stderr)
        return 2
    seconds: float = options.seconds
    if options.seed is not None or find_spec("atheris") is None or not guided:
        return _fuzz(chosen, seconds, options.count, options.seed)
    return _fuzz(chosen, seconds / 2, options.count, None) or _guide(
        guided, seconds / 2
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument(
        "--count", type=int, default=INPUTS_MAX, help="largest number of inputs"
    )
    parser.add_argument("--seed", type=int, help="seed of the inputs, to repeat a run")
    parser.add_argument("--only", default="", help="part of a decoder's name")
    return parser.parse_args(arguments)


def _fuzz(
    chosen: Sequence[Target], seconds: float, count: int, seed: int | None
) -> int:
    if seed is None:
        seed = time.time_ns() % 2**32
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
