"""The commands that write a lake: `coterie pipeline run` and `backfill`."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.cli.command import Command
from coterie.cli.durations import duration_of, whole_duration_of
from coterie.cli.output.emit import ProgressBar
from coterie.cli.pipeline.options import (
    add_engine_options,
    add_lake_option,
    add_source_options,
    engine_of,
    open_source_option,
    start_spark,
    step_limits,
)
from coterie.errors import CoterieError, SettingError

if TYPE_CHECKING:
    from coterie.pipeline.gold.settings import GoldSettings
    from coterie.pipeline.jobs.run import RunResult
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.sources.source import Source

_FOLLOW_KEEP_HOURS: Final = 1
"""A version a second for a week would be too many files."""


def _add_gold_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retention-days",
        type=duration_of("days"),
        metavar="DAYS",
        help="offsets.retention.minutes of the cluster, in days or as 36h (default: as"
        " the cluster's brokers or the lake's last run say; otherwise 7)",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="group that is never proposed for deletion; * and ? are wildcards; may be"
        " repeated",
    )


def _gold_settings(options: argparse.Namespace) -> GoldSettings:
    from coterie.pipeline.gold.settings import DAY_MS, GoldSettings

    settings = GoldSettings(keep=tuple(options.keep))
    if options.retention_days is None:
        return settings
    if options.retention_days <= 0:
        raise SettingError("--retention-days must be more than 0")
    return replace(settings, retention_ms=int(options.retention_days * DAY_MS))


def _with_retention(
    settings: GoldSettings,
    options: argparse.Namespace,
    lake: Lake,
    source: Source | None = None,
) -> GoldSettings:
    """Return the settings with the retention time of the source's cluster or of the
    lake's last run, if it is known and no option gives one."""
    if options.retention_days is not None:
        return settings
    ask = getattr(source, "retention_ms", None)
    known = (ask() if ask else None) or lake.version.settings.get("retention_ms")
    return settings if known is None else replace(settings, retention_ms=int(known))


# run


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        required=True,
        metavar="DIR",
        help="directory of the lake, or a URI such as s3://bucket/path",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--once",
        action="store_true",
        help="end when the whole log was read (the default)",
    )
    mode.add_argument(
        "--follow",
        action="store_true",
        help="keep reading: current_offsets is updated within seconds of a commit, the"
        " other tables every two minutes",
    )
    parser.add_argument(
        "--samples",
        type=Path,
        metavar="FILE",
        help="file of partition end samples as JSON lines: topic, partition, at_ms,"
        " log_start_offset, end_offset (default: sample the source)",
    )
    parser.add_argument(
        "--max-records",
        type=int,
        metavar="N",
        help="approximate number of records to read (default: all)",
    )
    _add_gold_settings(parser)
    parser.add_argument(
        "--keep-hours",
        type=whole_duration_of("hours"),
        metavar="HOURS",
        help="how long earlier versions of the tables stay readable, in hours or as 7d"
        " (default: 168, with --follow 1)",
    )


def _run(options: argparse.Namespace) -> int:
    from coterie.pipeline.jobs.run import FollowIntervals, Job, follow, run_once
    from coterie.pipeline.lake.faults import described_faults
    from coterie.pipeline.lake.lake import KEEP_HOURS, Lake
    from coterie.pipeline.sources.partition_ends import check_samples

    if options.max_records is not None and options.max_records < 1:
        raise SettingError("--max-records must be 1 or more")
    if options.keep_hours is not None and options.keep_hours < 1:
        raise SettingError("--keep-hours must be 1 or more")
    if options.max_records is not None and options.follow:
        raise SettingError("--max-records cannot be used with --follow")
    engine, settings = engine_of(options), _gold_settings(options)
    source = open_source_option(options)
    # Before the lake is created: a lake belongs to its source.
    source.check()
    if options.samples is not None:
        check_samples(options.samples)
    # Only a cluster has an id; other sources are identified by their location.
    cluster_id = getattr(source, "cluster_id", None)
    with described_faults(options.to):
        lake = Lake.open_or_create(
            options.to,
            source.describe(),
            cluster_id() if callable(cluster_id) else cluster_id,
            options.keep_hours
            or (_FOLLOW_KEEP_HOURS if options.follow else KEEP_HOURS),
        )
        lake.check_files()
    known = _unreadable_parts(lake)
    bar = ProgressBar(sys.stderr)
    try:
        job = Job(
            start_spark=cache(partial(start_spark, engine)),
            lake=lake,
            source=source,
            settings=_with_retention(settings, options, lake, source),
            samples=options.samples,
            max_records=options.max_records,
            limits=step_limits(engine),
            progress=bar,
        )
        with described_faults(lake.storage):
            if options.follow:
                follow(job, FollowIntervals(), lambda: False)
            result = run_once(job)
    except BaseException:
        # A later run does not report what this one has read; a lake that cannot
        # be read now does not hide why the run ended.
        with suppress(CoterieError, OSError):
            bar.clear()
            _report_unreadable(lake, known)
        raise
    bar.clear()
    print(_run_summary(lake, result))
    return _report_unreadable(lake, known)


