"""The command `coterie pipeline check`: a lake compared with the brokers."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Final

from coterie.cli.command import Command, Run, add_output_options, run_on_cluster
from coterie.cli.output.outcome import Column, Failure, Item, Json, Outcome, Role
from coterie.cli.pipeline.options import (
    add_lake_option,
    add_source_options,
    open_source_option,
)
from coterie.errors import SettingError

if TYPE_CHECKING:
    from coterie.pipeline.jobs.check import CheckResult, Difference, LogTail


def _run(options: argparse.Namespace) -> int:
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.sources.source import parse_source_name

    if options.source is None:
        options.source = Lake.open(options.lake).identity.source
    kind, where = parse_source_name(options.source)
    if kind != "kafka":
        raise SettingError(
            f"{options.source} is not a cluster: name the brokers of this log with "
            "--from kafka:HOST:PORT"
        )
    options.bootstrap_server = where
    return run_on_cluster(options, compare_with_brokers)


async def compare_with_brokers(run: Run) -> Outcome:
    """Return an item for each difference between the lake and the brokers."""
    import asyncio

    from coterie.pipeline.jobs.check import (
        compare,
        fetch_cluster_state,
        read_lake_rows,
        read_tail,
    )
    from coterie.pipeline.lake.lake import Lake

    lake = Lake.open(run.options.lake)
    rows = read_lake_rows(lake)
    cluster = await fetch_cluster_state(run.admin, lake)
    source = open_source_option(run.options)
    tail = await asyncio.to_thread(read_tail, source, lake.version.positions)
    result = compare(rows, cluster, tail.expected)
    return Outcome(
        schema="coterie.pipeline.check",
        columns=(
            Column("verdict", "VERDICT"),
            Column("group_id", "GROUP", role=Role.IDENTITY),
            Column("about", "ABOUT", role=Role.IDENTITY),
            Column("of", "OF", role=Role.IDENTITY),
            Column("column", "COLUMN", role=Role.IDENTITY),
            Column("lake", "LAKE", role=Role.ID, drop=1),
            Column("brokers", "BROKERS", role=Role.ID, drop=2),
        ),
        items=tuple(_item(difference) for difference in result.differences),
        failures=tuple(
            Failure.of("group", group_id, error)
            for group_id, error in cluster.errors.items()
        ),
        summary=_summary(result, tail),
        notes=tuple(_notes(result, tail)),
    )


def _item(difference: Difference) -> Item:
    from coterie.pipeline.jobs.check import Verdict

    message = (
        f"{difference.column}: {difference.lake} in the lake, {difference.brokers} at"
        " the brokers"
    )
    is_error = difference.verdict is Verdict.DIFFERS
    return {
        **difference._asdict(),
        "verdict": difference.verdict.value,
        "error": {"code": "DIFFERS", "message": message} if is_error else None,
    }


def _summary(result: CheckResult, tail: LogTail) -> dict[str, Json]:
    from coterie.pipeline.jobs.check import Verdict

    verdicts = [difference.verdict for difference in result.differences]
    return {
        **result.counts._asdict(),
        **{each.value.replace(" ", "_"): verdicts.count(each) for each in Verdict},
        "records_behind": tail.records,
        "held_back_partitions": {str(n): each for n, each in tail.held_back.items()},
    }


def _notes(result: CheckResult, tail: LogTail) -> list[str]:
    groups, members, offsets = result.counts
    compared = f"{groups} groups, {members} members, {offsets} offsets"
    verdict = "the lake agrees with the brokers" if result.is_clean else "compared"
    notes = [f"{verdict}: {compared}"]
    if tail.records:
        notes.append(
            f"the log has {tail.records} records that the lake has not read, of"
            f" {len(tail.expected.changed)} groups"
        )
    notes += [
        f"log partition {number}: an open transaction holds back {count} offsets"
        for number, count in sorted(tail.held_back.items())
    ]
    return notes


CHECK: Final = Command(
    description="""\
Compare the groups, members and offsets of a lake with those that a cluster returns.

A difference is a bug of the pipeline or of the coordinator. Expected differences have
their own verdicts and are no error: a group that changed after the lake was read, a
group in a log partition that an open transaction holds back, and a group that is
rebalancing (the classic protocol writes a record only when a rebalance is complete).
""",
    examples="""\
examples:
  coterie pipeline run --from kafka:broker:9092 --to lake &&
  coterie pipeline check --from kafka:broker:9092 --lake lake
      read the new records, then compare with the brokers
  coterie pipeline check --lake lake --output json
      the cluster that the lake was made from; every difference as an item

exit codes: 0 no differences, 1 differences or a failed request, 2 usage error
""",
    options=(
        add_lake_option,
        add_output_options,
        partial(add_source_options, is_required=False),
    ),
    run=_run,
)
