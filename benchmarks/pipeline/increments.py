"""Measure 2,000 small increments: does the lake stay small, and their cost the same?

Each increment reads about 20 records of a log, writes and commits them, and maintains
the lake, as --follow does between two refreshes of the gold tables; old versions are
deleted at once. Measured are the CPU time of the last increments relative to early
ones, the files of the largest table, and the largest manifest.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import scratch
from coterie.pipeline.jobs.ingest import StepLimits, ingest_step, read_heads
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.maintenance import TAIL_FILES, maintain
from coterie.pipeline.sources.source import open_source
from coterie.testing.log_generator.generate import GeneratorOptions, generate

INCREMENTS = 2_000
RECORDS = 20
EARLY, AROUND = 20, 100
"""The median of the increments 20 to 120 is compared with that of the last 100."""
BAR = 1.3
MANIFEST_BYTES = 64 * 1024


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Run all increments once; `rounds` is not used, because each is a sample."""
    del rounds
    with scratch() as folder:
        log = folder / "log"
        commits = 2 * INCREMENTS * RECORDS
        generate(GeneratorOptions(folder=log, groups=20, commits=commits, days=1))
        source = open_source(f"segments:{log}")
        lake = Lake.create(folder / "lake", source.describe(), keep_hours=0)
        heads = read_heads(lake, source)
        limits = StepLimits(RECORDS, tasks=1, in_process_below=sys.maxsize)
        costs, files = [], 0
        for _ in range(INCREMENTS):
            start = time.process_time()
            read = ingest_step(None, lake, source, heads, limits)  # type: ignore[arg-type]
            assert read, "the log is too short"
            maintain(lake)
            costs.append(time.process_time() - start)
            files = max(files, len(lake.files("records")))
        early = statistics.median(costs[EARLY : EARLY + AROUND])
        late = statistics.median(costs[-AROUND:])
        root = Path(lake.storage.root)
        manifest = max(path.stat().st_size for path in root.glob("manifests/*.json"))
        on_disk = len(list(root.rglob("*.parquet")))
        days = len({file.day for file in lake.files("records")})
    yield Figure(
        name=f"CPU of increment {INCREMENTS}: relative to increment {EARLY}",
        value=late / early,
        bar=BAR,
        side=Bar.AT_MOST,
        detail=f"{late * 1e3:.1f} | {early * 1e3:.1f} ms",
    )
    yield Figure(
        name="files of a table per partition, at most",
        value=files / days,
        unit="files",
        bar=3 + TAIL_FILES,
        side=Bar.AT_MOST,
        detail=f"{on_disk} Parquet files of all tables on disk at the end",
    )
    yield Figure(
        name="largest manifest",
        value=manifest / 1024,
        unit="KiB",
        bar=MANIFEST_BYTES / 1024,
        side=Bar.AT_MOST,
    )
