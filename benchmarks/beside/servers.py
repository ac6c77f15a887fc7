"""The servers that are compared: Apache Kafka and both builds of Coterie.

The compiled build is an installed wheel in a folder, which comes first on its server's
PYTHONPATH. `make compiled` builds it; COTERIE_COMPILED names another folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.load import SATURATED, LoadResult, LoadShape, load
from benchmarks.harness.processes import (
    BUILD,
    Server,
    coterie_command,
    python,
    running,
    settings,
)
from benchmarks.harness.table import COMPILED, PURE

KAFKA, MOCK, FLOOR = "Kafka", "librdkafka's mock", "a bare asyncio server"
BARE = "a write + fdatasync"
COMPILED_FOLDER = "COTERIE_COMPILED"
SESSION_MS = 1_800_000
"""Members of measured groups send no heartbeats while other servers have their turn."""
REBALANCE_DELAY_MS = 1_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": str(REBALANCE_DELAY_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
    "log.cleaner.enable": "false",
}
"""The settings of all servers that differ from Kafka's defaults.

Compaction would fall into the load of any later row: Coterie's runs every five minutes.
"""
_EXTENSION = re.compile(r"/coterie/(broker|wire)/\S*\.so$", re.MULTILINE)
SETTLE_S, SETTLED_SHARE, SETTLE_LIMIT_S = 0.3, 0.1, 20.0

Servers = Mapping[str, Server]
"""The running servers by side: Kafka, and the builds of Coterie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The result of one side in one round.

    `value` is a rate or a time; `cpu_us` the server's CPU time for a request.
    """

    value: float
    cpu_us: float | None = None
    client_cpu: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A comparison: the other side, and the bar of each build."""

    other: str
    bars: Mapping[str, float]


def compiled_folder() -> Path | None:
    """Return the folder of the compiled build; None if it is not built."""
    folder = Path(os.environ.get(COMPILED_FOLDER, BUILD / "compiled")).absolute()
    has_extension = any(folder.glob("coterie/**/*.so"))
    return folder if has_extension else None


def builds() -> dict[str, dict[str, str]]:
    """Return the environment variables of each build's server."""
    found: dict[str, dict[str, str]] = {PURE: {}}
    if (folder := compiled_folder()) is not None:
        others = os.environ.get("PYTHONPATH", "")
        path = f"{folder}{os.pathsep}{others}" if others else str(folder)
        found[COMPILED] = {"PYTHONPATH": path}
    return found


@contextlib.contextmanager
def all_running(home: Path) -> Iterator[Servers]:
    """Run Kafka and every build of Coterie, with their data on the disk of `home`."""
    log = home / "log"
    arguments = [f"{name}={value}" for name, value in SETTINGS.items()]
    kafka = [*python("peers.apache_kafka"), str(home / KAFKA), *arguments]
    with contextlib.ExitStack() as stack:
        servers = {KAFKA: stack.enter_context(running(kafka, log))}
        for build in builds():
            servers[build] = stack.enter_context(coterie(build, home))
        yield servers


@contextlib.contextmanager
def coterie(build: str, home: Path, name: str = "") -> Iterator[Server]:
    """Run a build of Coterie, with its data in a folder of `home`."""
    values = {key.replace(".", "_"): value for key, value in SETTINGS.items()}
    data = home / f"{build}{name}"
    command = coterie_command("--data", str(data), *settings(**values))
    with running(command, home / "log", builds()[build]) as server:
        maps = Path(f"/proc/{server.pid}/maps").read_text()
        if runs_compiled(maps) != (build == COMPILED):
            raise RuntimeError(f"the server of the {build} build runs the other build")
        yield server


def runs_compiled(maps: str) -> bool:
    """Return whether the memory map of a process has compiled modules of Coterie."""
    return _EXTENSION.search(maps) is not None


def sample(
    server: Server,
    frames: Sequence[bytes],
    shape: LoadShape,
    rounds: Rounds,
    value: Callable[[LoadResult], float],
) -> Sample:
    """Load a server for one round."""
    before = server.cpu_s
    result = load(server.address, frames, shape, rounds)
    return Sample(
        value=value(result),
        cpu_us=(server.cpu_s - before) / result.sent * 1e6,
        client_cpu=result.client_cpu,
    )


def wait_until_idle(server: Server) -> None:
    """Wait until a server has finished its background work."""
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < deadline:
        before = server.cpu_s
        time.sleep(SETTLE_S)
        if server.cpu_s - before < SETTLED_SHARE * SETTLE_S:
            return


Round = Mapping[str, Sample]
"""The results of one round by side."""


def compare(
    name: str,
    results: Sequence[Round],
    against: Against,
    describe: Callable[[float], str],
    side: Bar,
) -> Iterator[Figure]:
    """Return the ratio of each build to the other side: a row of the table.

    The ratio is the median of the ratios within a round; the absolute values are the
    medians of each side.
    """
    other = against.other
    for build in (PURE, COMPILED):
        if build not in results[0]:
            continue
        ratios = [each[build].value / each[other].value for each in results]
        yield Figure(
            name=f"{name}: of {other}",
            value=statistics.median(ratios),
            bar=against.bars.get(build),
            side=side,
            build=build,
            ours=_describe(results, build, describe),
            other=f"{other} {_describe(results, other, describe)}",
            cpu_us=median_cpu(results, build),
            other_cpu_us=median_cpu(results, other),
            detail=f"rounds {min(ratios):.2f} to {max(ratios):.2f}"
            + _generator_shares(results, (build, other)),
        )


def absolute(
    name: str,
    values: Mapping[str, float | None],
    bars: Mapping[str, float],
    unit: str,
) -> Iterator[Figure]:
    """Return a value of each build with an upper bar: a row without a ratio.

    `values` has Kafka's value too, if it was measured.
    """
    stated = values.get(KAFKA)
    for build in (PURE, COMPILED):
        value = values.get(build)
        if value is None:
            continue
        yield Figure(
            name=name,
            value=value,
            unit=unit,
            bar=bars.get(build),
            side=Bar.AT_MOST,
            build=build,
            other="-" if stated is None else f"{KAFKA} {stated:,.1f} {unit}",
        )


def median_cpu(results: Sequence[Round], side: str) -> float | None:
    """Return the median of a side's CPU time for a request, if it was measured."""
    times = [us for each in results if (us := each[side].cpu_us) is not None]
    return statistics.median(times) if times else None


def _describe(
    results: Sequence[Round], side: str, describe: Callable[[float], str]
) -> str:
    text = describe(statistics.median(each[side].value for each in results))
    if (cpu_us := median_cpu(results, side)) is not None:
        text += f", {cpu_us:.{0 if cpu_us >= 10 else 1}f} us CPU"
    if max(each[side].client_cpu for each in results) >= SATURATED:
        text += ", generator at its limit"
    return text


def _generator_shares(results: Sequence[Round], sides: Sequence[str]) -> str:
    shares = {
        side: statistics.median(each[side].client_cpu for each in results)
        for side in sides
    }
    texts = [f"{side} {share:.0%}" for side, share in shares.items() if share]
    return f", generator's CPU: {', '.join(texts)}" if texts else ""
