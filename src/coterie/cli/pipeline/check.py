"""Does the log say what the brokers say? Compare a lake's groups, members and offsets
with what a cluster answers.

A difference is a finding: a bug of the pipeline or of the coordinator. What may differ
is named apart and harms nothing: a group that has changed since the lake was read, one
in a log partition that an open transaction holds back, one that is rebalancing (the
classic protocol writes that down only when it is over).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.output.options import add_output_options
from coterie.cli.pipeline.naming import add_source_options

if TYPE_CHECKING:
    from coterie.cli.output.values import Item, Json, Outcome
    from coterie.cli.running import Run
    from coterie.pipeline.jobs.check import Checked, Difference
    from coterie.pipeline.jobs.check_cluster import Behind

EXAMPLES: Final = """\
examples:
  coterie pipeline run --from kafka:broker:9092 --to lake &&
  coterie pipeline check --from kafka:broker:9092 --lake lake
      read what is new, then compare it with the brokers' own answers
  coterie pipeline check --lake lake --output json
      the cluster that the lake was made from; every difference as an item

exit codes: 0 they say the same, 1 they differ or could not be asked, 2 asked for
wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="where `coterie pipeline run` wrote its tables",
    )
    add_output_options(parser)
    add_source_options(parser, is_required=False)


def run(options: argparse.Namespace) -> int:
    """Compare them."""
    from coterie.cli.running import run_command
    from coterie.errors import SettingError
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.sources.source import read_name

    if options.source is None:
        options.source = Lake.open(options.lake).identity.source
    kind, where = read_name(options.source)
    if kind != "kafka":
        raise SettingError(
            f"{options.source} is no cluster; name the brokers of this log with "
            "--from kafka:HOST:PORT"
        )
    options.bootstrap_server = where
    return run_command(options, look)


async def look(run: Run) -> Outcome:
    """A row for each difference."""
    import asyncio

    from coterie.cli.output.values import Column, Failure, Outcome
    from coterie.cli.pipeline.naming import open_named
    from coterie.pipeline.jobs.check import compare
    from coterie.pipeline.jobs.check_cluster import ask, read_rest, tables_of
    from coterie.pipeline.lake.lake import Lake

    lake = Lake.open(run.options.lake)
    told = tables_of(lake)
    asked = await ask(run.admin, lake)
    source = open_named(run.options)
    behind = await asyncio.to_thread(read_rest, source, lake.version.positions)
    checked = compare(told, asked.answers, behind.doubts)
    return Outcome(
        schema="coterie.pipeline.check",
        columns=(
            Column("verdict", "VERDICT"),
            Column("group_id", "GROUP"),
            Column("about", "ABOUT"),
            Column("of", "OF"),
            Column("column", "COLUMN"),
            Column("lake", "LAKE"),
            Column("brokers", "BROKERS"),
        ),
        items=tuple(_item(each) for each in checked.differences),
        failures=tuple(
            Failure.of("group", group_id, error)
            for group_id, error in asked.errors.items()
        ),
        summary=_summary(checked, behind),
        notes=tuple(_notes(checked, behind)),
    )


def _item(found: Difference) -> Item:
    from coterie.pipeline.jobs.check import Verdict

    message = f"{found.what}: {found.lake} in the lake, {found.brokers} at the brokers"
    is_wrong = found.verdict is Verdict.DIFFERS
    return {
        "verdict": found.verdict.value,
        "group_id": found.group_id,
        "about": found.about,
        "of": found.of,
        "column": found.what,
        "lake": found.lake,
        "brokers": found.brokers,
        "error": {"code": "DIFFERS", "message": message} if is_wrong else None,
    }


def _summary(checked: Checked, behind: Behind) -> dict[str, Json]:
    from coterie.pipeline.jobs.check import Verdict

    found = [each.verdict for each in checked.differences]
    counts = {each.value.replace(" ", "_"): found.count(each) for each in Verdict}
    return {
        **checked.counts._asdict(),
        **counts,
        "records_behind": behind.records,
        "held_back_partitions": {str(n): each for n, each in behind.held_back.items()},
    }


def _notes(checked: Checked, behind: Behind) -> list[str]:
    groups, members, offsets = checked.counts
    compared = f"{groups} groups, {members} members, {offsets} offsets"
    same = "the log says what the brokers say"
    notes = [f"{same if checked.is_clean else 'compared'}: {compared}"]
    if behind.records:
        notes.append(
            f"the log has {behind.records} records more than the lake, of "
            f"{len(behind.doubts.changed)} groups"
        )
    notes += [
        f"log partition {number}: an open transaction holds {count} offsets back"
        for number, count in sorted(behind.held_back.items())
    ]
    return notes
