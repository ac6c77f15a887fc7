"""A run: reads what the log has, takes samples of partitions' ends, builds gold.

Killed anywhere it goes on where it was: what counts is in the lake's last version. One
run, ten runs and a run after a kill give the same tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow.compute as pc

from coterie.pipeline.gold.all_gold import GOLD
from coterie.pipeline.gold.look import Gold
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs.ingest import Step, add_samples, look, step
from coterie.pipeline.jobs.refresh import refresh
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.ends.of_file import read_samples
from coterie.pipeline.sources.ends.sampling import sample
from coterie.pipeline.sources.planning import backlog
from coterie.pipeline.sources.source import Source
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Progress(Protocol):
    """Is told how far a run is."""

    def reading(self, done: int, of: int) -> None:
        """So many records of about so many are in the lake."""

    def building(self, table: str, done: int, of: int) -> None:
        """A gold table comes next, after so many of so many."""


class Silent:
    """Nobody is told."""

    def reading(self, done: int, of: int) -> None:
        """See Progress."""

    def building(self, table: str, done: int, of: int) -> None:
        """See Progress."""


@dataclass(kw_only=True)
class Job:
    """What runs need."""

    spark: SparkSession
    lake: Lake
    source: Source
    settings: GoldSettings = field(default_factory=GoldSettings)
    samples: Path | None = None
    """A file of samples; else the source is asked."""
    max_records: int | None = None
    """A run reads about so many, None for all."""
    step: Step = field(default_factory=Step)
    gold: tuple[Gold, ...] = GOLD
    progress: Progress = field(default_factory=Silent)


@dataclass(frozen=True, slots=True)
class Done:
    """What a run did."""

    records: int
    samples: int
    built: tuple[str, ...]


def run_once(job: Job) -> Done:
    """Read all that is there, then bring every gold table up to date.

    Raises LogError or ClientError; what was read before stays read.
    """
    records = read_log(job)
    samples = take_samples(job)
    built = refresh(
        job.spark, job.lake, job.settings, job.gold, tell=job.progress.building
    )
    return Done(records, samples, tuple(built))


def read_log(job: Job) -> int:
    """Read into bronze and silver, step by step; how many records that were."""
    heads = look(job.lake, job.source)
    total = sum(backlog(heads, job.lake.version.positions).values())
    limit = total if job.max_records is None else job.max_records
    done = 0
    while True:
        how = job.step._replace(max_records=min(limit - done, job.step.max_records))
        some = step(job.spark, job.lake, job.source, heads, how)
        done += some or 0
        job.progress.reading(done, min(limit, total))
        if some is None or done >= limit:
            return done


def take_samples(job: Job) -> int:
    """Append samples of partitions' ends; how many were new."""
    if job.samples is not None:
        return add_samples(job.lake, read_samples(job.samples))
    known: Any = job.lake.read(PARTITION_END_SAMPLES.name, ["sample_ts"])
    last = pc.max(known["sample_ts"]).as_py()
    return add_samples(job.lake, sample(job.source, last))


FAST: Final = ("current_offsets",)
"""Tables that `follow` builds at each step."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How `follow` goes, in seconds."""

    poll_s: float = 1.0
    """Between two looks at the log when nothing was new."""
    gold_s: float = 120.0
    """Between two builds of all tables; the fast ones come with each step."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def follow(job: Job, pace: Pace, is_over: Callable[[], bool]) -> None:
    """Go on reading what comes until it is over, and build: fast tables at once, the
    others at an interval, and all of them in the end.

    Raises LogError or ClientError.
    """
    fast = tuple(each for each in job.gold if each.table.name in FAST)
    built_at = None
    while not is_over():
        records = read_log(job)
        if built_at is None or pace.clock() - built_at >= pace.gold_s:
            take_samples(job)
            refresh(job.spark, job.lake, job.settings, job.gold)
            built_at = pace.clock()
        elif records:
            refresh(job.spark, job.lake, job.settings, fast)
        if not records:
            pace.sleep(pace.poll_s)
    run_once(job)
