"""Write which stale groups are to be deleted to a plan file, to be reviewed and then
applied by `coterie groups apply`.

From the table stale_group_candidates of a lake. A group with a blocker is never in a
plan. The file has every group as the log tells of it: state, epochs, offsets with their
metadata. `apply` reads each group again just before it deletes it, and leaves it alone
when it gained a member, a commit or a transaction since then, or stands otherwise in
any way. No cluster is asked here.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from coterie.cli.output.emit import Surroundings
    from coterie.cli.output.values import Failure
    from coterie.operations.plan import OffsetEntry, Plan, PlanItem, SeenGroup
    from coterie.pipeline.lake.lake import Lake

EXAMPLES: Final = """\
examples:
  coterie pipeline plan-stale cleanup.json --lake lake
      groups with a score of 30 and more; then review the file
  coterie pipeline plan-stale cleanup.json --lake lake --class dead --class typo
      those whose topics are gone, and slips of other groups' names
  coterie groups apply cleanup.json
      what would be deleted now, and what would be refused
  coterie groups apply cleanup.json --execute
      delete them; `coterie groups undo` brings their offsets back

exit codes: 0 written or nothing to write, 1 a group that was named may not go or the
lake cannot be read, 2 asked for wrongly
"""
_CLASSES: Final = ("dead", "abandoned", "expired_soon", "typo", "test")
_SCORE: Final = 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "plan_file", metavar="FILE", help="the plan; it must not be there yet"
    )
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="where `coterie pipeline run` wrote its tables",
    )
    add = parser.add_argument_group("which groups").add_argument
    add("--group", metavar="NAME", action="append", help="only this; may be repeated")
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
        default=_SCORE,
        metavar="N",
        help=f"only groups with so many points, 0 to 100 (default {_SCORE})",
    )
    parser.add_argument(
        "--cluster-id",
        metavar="ID",
        help="where the groups live, when the lake does not know: `coterie groups list "
        "--output json` shows it",
    )
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Write the file, and show what is in it."""
    from coterie.cli.output.emit import Surroundings, emit
    from coterie.errors import LogError

    where = Surroundings()
    try:
        outcome = write_plan(options, where)
    except LogError as error:
        from coterie.cli.running import failed_run

        outcome = failed_run(error)
    return emit(outcome, options, where)


def write_plan(options: argparse.Namespace, where: Surroundings) -> Any:
    """What there is to be printed. Raises LogError, SettingError."""
    from coterie.cli.groups.files import write_new
    from coterie.cli.output.values import Column, Outcome
    from coterie.cli.pipeline.show.showing import about, age
    from coterie.operations.plan import encode_plan
    from coterie.pipeline.lake.lake import Lake

    lake = Lake.open(options.lake)
    cluster_id = _cluster_id(lake, options.cluster_id)
    wanted, failures = _wanted(lake, options)
    notes = "no plan was written: no group may go"
    if wanted:
        plan = plan_of(lake, wanted, cluster_id, where)
        write_new(options.plan_file, encode_plan(plan))
        count = "1 item is" if len(wanted) == 1 else f"{len(wanted)} items are"
        file = options.plan_file
        notes = f"{count} in {file}: coterie groups apply {file} --execute"
    return Outcome(
        schema="coterie.pipeline.plan-stale",
        columns=(
            Column("group_id", "GROUP"),
            Column("class", "CLASS"),
            Column("score", "SCORE"),
            Column("reason", "REASON"),
            Column("item_id", "ITEM", is_wide=True),
        ),
        items=tuple(
            {
                "group_id": row["group_id"],
                "class": row["class"],
                "score": row["score"],
                "reason": _reason(row),
                "item_id": row["plan_item_id"],
            }
            for row in wanted
        ),
        failures=failures,
        cluster_id=cluster_id,
        about=about(lake),
        notes=(age(lake, where), notes),
    )


def _cluster_id(lake: Lake, said: str | None) -> str:
    from coterie.errors import SettingError

    known = lake.identity.cluster_id
    if said and known and said != known:
        raise SettingError(f"the lake is of the cluster {known}, not of {said}")
    if not (said or known):
        raise SettingError(
            "the lake does not know which cluster its log is of: say --cluster-id ID"
            " (`coterie groups list --output json` shows it)"
        )
    return said or known or ""