_UNREADABLE_QUERY: Final = (
    "SELECT source, position, message FROM quarantine WHERE reason = 'bad_batch'"
)


def _unreadable_parts(lake: Lake) -> int:
    """Return the number of parts of the log that are no valid record batches."""
    import pyarrow.compute as pc

    from coterie.pipeline.segments.batches import ZEROS

    is_batch = pc.field("reason") == "bad_batch"
    messages = lake.read("quarantine", ["message"], is_batch)["message"].to_pylist()
    return sum(ZEROS not in each for each in messages)


def _report_unreadable(lake: Lake, known: int) -> int:
    """Write the number of unreadable parts to stderr; return the exit code: 1 if this
    run has read some."""
    parts = _unreadable_parts(lake)
    if not parts:
        return 0
    count = "1 part of the log is" if parts == 1 else f"{parts} parts of the log are"
    sys.stderr.write(
        f"{count} unreadable, {parts - known} of them read by this run: coterie"
        f" pipeline sql --lake {shlex.quote(str(lake.storage))}"
        f' "{_UNREADABLE_QUERY}"\n'
    )
    return 1 if parts > known else 0


def _run_summary(lake: Lake, result: RunResult) -> str:
    version = lake.version
    newest = version.as_of_ts.isoformat(timespec="seconds") if version.as_of_ts else "-"
    parts = [
        f"{result.records} records read up to {newest}, {len(result.built)} tables"
        f" built in {lake.storage}"
    ]
    if rows := lake.rows("quarantine"):
        records = "1 record" if rows == 1 else f"{rows} records"
        parts.append(f"{records} in quarantine: coterie pipeline show quality")
    if off_clock := sum(head.off_clock for head in version.heads):
        records_have = "1 record has" if off_clock == 1 else f"{off_clock} records have"
        parts.append(
            f"{records_have} the time of a wrong clock: coterie pipeline show quality"
        )
    if ahead := result.samples.ahead:
        samples_were = "1 sample was" if ahead == 1 else f"{ahead} samples were"
        parts.append(f"{samples_were} left out, with a time in the future")
    unread = sum(head.stable_offset - head.next_offset for head in version.heads)
    if unread > 0:
        parts.append(f"{unread} more records are left for the next run")
    held_back = sum(head.end_offset - head.stable_offset for head in version.heads)
    if held_back:
        parts.append(f"{held_back} more records are held back by open transactions")
    return "; ".join(parts)


RUN: Final = Command(
    description="""\
Read the new records of a coordinator's log and bring every table up to date.

A run that ends early or is killed has committed complete steps only; the next run
continues there. The tables do not depend on the number of runs. A directory holds the
tables of one log.
""",
    examples="""\
examples:
  coterie pipeline run --from kafka:broker:9092 --to lake
      the groups of a cluster, from its __consumer_offsets
  coterie pipeline run --from kafka:broker:9092 --to lake --follow
      the same, and all further records until Ctrl-C
  coterie pipeline run --from segments:dump --samples ends.jsonl --to lake
      log segments from a broker's disk, with samples of partition ends
  coterie pipeline run --from s3://dumps/offsets --to s3://lakes/prod \\
      --master spark://spark:7077
      on a Spark cluster

exit codes: 0 success, 1 the log or the lake failed or a part of the log is unreadable,
2 usage error, 130 interrupted
""",
    options=(_add_run_options, add_source_options, add_engine_options),
    run=_run,
)


# backfill


def _backfill(options: argparse.Namespace) -> int:
    from coterie.pipeline.jobs.backfill import BronzeSource, backfill
    from coterie.pipeline.jobs.run import Job
    from coterie.pipeline.lake.faults import described_faults
    from coterie.pipeline.lake.lake import Lake

    engine, settings = engine_of(options), _gold_settings(options)
    with described_faults(options.lake):
        lake = Lake.open_to_write(options.lake)
    bar = ProgressBar(sys.stderr)
    job = Job(
        start_spark=cache(partial(start_spark, engine)),
        lake=lake,
        source=BronzeSource(str(lake.storage)),
        settings=_with_retention(settings, options, lake),
        limits=step_limits(engine),
        progress=bar,
    )
    try:
        with described_faults(lake.storage):
            built = backfill(job)
    finally:
        bar.clear()
    records = lake.rows("records")
    print(f"{records} records decoded, {len(built)} tables built in {lake.storage}")
    return 0


BACKFILL: Final = Command(
    description="""\
Rebuild the silver and gold tables of a lake from its bronze records.

Use it after an update of Coterie that decodes or builds tables differently, and to
verify tables. It does not read the log: the lake has all records, also those that the
log has since lost to compaction.
""",
    examples="""\
examples:
  coterie pipeline backfill --lake lake
      after an update of Coterie
  coterie pipeline backfill --lake lake --retention-days 30
      with another setting

exit codes: 0 success, 1 the lake failed, 2 usage error, 130 interrupted
""",
    options=(add_lake_option, _add_gold_settings, add_engine_options),
    run=_backfill,
)
