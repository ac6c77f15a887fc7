"""The load generator: kloadgen.c, built when needed, run, and its answer checked.

It is in C because a generator in Python would be slower than what it measures. Every
answer's correlation id and error code is checked; one that is wrong fails the bench.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Rounds, Skipped
from benchmarks.processes import BUILD

SOURCE = Path(__file__).with_name("kloadgen.c")
BINARY = BUILD / "kloadgen"
WARM_UP_S = 0.5
GENERATOR_CPU = min(1, (os.cpu_count() or 1) - 1)
SATURATED = 0.97
"""Above this share of its core the generator, not the server, was the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the frames are sent: connections, requests in flight on each, and where in
    the answer (from its correlation id on; negative from its end) the error stands."""

    connections: int
    in_flight: int = 1
    error_at: int


@dataclass(frozen=True, slots=True)
class Load:
    """What one run measured; rate in requests/s, latency in us, CPU as a share."""

    rate: float
    p50_us: float
    p99_us: float
    client_cpu: float

    def __str__(self) -> str:
        limit = ", generator saturated" if self.client_cpu > SATURATED else ""
        return (
            f"{self.rate:,.0f}/s p50 {self.p50_us:,.0f} p99 {self.p99_us:,.0f} us, "
            f"client {self.client_cpu:.0%}{limit}"
        )


def built() -> Path:
    """The generator, compiled anew when its source is newer.

    Raises Skipped when there is no C compiler.
    """
    if BINARY.exists() and BINARY.stat().st_mtime >= SOURCE.stat().st_mtime:
        return BINARY
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Skipped("NO C COMPILER (gcc or cc): the load generator cannot be built")
    BINARY.parent.mkdir(exist_ok=True)
    command = [compiler, "-O2", "-o", str(BINARY), str(SOURCE)]
    subprocess.run(command, check=True)
    return BINARY


def load(address: str, frames: Sequence[bytes], shape: Shape, rounds: Rounds) -> Load:
    """Send the frames in turn for one round.

    Raises RuntimeError when an answer carried an error or a connection was lost.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".hex") as file:
        file.writelines(f"{frame.hex()}\n" for frame in frames)
        file.flush()
        command = [str(built()), "-t", address, "-f", file.name, "-j"]
        command += ["-c", str(shape.connections), "-P", str(shape.in_flight)]
        command += ["-d", str(rounds.seconds), "-w", str(WARM_UP_S)]
        command += ["-e", str(shape.error_at), "-C", str(GENERATOR_CPU)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"load on {address}: {done.stdout}{done.stderr}")
    said: dict[str, Any] = json.loads(done.stdout)
    return Load(said["rps"], said["p50_us"], said["p99_us"], said["client_cpu"])
