"""The command `coterie pipeline plan-stale`: a plan file that deletes stale groups."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from coterie import operations as ops
from coterie.cli.command import Command, add_output_options
from coterie.cli.groups.selection import create_file
from coterie.cli.output.emit import CommandIO, emit
from coterie.cli.output.outcome import Column, Failure, Outcome, Role, failed_outcome
from coterie.cli.pipeline.options import add_lake_option
from coterie.errors import LogError, SettingError

if TYPE_CHECKING:
    from coterie.pipeline.lake.lake import Lake

_CLASSES: Final = ("dead", "abandoned", "expired_soon", "typo", "test")
_DEFAULT_SCORE: Final = 30


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "plan_file", metavar="FILE", help="path of the plan file; it must not exist"
    )
    add_lake_option(parser)
    add = parser.add_argument_group("selection").add_argument
    add(
        "--group",
        metavar="NAME",
        action="append",
        help="only this group; may be repeated",
    )
    add(
        "--class",
        dest="classes",
        choices=_CLASSES,
        action="append",
        help="only groups of this class; may be repeated",
    )
    add(
        "--min-score",
        type=int,
        default=_DEFAULT_SCORE,
        metavar="N",
        help=f"minimum score of a group, 0 to 100 (default {_DEFAULT_SCORE})",
    )
    parser.add_argument(
        "--cluster-id",
        metavar="ID",
        help="id of the groups' cluster, when the lake does not have it; `coterie"
        " groups list --output json` shows it",
    )


def _run(options: argparse.Namespace) -> int:
    io = CommandIO()
    try:
        outcome = write_plan(options, io)
    except LogError as error:
        outcome = failed_outcome(error)
    return emit(outcome, options, io)


def write_plan(options: argparse.Namespace, io: CommandIO) -> Outcome:
    """Write the plan file and return its items. Raises LogError, SettingError."""
    from coterie.cli.pipeline.tables import lake_age, lake_context
    from coterie.pipeline.lake.lake import Lake

    lake = Lake.open(options.lake)
    cluster_id = _cluster_id(lake, options.cluster_id)
    selected, failures = _select(lake, options)
    note = "no plan was written: no group is to be deleted"
    if selected:
        plan = _make_plan(lake, selected, cluster_id, io)
        create_file(options.plan_file, ops.encode_plan(plan))
        count = "1 item is" if len(selected) == 1 else f"{len(selected)} items are"
        file = options.plan_file
        note = f"{count} in {file}: coterie groups apply {file} --execute"
    return Outcome(
        schema="coterie.pipeline.plan-stale",
        columns=(
            Column("group_id", "GROUP", role=Role.IDENTITY),
            Column("class", "CLASS"),
            Column("score", "SCORE"),
            Column("reason", "REASON", role=Role.TEXT, drop=1),
            Column("item_id", "ITEM", is_wide=True),
        ),
        items=tuple(
            {
                "group_id": row["group_id"],
                "class": row["class"],
                "score": row["score"],
                "reason": "; ".join(row["reasons"]),
                "item_id": row["plan_item_id"],
            }
            for row in selected
        ),
        failures=failures,
        cluster_id=cluster_id,
        context=lake_context(lake),
        notes=(lake_age(lake, io), note),
    )


def _cluster_id(lake: Lake, option: str | None) -> str:
    known = lake.identity.cluster_id
    if option and known and option != known:
        raise SettingError(f"the lake holds cluster {known}, not {option}")
    if not (option or known):
        raise SettingError(
            "the lake does not record its cluster: add --cluster-id ID (`coterie"
            " groups list --output json` shows it)"
        )
    return option or known or ""


def _select(
    lake: Lake, options: argparse.Namespace
) -> tuple[list[dict[str, Any]], tuple[Failure, ...]]:
    """Return the candidates, highest score first, and the refused groups."""
    from coterie.cli.pipeline.tables import read_groups

    named = options.group or ()
    rows = {
        row["group_id"]: row
        for row in read_groups(lake, "stale_group_candidates", named)
    }
    selected = [
        row
        for row in rows.values()
        if not row["blockers"]
        and row["plan_item_id"]
        and row["score"] >= options.min_score
        and (not options.classes or row["class"] in options.classes)
    ]
    selected.sort(key=lambda row: (-row["score"], row["group_id"]))
    return selected, tuple(_refused(named, rows))


def _refused(
    named: Iterable[str], rows: Mapping[str, Mapping[str, Any]]
) -> Iterator[Failure]:
    for group_id in dict.fromkeys(named):
        row = rows.get(group_id)
        if row is None:
            yield Failure("group", group_id, "UNKNOWN", "the lake has no such group")
        elif row["blockers"]:
            yield Failure("group", group_id, "BLOCKED", "; ".join(row["blockers"]))


def _make_plan(
    lake: Lake,
    candidates: Sequence[Mapping[str, Any]],
    cluster_id: str,
    io: CommandIO,
) -> ops.Plan:
    """Return the plan that deletes these groups, with their state in the lake's
    version.
    """
    from coterie.cli.pipeline.tables import read_groups

    ids = [row["group_id"] for row in candidates]
    groups = {row["group_id"]: row for row in read_groups(lake, "current_groups", ids)}
    offsets: dict[str, list[Mapping[str, Any]]] = {group_id: [] for group_id in ids}
    for row in read_groups(lake, "current_offsets", ids):
        offsets[row["group_id"]].append(row)
    items = tuple(
        plan_item(row, groups[row["group_id"]], offsets[row["group_id"]])
        for row in candidates
    )
    command = "coterie pipeline plan-stale"
    return ops.Plan(
        ops.new_id(io.clock()), ops.utc_text(io.now_ms()), cluster_id, items, command
    )


def plan_item(
    candidate: Mapping[str, Any],
    group: Mapping[str, Any],
    offsets: Sequence[Mapping[str, Any]],
) -> ops.PlanItem:
    """Return the item that deletes a group.

    The arguments are the group's rows of `stale_group_candidates`, `current_groups`
    and `current_offsets`.
    """
    group_id = candidate["group_id"]
    item_id = ops.item_id_of(ops.Action.DELETE_GROUP, group_id)
    assert item_id == candidate["plan_item_id"], "the table and the plan disagree"
    return ops.PlanItem(
        item_id,
        ops.Action.DELETE_GROUP,
        group_id,
        _expected_group(group, offsets),
        reason="; ".join(candidate["reasons"]),
    )


def _expected_group(
    group: Mapping[str, Any], offsets: Sequence[Mapping[str, Any]]
) -> ops.ExpectedGroup:
    is_consumer = group["group_type"] == "consumer"
    is_classic = group["group_type"] == "classic"
    entries = [
        ops.OffsetEntry(
            row["topic"],
            row["partition"],
            row["committed_offset"],
            row["leader_epoch"],
            row["metadata"] or "",
        )
        for row in offsets
    ]
    return ops.ExpectedGroup(
        exists=True,
        state="Empty",  # a group with members has a blocker and is never in a plan
        type="consumer" if is_consumer else "classic",
        group_epoch=group["epoch"] if is_consumer else None,
        assignment_epoch=group["assignment_epoch"] if is_consumer else None,
        generation_id=group["epoch"] if is_classic else None,
        offsets=tuple(sorted(entries, key=lambda entry: entry.at)),
    )


PLAN_STALE: Final = Command(
    description="""\
Write a plan file that deletes stale groups, to be reviewed and then applied by `coterie
groups apply`.

Reads the table stale_group_candidates; makes no connection to a cluster. A group with a
blocker is never in a plan. The file has the state, the epochs and the offsets of every
group. `apply` reads each group again just before it deletes it, and refuses when the
group has gained a member, a commit or a transaction, or differs in any other way.
""",
    examples="""\
examples:
  coterie pipeline plan-stale cleanup.json --lake lake
      groups with a score of 30 or more; then review the file
  coterie pipeline plan-stale cleanup.json --lake lake --class dead --class typo
      groups whose topics were deleted, and misspelled names of other groups
  coterie groups apply cleanup.json
      show the groups that would be deleted and refused now
  coterie groups apply cleanup.json --execute
      delete them; `coterie groups undo` restores their offsets

exit codes: 0 success, also without candidates; 1 a named group is refused or the lake
cannot be read, 2 usage error
""",
    options=(_add_options, add_output_options),
    run=_run,
)
