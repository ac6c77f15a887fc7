"""Build and run the load generator kloadgen.c.

It is written in C: a generator in Python would be slower than the servers under test.
It checks the correlation id and the error code of every response; a wrong one fails the
benchmark.
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

from benchmarks.harness.figures import Rounds, Skipped
from benchmarks.harness.processes import BUILD

SOURCE = Path(__file__).with_name("kloadgen.c")
BINARY = BUILD / "kloadgen"
WARM_UP_S = 0.5
GENERATOR_CPU = min(1, (os.cpu_count() or 1) - 1)
SATURATED = 0.95
"""Above this share of its core the generator limits the rate, not the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """The connections, the requests in flight on each, and the place of the error code.

    `error_at` is the byte offset of the error code in the response after the size
    field; negative offsets count from the end.
    """

    connections: int
    in_flight: int = 1
    error_at: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a run: rate in requests/s, latency in us, CPU share of one core.

    `sent` also counts the requests of the warm-up.
    """

    rate: float
    p50_us: float
    p99_us: float
    client_cpu: float
    sent: int

    def __str__(self) -> str:
        limit = ", generator saturated" if self.client_cpu > SATURATED else ""
        return (
            f"{self.rate:,.0f}/s p50 {self.p50_us:,.0f} p99 {self.p99_us:,.0f} us, "
            f"client {self.client_cpu:.0%}{limit}"
        )


def build_generator() -> Path:
    """Compile the generator when its source changed; return the path of the program.

    Raises Skipped without a C compiler.
    """
    if BINARY.exists() and BINARY.stat().st_mtime >= SOURCE.stat().st_mtime:
        return BINARY
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Skipped(
            "NO C COMPILER (gcc or cc): the load generator cannot be build_generator"
        )
    BINARY.parent.mkdir(exist_ok=True)
    command = [compiler, "-O2", "-o", str(BINARY), str(SOURCE)]
    subprocess.run(command, check=True)
    return BINARY


def load(
    address: str, frames: Sequence[bytes], shape: LoadShape, rounds: Rounds
) -> LoadResult:
    """Send the frames in turn for the length of one round.

    Raises RuntimeError on a response with an error or a lost connection.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".hex") as file:
        file.writelines(f"{frame.hex()}\n" for frame in frames)
        file.flush()
        command = [str(build_generator()), "-t", address, "-f", file.name, "-j"]
        command += ["-c", str(shape.connections), "-P", str(shape.in_flight)]
        command += ["-d", str(rounds.seconds), "-w", str(WARM_UP_S)]
        command += ["-e", str(shape.error_at), "-C", str(GENERATOR_CPU)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"load on {address}: {done.stdout}{done.stderr}")
    values: dict[str, Any] = json.loads(done.stdout)
    return LoadResult(
        values["rps"],
        values["p50_us"],
        values["p99_us"],
        values["client_cpu"],
        values["sent"],
    )
