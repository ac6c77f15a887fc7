"""Turn a coordinator's log into tables: read what is new in it, then bring every table
up to date.

A run that ends early, or is killed, has done whole steps only; the next one goes on
there. One run and ten runs give the same tables. A directory holds one log.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.cli.pipeline.engine import add_engine_options, engine_of, start, step_of
from coterie.cli.pipeline.naming import add_source_options, open_named
from coterie.cli.pipeline.showing_progress import Shown
from coterie.errors import SettingError

if TYPE_CHECKING:
    from coterie.pipeline.gold.settings import GoldSettings
    from coterie.pipeline.lake.lake import Lake

EXAMPLES: Final = """\
examples:
  coterie pipeline run --from kafka:broker:9092 --to lake
      the groups of a cluster, from its __consumer_offsets
  coterie pipeline run --from coterie-data --to lake --follow
      a Coterie server's store, and what is written to it from now on, until Ctrl-C
  coterie pipeline run --from segments:dump --samples ends.jsonl --to lake
      log segments from a broker's disk, with samples of where partitions ended
  coterie pipeline run --from s3://dumps/offsets --to s3://lakes/prod \\
      --master spark://spark:7077
      on a cluster

exit codes: 0 all was read, 1 the log or the lake said no, 2 asked for wrongly,
130 after Ctrl-C
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--to",
        required=True,
        metavar="DIR",
        help="the lake: a directory of its own, or a URI like s3://bucket/path",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--once", action="store_true", help="end when all is read (the default)"
    )
    how.add_argument(
        "--follow",
        action="store_true",
        help="go on: a commit is in current_offsets within seconds, the other tables"
        " follow each two minutes",
    )
    parser.add_argument(
        "--samples",
        type=Path,
        metavar="FILE",
        help="samples of the ends of partitions, as JSON lines: topic, partition,"
        " at_ms, log_start_offset, end_offset (else the source is asked)",
    )
    parser.add_argument(
        "--max-records",
        type=int,
        metavar="N",
        help="read about so many and end (default: all)",
    )
    add_settings(parser)
    parser.add_argument(
        "--publish",
        metavar="FORMAT",
        help="write gold tables once more in a form that Spark here has jars for:"
        " delta, iceberg, parquet",
    )
    parser.add_argument(
        "--publish-to", metavar="DIR", help="where to; a folder a table"
    )
    add_source_options(parser)
    add_engine_options(parser)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Declare settings of gold tables; `settings_of` reads them."""
    parser.add_argument(
        "--retention-days",
        type=float,
        default=7.0,
        metavar="DAYS",
        help="offsets.retention.minutes of the cluster, in days (default 7)",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="a group that is never proposed for deletion, in which * and ? stand for"
        " others; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Read and build."""
    from coterie.pipeline.jobs.publish import publish
    from coterie.pipeline.jobs.run import Job, Pace, follow, run_once
    from coterie.pipeline.lake.lake import Lake

    _check(options)
    engine, settings = engine_of(options), settings_of(options)
    source = open_named(options)
    cluster = getattr(source, "cluster_id", None)
    lake = Lake.open_or_create(
        options.to, source.describe(), cluster() if callable(cluster) else cluster
    )
    with Shown() as shown:
        job = Job(
            spark=start(engine),
            lake=lake,
            source=source,
            settings=settings,
            samples=options.samples,
            max_records=options.max_records,
            step=step_of(engine),
            progress=shown,
        )
        if options.follow:
            follow(job, Pace(), lambda: False)
        done = run_once(job)
        if options.publish is not None:
            publish(job.spark, lake, done.built, options.publish, options.publish_to)
    print(_told(lake, done.records, len(done.built)))
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.max_records is not None and options.max_records < 1:
        raise SettingError("--max-records must be 1 or more")
    if (options.publish is None) != (options.publish_to is None):
        raise SettingError("--publish FORMAT and --publish-to DIR need each other")
    if options.max_records is not None and options.follow:
        raise SettingError("--max-records ends a run, and --follow does not end")


def settings_of(options: argparse.Namespace) -> GoldSettings:
    """What gold tables are built with. Raises SettingError."""
    from coterie.pipeline.gold.settings import DAY_MS, GoldSettings

    if options.retention_days <= 0:
        raise SettingError("--retention-days must be more than 0")
    return GoldSettings(
        retention_ms=int(options.retention_days * DAY_MS), keep=tuple(options.keep)
    )


def _told(lake: Lake, records: int, built: int) -> str:
    """What was done, for people."""
    version = lake.version
    left = sum(each.stable_offset - each.next_offset for each in version.heads)
    held = sum(each.end_offset - each.stable_offset for each in version.heads)
    asides = [
        f"{count} more are {what}"
        for count, what in (
            (max(left, 0), "to be read by the next run"),
            (held, "held back by open transactions"),
        )
        if count
    ]
    upto = version.as_of_ts.isoformat(timespec="seconds") if version.as_of_ts else "-"
    sentence = f"{records} records read up to {upto}, {built} tables built"
    return "; ".join([f"{sentence} in {lake.storage}", *asides])
