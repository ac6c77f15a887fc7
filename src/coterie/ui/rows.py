"""Groups as the page shows them: one flat row for each group, and the details of one.

A row has the time of the oldest unread record instead of its age, so that a group that
stands still does not change. `changed_fields` returns what the page has to update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from coterie import operations as ops
from coterie.client import MemberDescription
from coterie.operations import exporter
from coterie.types import MemberId

Row: TypeAlias = dict[str, Any]
"""Field names and values that JSON can represent."""

PARTITIONS_MAX: Final = 500
"""The partitions in the details of a group; those with the greatest lag come first."""
MEMBERS_MAX: Final = 200


def group_row(group: exporter.PolledGroup, measured_ms: int) -> Row:
    """Return the row of a group. `measured_ms` is the time of the poll."""
    listing, described = group.listing, group.lag.description
    state, kind = listing.state, listing.type
    epoch = None
    if described is not None:
        state, kind = described.state, described.type
        epoch = described.group_epoch
        if epoch is None:
            epoch = described.generation_id
    rows = [each.lag for each in group.partitions]
    unread_ms = [_unread_ms(each, measured_ms) for each in group.partitions]
    error = group.lag.error or next((row.error for row in rows if row.error), None)
    return {
        "id": listing.group_id,
        "state": None if state is None else state.value,
        "rebalancing": state is not None and state.is_rebalancing,
        "type": None if kind is None else kind.value,
        "protocol": listing.protocol_type,
        "assignor": "" if described is None else described.assignor,
        "epoch": epoch,
        "members": None if described is None else len(described.members),
        "topics": len({row.topic for row in rows}),
        "partitions": len(rows),
        "lagging": sum(1 for row in rows if row.lag),
        "uncommitted": sum(
            1 for row in rows if row.lag_status is ops.LagStatus.NO_COMMIT
        ),
        "lag": group.lag.total,
        "oldest_ms": min(
            (each for each in unread_ms if each is not None), default=None
        ),
        "error": None if error is None else str(error),
    }


def changed_fields(before: Row, after: Row) -> Row:
    """Return the fields of `after` that differ, and the id; empty without any."""
    changed = {name: value for name, value in after.items() if before[name] != value}
    return {"id": after["id"], **changed} if changed else {}


def _unread_ms(partition: exporter.PolledPartition, measured_ms: int) -> int | None:
    """Return the time of the first unread record; None when everything is read, and
    when the time is unknown."""
    age = partition.time_lag
    if age is None or age.ms is None or not partition.lag.lag:
        return None
    return measured_ms - age.ms


def group_details(group: exporter.PolledGroup, measured_ms: int) -> Row:
    """Return members with their partitions, and partitions with their lag."""
    described = group.lag.description
    members = () if described is None else described.members
    ordered = sorted(members, key=lambda each: (-len(each.assignment), each.member_id))
    numbers = {each.member_id: number for number, each in enumerate(ordered, start=1)}
    rows = sorted(group.partitions, key=lambda each: (-(each.lag.lag or 0), each.at))
    coordinator = None if described is None else described.coordinator
    return {
        "id": group.listing.group_id,
        "coordinator": None if coordinator is None else str(coordinator),
        "coordinator_id": None if coordinator is None else coordinator.node_id,
        "assignment_epoch": None if described is None else described.assignment_epoch,
        "error": None if group.lag.error is None else str(group.lag.error),
        "members_total": len(ordered),
        "members": [
            _member(each, numbers[each.member_id]) for each in ordered[:MEMBERS_MAX]
        ],
        "partitions_total": len(rows),
        "partitions": [
            _partition(each, numbers, measured_ms) for each in rows[:PARTITIONS_MAX]
        ],
    }


def _member(member: MemberDescription, number: int) -> Row:
    topics: dict[str, list[int]] = {}
    for at in member.assignment:
        topics.setdefault(at.topic, []).append(at.partition)
    return {
        "number": number,
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host.removeprefix("/"),
        "instance_id": member.instance_id,
        "rack": member.rack_id,
        "epoch": member.epoch,
        "count": len(member.assignment),
        "owned": [
            {"topic": topic, "partitions": ranges(numbers)}
            for topic, numbers in topics.items()
        ],
    }


def _partition(
    polled: exporter.PolledPartition, numbers: Mapping[MemberId, int], measured_ms: int
) -> Row:
    row, unread_ms = polled.lag, _unread_ms(polled, measured_ms)
    method = None if polled.time_lag is None else polled.time_lag.method.value
    return {
        "topic": row.topic,
        "partition": row.partition,
        "committed": None if row.committed is None else row.committed.offset,
        "start": row.log_start,
        "end": row.log_end,
        "lag": row.lag,
        "status": row.lag_status.value,
        "oldest_ms": unread_ms,
        "method": None if unread_ms is None else method,
        "owner": None if row.member_id is None else numbers.get(row.member_id),
        "error": None if row.error is None else str(row.error),
    }


def ranges(numbers: Iterable[int]) -> str:
    """Format sorted numbers as ranges, as in "0-3, 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs
    )
