"""What does it cost to turn a log into silver, beside only keeping its bytes?

From segments: reading, decoding and writing silver beside reading and writing bronze;
and both in one pass, as runs do it. From bronze: decoding it into silver beside copying
it. All with the same reader and writer (Parquet, zstd), by CPU time of all threads, the
sides alternated. And how long it takes until --follow shows a commit in
current_offsets; whole tables of all kinds are built beside it each two minutes, and a
commit that comes then waits for them.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.processes import scratch
from coterie.errors import CoterieError
from coterie.pipeline.generator.generate import Order, generate
from coterie.pipeline.jobs.backfill import Bronze
from coterie.pipeline.jobs.ingest import Step, look, step
from coterie.pipeline.jobs.worker import LANDED, Task, do
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Source, open_source
from coterie.wire.record_batch import LogRecord, encode_batch

COMMITS = 200_000
BRONZE = ("records",)
SILVER = tuple(name for name in LANDED if name not in BRONZE)
FOLLOWED = 5
START_S = 600.0
BAR_FOLLOW_S = 5.0


def cost(source: Source, lake: Lake, tables: tuple[str, ...]) -> float:
    """CPU seconds of reading all of a source and writing some tables."""
    ranges = tuple(plan(source.heads(), {}))
    task = Task(source, str(lake.storage), 1, ranges, tables)
    start = time.process_time()
    report = do(task)
    took = time.process_time() - start
    assert report.error is None, report.error
    for file in report.files:
        lake.storage.delete(file.path)
    return took


def beside(
    rounds: Rounds, source: Source, lake: Lake, tables: tuple[str, ...]
) -> list[tuple[float, float]]:
    """CPU seconds for some tables, and for bronze alone."""
    return alternate(
        rounds,
        lambda: cost(source, lake, tables),
        lambda: cost(source, lake, BRONZE),
    )


def figure(name: str, pairs: list[tuple[float, float]], bar: float | None) -> Figure:
    """How many times as fast as bronze alone."""
    ours, theirs = pairs[-1]
    return Figure(
        name=name,
        value=median_ratio([(them, us) for us, them in pairs]),
        bar=bar,
        detail=f"CPU seconds: {ours:.2f} | {theirs:.2f}",
    )


def one_commit(offset: int, at_ms: int) -> bytes:
    """A batch with one committed offset."""
    key = b"\0\1\0\x06follow\0\x06orders\0\0\0\0"
    value = b"\0\3" + offset.to_bytes(8, "big") + b"\xff" * 4 + b"\0\0"
    return encode_batch(
        [LogRecord(offset, at_ms, key, value + at_ms.to_bytes(8, "big"))]
    )


@contextlib.contextmanager
def following(log: Path, lake: Path) -> Iterator[None]:
    """`coterie pipeline run --follow`, as somebody calls it."""
    command = [sys.executable, "-m", "coterie.cli.main", "pipeline", "run"]
    where = ["--from", f"segments:{log}", "--to", str(lake), "--follow"]
    with subprocess.Popen([*command, *where], stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def seen_after(lake: Path, offset: int, within_s: float) -> float:
    """Seconds until current_offsets has the offset."""
    start = time.perf_counter()
    while time.perf_counter() - start < within_s:
        with contextlib.suppress(CoterieError):  # it may not be there yet
            table = Lake.open(lake).read("current_offsets", ["committed_offset"])
            if offset in table["committed_offset"].to_pylist():
                return time.perf_counter() - start
        time.sleep(0.05)
    raise RuntimeError(f"offset {offset} was not seen within {within_s} s")


def follow_latencies(folder: Path) -> list[float]:
    """How long some commits took to be seen, each written when the last one was."""
    log, lake = folder / "follow-log", folder / "follow-lake"
    part = log / "__consumer_offsets-0"
    part.mkdir(parents=True)
    segment = part / "00000000000000000000.log"
    took = []
    with segment.open("ab", buffering=0) as file, following(log, lake):
        for offset in range(FOLLOWED + 1):
            file.write(one_commit(offset, int(time.time() * 1000)))
            took.append(seen_after(lake, offset, START_S))
    return took[1:]  # the first one waits for Spark to start


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Silver beside bronze, from segments and from bronze; the wait of --follow."""
    with scratch() as folder:
        log = folder / "log"
        generate(Order(folder=log, groups=20, commits=COMMITS, partitions=4))
        source = open_source(f"segments:{log}")
        lake = Lake.create(folder / "lake", source.describe())
        heads = look(lake, source)
        everything = Step(tasks=1, alone_below=sys.maxsize)
        step(None, lake, source, heads, everything)  # type: ignore[arg-type]
        pairs = beside(rounds, source, lake, SILVER)
        yield figure("segments to silver, as fast as to bronze", pairs, 0.9)
        pairs = beside(rounds, source, lake, LANDED)
        yield figure("segments to both in one pass, as fast as to bronze", pairs, None)
        pairs = beside(rounds, Bronze(str(lake.storage)), lake, SILVER)
        yield figure("bronze to silver, as fast as a copy of bronze", pairs, 0.55)
        took = follow_latencies(folder)
        yield Figure(
            name="--follow: until a commit is in current_offsets",
            value=statistics.median(took),
            unit="s",
            bar=BAR_FOLLOW_S,
            side=Bar.AT_MOST,
            detail=f"longest of {len(took)}: {max(took):.1f} s, load"
            f" {os.getloadavg()[0]:.0f}",
        )
