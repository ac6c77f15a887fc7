"""Do what a plan file says, to groups that are still as the plan saw them.

Every group is read again just before. One that changed since is refused; what is done
already is skipped, so a plan that was broken off can be applied again. What became of
each item is written to a file beside the plan. Without --execute, it is only shown
what would be done.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.writing import add_write_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.cli.output.values import Outcome
    from coterie.cli.running import Run
    from coterie.operations.apply import ItemResult
    from coterie.operations.plan import Plan, PlanItem

EXAMPLES: Final = """\
examples:
  coterie groups apply cleanup.json
      look at every group again: what would be done, and what would be refused
  coterie groups apply cleanup.json --execute
      do it
  coterie groups apply cleanup.json --item delete-group:billing-test --execute
      one item of it
  coterie groups apply cleanup.json --execute --yes --output jsonl
      in a script, with a line for each partition

exit codes: 0 all done, 1 an item was refused or failed, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("plan_file", metavar="FILE", help="the plan")
    parser.add_argument(
        "--item", metavar="ID", action="append", help="only this item; may be repeated"
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="what became of each item (default: the plan's name and .results.jsonl)",
    )
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Apply it, or show what that would be."""
    from coterie.cli.running import run_command

    return run_command(options, apply)


async def apply(run: Run) -> Outcome:
    """Read the plan, check it, and do it when that is asked for."""
    from pathlib import Path

    from coterie.cli.groups.write_outcome import checked_of, done_of, planned_of
    from coterie.cli.groups.writing import (
        ADVICE,
        Writing,
        apply_all,
        confirmed,
        is_wanted,
        open_snapshot,
    )
    from coterie.cli.output.asking import tell
    from coterie.errors import SettingError
    from coterie.operations.apply import Verdict
    from coterie.operations.plan import read_plan
    from coterie.operations.result_file import SUFFIX, ResultFile

    options = run.options
    plan = read_plan(Path(options.plan_file))
    file = ResultFile(Path(options.results or options.plan_file + SUFFIX), plan)
    items = chosen_items(plan, options.item)
    left = [item for item in items if not file.is_done(item.item_id)]
    checked = await _check(run, plan, left)
    writing = Writing(
        tuple(planned_of(item) for item in items),
        said=f"items left to do: {len(left)} of {len(plan.items)}",
        kafka_commands=("(it does not know plan files)",),
    )
    before = tuple(file.result_of(each) for each in items if each not in left)
    count = sum(1 for each in checked if each.verdict is Verdict.READY)
    known = (*before, *checked)
    if not count or not is_wanted(run):
        advice = ADVICE if count else ""
        return checked_of(run, writing, known, writing.said, advice)
    preview = checked_of(run, writing, known)
    if not confirmed(run, preview, writing.said, count):
        return checked_of(run, writing, known, "nothing was written")
    ready = [each.item for each in checked if each.verdict is not Verdict.REFUSED]
    refused = [each for each in checked if each.verdict is Verdict.REFUSED]
    keeper = await open_snapshot(run, plan.plan_id)
    file.begin()

    def note(result: ItemResult) -> None:
        kept = keeper.snapshot_id if keeper.has_kept else ""
        try:
            file.add(result, run.where.now_ms(), kept)
        except SettingError as error:  # it is done all the same, and looks done
            tell(run.where, f"{result.item.item_id} could not be noted: {error}")

    for each in refused:
        note(each)
    done = await apply_all(run, ready, keeper, note)
    return done_of(run, writing, (*before, *refused, *done), keeper)


async def _check(
    run: Run, plan: Plan, items: Sequence[PlanItem]
) -> tuple[ItemResult, ...]:
    """What would become of the items, in a plan for this cluster or another."""
    from coterie.operations.apply import check_items, refuse_cluster

    cluster = await run.admin.describe_cluster()
    if cluster.cluster_id != plan.cluster_id and not run.options.force:
        return refuse_cluster(items, plan.cluster_id, cluster.cluster_id)
    return await check_items(run.admin, items, force=run.options.force)


def chosen_items(plan: Plan, ids: Sequence[str] | None) -> tuple[PlanItem, ...]:
    """The items of those ids, in the plan's order; all without any. Raises
    SettingError for an id that is not there."""
    from coterie.errors import SettingError

    known = {item.item_id for item in plan.items}
    for each in ids or ():
        if each not in known:
            raise SettingError(
                f"the plan has no item {each!r}; --wide shows the ids that it has"
            )
    return tuple(item for item in plan.items if not ids or item.item_id in ids)
