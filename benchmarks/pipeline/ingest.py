"""Measure the ingestion of a log into silver tables, compared with a copy of its bytes.

From segments: reading, decoding and writing silver against reading and writing bronze;
and both in one pass, as in a pipeline run. From bronze: decoding to silver against a
copy. All use the same reader and writer (Parquet, zstd). Measured is the CPU time of
all threads; the sides alternate. Then the latency of --follow is measured, until a
commit is in current_offsets. All tables are refreshed every two minutes; a commit
during a refresh waits until it ends.
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

from benchmarks.harness.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.harness.processes import scratch
from coterie.errors import CoterieError
from coterie.pipeline.jobs.backfill import BronzeSource
from coterie.pipeline.jobs.ingest import (
    INGESTED_TABLES,
    StepLimits,
    Task,
    ingest_step,
    read_heads,
    run_task,
)
from coterie.pipeline.lake.delta import folder_of
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Source, open_source
from coterie.pipeline.tables.all_tables import TABLES
from coterie.testing.log_generator.generate import GeneratorOptions, generate
from coterie.wire.record_batch import LogRecord, encode_batch

COMMITS = 200_000
BRONZE = ("records",)
SILVER = tuple(name for name in INGESTED_TABLES if name not in BRONZE)
FOLLOWED = 5
START_S = 600.0
BAR_FOLLOW_S = 5.0


def cost(source: Source, lake: Lake, tables: tuple[str, ...]) -> float:
    """Return the CPU seconds of reading a source and writing some tables."""
    ranges = tuple(plan(source.heads(), {}))
    task = Task(source, str(lake.storage), 1, ranges, tables)
    start = time.process_time()
    report = run_task(task)
    took = time.process_time() - start
    assert report.error is None, report.error
    for name, files in report.files.items():
        for file in files:
            lake.storage.delete(f"{folder_of(TABLES[name])}/{file.path}")
    return took


def compare_with_bronze(
    rounds: Rounds, source: Source, lake: Lake, tables: tuple[str, ...]
) -> list[tuple[float, float]]:
    """Return the CPU seconds of ingestion into some tables, and into bronze alone."""
    return alternate(
        rounds,
        lambda: cost(source, lake, tables),
        lambda: cost(source, lake, BRONZE),
    )


def _figure(name: str, pairs: list[tuple[float, float]], bar: float | None) -> Figure:
    """Return the speed of ingestion into some tables, relative to bronze alone."""
    ours, theirs = pairs[-1]
    return Figure(
        name=name,
        value=median_ratio([(them, us) for us, them in pairs]),
        bar=bar,
        detail=f"CPU seconds: {ours:.2f} | {theirs:.2f}",
    )


def commit_batch(offset: int, at_ms: int) -> bytes:
    """Return a batch with one committed offset."""
    key = b"\0\1\0\x06follow\0\x06orders\0\0\0\0"
    value = b"\0\3" + offset.to_bytes(8, "big") + b"\xff" * 4 + b"\0\0"
    return encode_batch(
        [LogRecord(offset, at_ms, key, value + at_ms.to_bytes(8, "big"))]
    )


@contextlib.contextmanager
def following(log: Path, lake: Path) -> Iterator[None]:
    """Run `coterie pipeline run --follow` for the duration of a `with` block."""
    command = [sys.executable, "-m", "coterie.cli.main", "pipeline", "run"]
    where = ["--from", f"segments:{log}", "--to", str(lake), "--follow"]
    with subprocess.Popen([*command, *where], stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def wait_until_visible(lake: Path, offset: int, within_s: float) -> float:
    """Return the seconds until the offset is in current_offsets."""
    start = time.perf_counter()
    while time.perf_counter() - start < within_s:
        with contextlib.suppress(CoterieError):  # the lake may not exist yet
            table = Lake.open(lake).read("current_offsets", ["committed_offset"])
            if offset in table["committed_offset"].to_pylist():
                return time.perf_counter() - start
        time.sleep(0.05)
    raise RuntimeError(f"offset {offset} was not visible within {within_s} s")


def follow_latencies(folder: Path) -> list[float]:
    """Return the latencies of commits; each commit is written when the previous one is
    visible.
    """
    log, lake = folder / "follow-log", folder / "follow-lake"
    part = log / "__consumer_offsets-0"
    part.mkdir(parents=True)
    segment = part / "00000000000000000000.log"
    took = []
    with segment.open("ab", buffering=0) as file, following(log, lake):
        for offset in range(FOLLOWED + 1):
            file.write(commit_batch(offset, int(time.time() * 1000)))
            took.append(wait_until_visible(lake, offset, START_S))
    return took[1:]  # the first includes the start of Spark


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure silver against bronze, from segments and from bronze; then the latency of
    --follow.
    """
    with scratch() as folder:
        log = folder / "log"
        generate(GeneratorOptions(folder=log, groups=20, commits=COMMITS, partitions=4))
        source = open_source(f"segments:{log}")
        lake = Lake.create(folder / "lake", source.describe())
        heads = read_heads(lake, source)
        everything = StepLimits(tasks=1, in_process_below=sys.maxsize)
        ingest_step(None, lake, source, heads, everything)  # type: ignore[arg-type]
        pairs = compare_with_bronze(rounds, source, lake, SILVER)
        yield _figure("segments to silver: speed relative to bronze", pairs, 0.9)
        pairs = compare_with_bronze(rounds, source, lake, INGESTED_TABLES)
        yield _figure(
            "segments to both in one pass: speed relative to bronze", pairs, None
        )
        pairs = compare_with_bronze(
            rounds, BronzeSource(str(lake.storage)), lake, SILVER
        )
        yield _figure(
            "bronze to silver: speed relative to a copy of bronze", pairs, 0.55
        )
        took = follow_latencies(folder)
        yield Figure(
            name="--follow: latency of a commit in current_offsets",
            value=statistics.median(took),
            unit="s",
            bar=BAR_FOLLOW_S,
            side=Bar.AT_MOST,
            detail=f"maximum of {len(took)}: {max(took):.1f} s, load"
            f" {os.getloadavg()[0]:.0f}",
        )
