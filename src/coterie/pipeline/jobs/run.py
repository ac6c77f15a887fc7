"""Run the pipeline: ingest the log, sample partition ends, refresh the gold tables.

A run that is killed at any point can be repeated: the state is the lake's last version.
One run, ten runs, and a run after a kill give the same tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs.ingest import StepLimits, ingest_step, read_heads
from coterie.pipeline.jobs.refresh import ALL, Progress, prepare_refresh, refresh
from coterie.pipeline.jobs.samples import TakenSamples, take_samples
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.maintenance import maintain
from coterie.pipeline.sources.planning import backlog
from coterie.pipeline.sources.source import Source
from coterie.pipeline.tables.all_tables import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(kw_only=True)
class Job:
    """The inputs and options of a run."""

    start_spark: Callable[[], SparkSession]
    """Starts Spark when the run first needs it, or returns the running session."""
    lake: Lake
    source: Source
    settings: GoldSettings = field(default_factory=GoldSettings)
    samples: Path | None = None
    """A file of end samples; None to sample the source."""
    max_records: int | None = None
    """Approximate number of records to read; None for all."""
    limits: StepLimits = field(default_factory=StepLimits)
    gold: tuple[Query, ...] = ALL
    progress: Progress = lambda *_: None
    """The callback with the amount done, the approximate total and the step."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The numbers of new records and samples, and the gold tables built."""

    records: int
    samples: TakenSamples
    built: tuple[str, ...]


def run_once(job: Job) -> RunResult:
    """Read the log to its end, then bring every gold table up to date.

    Raises LogError or ClientError; the steps before the failure stay committed.
    """
    records = read_log(job)
    samples = take_samples(job.lake, job.source, job.samples)
    built = refresh(job.start_spark, job.lake, job.settings, job.gold, job.progress)
    maintain(job.lake)
    return RunResult(records, samples, tuple(built))


def read_log(job: Job) -> int:
    """Ingest the log step by step; return the number of records."""
    heads = read_heads(job.lake, job.source)
    total = sum(backlog(heads, job.lake.version.positions).values())
    limit = total if job.max_records is None else job.max_records
    done = 0
    while True:
        max_records = min(limit - done, job.limits.max_records)
        limits = job.limits._replace(max_records=max_records)
        records = ingest_step(job.start_spark, job.lake, job.source, heads, limits)
        done += records or 0
        job.progress(done, min(limit, total), "reading records")
        if records is None or done >= limit:
            return done


FAST_TABLES: Final = ("current_offsets",)
"""The tables that `follow` refreshes after each step of ingestion."""


@dataclass(frozen=True, kw_only=True)
class FollowIntervals:
    """The intervals of `follow` in seconds, and its clock."""

    step_s: float = 1.0
    """Shortest time from one step of ingestion to the next. The records in between are
    one commit, so it bounds the number of commits."""
    gold_s: float = 120.0
    """From the end of a refresh of all tables to the next one."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def follow(job: Job, intervals: FollowIntervals, is_over: Callable[[], bool]) -> None:
    """Keep reading the log until `is_over()`, and refresh the tables.

    Fast tables are refreshed after each step. The others are refreshed at an interval
    by another thread, so that they do not delay the fast ones, and all of them at the
    end. Raises LogError or ClientError, also when the other thread failed.
    """
    fast = tuple(query for query in job.gold if query.name in FAST_TABLES)
    run_once(job)
    refreshed_at = intervals.clock()
    with ThreadPoolExecutor(1, "refresh") as pool:
        refreshing: Future[None] | None = None
        while not is_over():
            began_at = intervals.clock()
            if read_log(job):
                refresh(job.start_spark, job.lake, job.settings, fast)
            if refreshing is None and began_at - refreshed_at >= intervals.gold_s:
                take_samples(job.lake, job.source, job.samples)
                # It reads the lake as of now: after this step and before the next.
                prepared = prepare_refresh(
                    job.start_spark, job.lake, job.settings, job.gold
                )
                refreshing = pool.submit(_refresh_and_maintain, job.lake, prepared)
            elif refreshing is not None and refreshing.done():
                refreshing.result()
                refreshing, refreshed_at = None, intervals.clock()
            pause_s = began_at + intervals.step_s - intervals.clock()
            if pause_s > 0:
                intervals.sleep(pause_s)
        if refreshing is not None:
            refreshing.result()
    run_once(job)


def _refresh_and_maintain(lake: Lake, prepared: Callable[[], object]) -> None:
    prepared()
    maintain(lake)