def _wanted(
    lake: Lake, options: argparse.Namespace
) -> tuple[list[dict[str, Any]], tuple[Failure, ...]]:
    """Candidates that are meant, the surest first; and those that were named and may
    not go."""
    named = options.group or ()
    rows = {
        row["group_id"]: row for row in _read(lake, "stale_group_candidates", named)
    }
    wanted = [
        row
        for row in rows.values()
        if not row["blockers"]
        and row["plan_item_id"]
        and row["score"] >= options.min_score
        and (not options.classes or row["class"] in options.classes)
    ]
    wanted.sort(key=lambda row: (-row["score"], row["group_id"]))
    return wanted, tuple(_refused(named, rows))


def _refused(
    named: Iterable[str], rows: Mapping[str, Mapping[str, Any]]
) -> Iterator[Failure]:
    from coterie.cli.output.values import Failure

    for group_id in dict.fromkeys(named):
        row = rows.get(group_id)
        if row is None:
            yield Failure("group", group_id, "UNKNOWN", "the lake has no such group")
        elif row["blockers"]:
            yield Failure("group", group_id, "BLOCKED", "; ".join(row["blockers"]))


def plan_of(
    lake: Lake,
    candidates: Sequence[Mapping[str, Any]],
    cluster_id: str,
    where: Surroundings,
) -> Plan:
    """A plan that deletes these groups, as the lake's version has them."""
    from coterie.cli.groups.writing import fresh_id
    from coterie.operations.documents import utc_text
    from coterie.operations.plan import Plan

    ids = [row["group_id"] for row in candidates]
    groups = {row["group_id"]: row for row in _read(lake, "current_groups", ids)}
    offsets: dict[str, list[Mapping[str, Any]]] = {each: [] for each in ids}
    for row in _read(lake, "current_offsets", ids):
        offsets[row["group_id"]].append(row)
    items = tuple(
        item_of(row, groups[row["group_id"]], offsets[row["group_id"]])
        for row in candidates
    )
    command = "coterie pipeline plan-stale"
    return Plan(fresh_id(where), utc_text(where.now_ms()), cluster_id, items, command)


def item_of(
    candidate: Mapping[str, Any],
    group: Mapping[str, Any],
    offsets: Sequence[Mapping[str, Any]],
) -> PlanItem:
    """The item that deletes a group: from its rows of `stale_group_candidates`,
    `current_groups` and `current_offsets`."""
    from coterie.operations.plan import Action, PlanItem, item_id_of

    group_id = candidate["group_id"]
    item_id = item_id_of(Action.DELETE_GROUP, group_id)
    assert item_id == candidate["plan_item_id"], "the table and the plan disagree"
    return PlanItem(
        item_id,
        Action.DELETE_GROUP,
        group_id,
        _seen(group, offsets),
        reason=_reason(candidate),
    )


def _seen(group: Mapping[str, Any], offsets: Sequence[Mapping[str, Any]]) -> SeenGroup:
    """The group as the log tells of it; whoever has members is in no plan."""
    from coterie.operations.plan import SeenGroup

    is_consumer = group["group_type"] == "consumer"
    is_classic = group["group_type"] == "classic"
    entries = sorted(map(_entry, offsets), key=lambda each: each.at)
    return SeenGroup(
        exists=True,
        state="Empty",
        type="consumer" if is_consumer else "classic",
        group_epoch=group["epoch"] if is_consumer else None,
        assignment_epoch=group["assignment_epoch"] if is_consumer else None,
        generation_id=group["epoch"] if is_classic else None,
        offsets=tuple(entries),
    )


def _entry(row: Mapping[str, Any]) -> OffsetEntry:
    from coterie.operations.plan import OffsetEntry

    return OffsetEntry(
        row["topic"],
        row["partition"],
        row["committed_offset"],
        row["leader_epoch"],
        row["metadata"] or "",
    )


def _reason(row: Mapping[str, Any]) -> str:
    return "; ".join(row["reasons"])


def _read(lake: Lake, table: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of these groups; of all without any."""
    from coterie.pipeline.report.rows import Ask, read

    among = {"group_id": list(ids)} if ids else {}
    rows, _ = read(lake, Ask(table, (("group_id", "ascending"),), among))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found
