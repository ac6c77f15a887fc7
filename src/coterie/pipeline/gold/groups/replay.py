"""Replay of all records of one group, in log order, and its result in Arrow.

Spark's Python workers run it (`group_replay.sql`). A change
of the group's protocol is recognized by its records (K-07c): tombstones for one
protocol directly before records of the other protocol, in the same batch, end no
session and no ownership.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from coterie.pipeline.gold.groups import classic, consumer
from coterie.pipeline.gold.groups.rebalances import StormRule, mark_storms
from coterie.pipeline.gold.groups.record import (
    CLASSIC_GROUP,
    GROUP_EPOCH,
    Record,
    TopicNames,
    TopicPartition,
)
from coterie.pipeline.gold.groups.state import (
    CLASSIC,
    CONSUMER,
    STABLE,
    Changes,
    GroupState,
    Member,
)
from coterie.pipeline.gold.plans import Plan
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import GOLD

NAME_TYPE: Final = -1
"""The `record_type` of an input row that gives the name of a topic instead of a record:
the topic ID is in `member_id`, the name in `protocol`."""
_MEMBER_STATES: Final = {
    0: "stable",
    1: "unrevoked_partitions",
    2: "unreleased_partitions",
}
KEY_FIELDS: Final = Record._fields[:6]
"""Fields of Record that are columns of the input; the others are in JSON."""
_INPUT: Final = ["log_partition", "group_id", *KEY_FIELDS, "value"]
_TYPE_INDEX: Final = KEY_FIELDS.index("record_type")
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_SCHEMA: Final = GOLD["group_history"].declared.schema
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The result of a replay: rows of gold tables without the columns that all rows of
    a group share. Times are in microseconds since 1970."""

    group: Row
    members: Sequence[Row]
    ownership: Sequence[Row]
    sessions: Sequence[Row]
    rebalances: Sequence[Row]


def replay_group(
    group_id: str, records: Sequence[Record], names: TopicNames, storms: StormRule
) -> GroupHistory:
    """Replay all records of a group, in the order of their offsets."""
    group = GroupState(group_id, names)
    downgrades = _downgrade_tombstones(records)
    for index, record in enumerate(records):
        _advance(group, record)
        if index in downgrades:
            if group.protocol == CONSUMER and group.conversion is None:
                group.begin_conversion("downgraded")
        elif record.record_type != CLASSIC_GROUP:
            consumer.replay(group, record)
        elif record.has_value:
            classic.replay(group, record)
        elif group.protocol == CLASSIC:
            if _is_upgrade(record, records[index + 1 : index + 2]):
                group.begin_conversion("upgraded")
            else:
                group.delete(record)
        group.last_offset = record.log_offset
    group.rebalances.finish()
    mark_storms(group_id, group.rebalances.all, storms)
    return GroupHistory(
        _group_row(group),
        [_member_row(member) for member in group.members.values()],
        [*group.ownership.rows()],
        [*group.sessions.rows()],
        [*group.rebalances.rows()],
    )


def _advance(group: GroupState, record: Record) -> None:
    group.previous_us = group.now_us
    if record.at_us is not None:
        # Clocks of coordinators differ: timestamps may decrease after a failover.
        group.now_us = max(group.now_us, record.at_us)
    if group.first_us is None:
        group.first_us = group.now_us
    if record.base_offset == group.base_offset:
        return
    # A new batch. The coordinator bumps the epoch in the batch of the change, so a
    # change in the previous batch without a new epoch causes no rebalance: a replaced
    # static member, or a new rack.
    group.base_offset = record.base_offset
    joined, left = group.changes.joined, group.changes.left
    for old, new in group.replaced:
        left = [session for session in left if session is not old]
        joined = [session for session in joined if session is not new]
    group.changes = Changes(joined, left)
    group.closed_intervals, group.ended_sessions, group.replaced = [], [], []


def _downgrade_tombstones(records: Sequence[Record]) -> set[int]:
    """Return the indexes of the tombstones of a consumer group that are directly before
    its first classic record in the same batch."""
    indexes: set[int] = set()
    for index, record in enumerate(records):
        if record.record_type != CLASSIC_GROUP or not record.has_value:
            continue
        first = index
        while (
            first
            and (before := records[first - 1]).record_type != CLASSIC_GROUP
            and not before.has_value
            and before.base_offset == record.base_offset
        ):
            first -= 1
        if any(each.record_type == GROUP_EPOCH for each in records[first:index]):
            indexes.update(range(first, index))
    return indexes


def _is_upgrade(tombstone: Record, following: Sequence[Record]) -> bool:
    """Return whether the tombstone of a classic group belongs to an upgrade: a record
    of a consumer group with a value follows in the same batch."""
    return any(
        record.record_type != CLASSIC_GROUP
        and record.has_value
        and record.base_offset == tombstone.base_offset
        for record in following
    )


# Rows of the result.


def _group_row(group: GroupState) -> Row:
    members = group.members.values()
    partitions = [interval.partition for interval in group.ownership.all]
    nameless = {
        one.topic_id for one in partitions if one.topic is None and one.topic_id
    }
    return {
        "group_type": group.protocol,
        "protocol_type": group.protocol_type,
        "assignor": _assignor(group),
        "state": None if group.protocol is None else _state(group),
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "leader_member_id": group.leader_id,
        "member_count": len(members),
        "static_member_count": sum(
            member.session.instance_id is not None for member in members
        ),
        "owned_partition_count": len(group.ownership.owners),
        "created_ts": group.created_us,
        "first_seen_ts": group.first_us,
        "last_state_change_ts": group.now_us,
        "empty_since_ts": group.empty_since_us,
        "last_log_offset": group.last_offset,
        "nameless_topic_ids": sorted(nameless),
    }


def _assignor(group: GroupState) -> str | None:
    """Return the assignor. In a consumer group it is the one that most members request,
    as in the coordinator (KIP-848); in case of a tie, the first by name.
    """
    if group.protocol != CONSUMER:
        return group.assignor
    votes = Counter(
        member.server_assignor
        for member in group.members.values()
        if member.server_assignor is not None
    )
    most = max(votes.values(), default=0)
    return min((name for name, count in votes.items() if count == most), default=None)


def _state(group: GroupState) -> str:
    """Return the state of the group in the coordinator's terms. A consumer group with a
    static member that left temporarily is not Stable.
    """
    members = group.members.values()
    if not members:
        return "Empty"
    if group.protocol == CLASSIC:
        return "Stable"
    if (group.epoch or 0) > (group.assignment_epoch or 0):
        return "Assigning"
    reconciled = all(
        member.epoch == group.assignment_epoch and member.state == STABLE
        for member in members
    )
    return "Stable" if reconciled else "Reconciling"


def _member_row(member: Member) -> Row:
    session, pending = member.session, member.pending_revocation
    state = None
    if member.state is not None:
        is_away = member.is_away
        state = "away" if is_away else _MEMBER_STATES.get(member.state, "unknown")
    return {
        "member_id": session.member_id,
        "instance_id": session.instance_id,
        "client_id": session.client_id,
        "client_host": session.client_host,
        "rack_id": session.rack_id,
        "protocol": session.protocol,
        "member_epoch": member.epoch,
        "member_state": state,
        "subscribed_topics": member.subscribed_topics,
        "subscribed_regex": member.subscribed_regex,
        "assigned": _as_dicts(member.assigned),
        "pending_revocation": None if pending is None else _as_dicts(pending),
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "since_ts": session.joined_ts,
    }


def _as_dicts(partitions: Iterable[TopicPartition]) -> list[Row]:
    return [partition._asdict() for partition in partitions]


# Arrow.


def replay_batches(
    settings: GoldSettings, _: Plan, batches: Iterable[Any]
) -> Iterator[Any]:
    """Yield batches of group_history rows from batches of the records of groups, each
    group's in the order of the log.

    A row has the first fields of `Record`, and `value`: the other fields in JSON,
    without nulls.
    """
    storms = StormRule(
        settings.storm_epochs,
        settings.storm_window_ms * 1000,
        settings.storm_quiet_ms * 1000,
    )
    rows = chain.from_iterable(
        zip(*(each.to_pylist() for each in batch.select(_INPUT).columns), strict=True)
        for batch in batches
    )
    for (log_partition, group_id), of_group in groupby(rows, key=itemgetter(0, 1)):
        records, names = [], {}
        for _, _, *key, value in of_group:
            fields = _decode(value)
            if key[_TYPE_INDEX] == NAME_TYPE:
                names[fields["member_id"]] = fields["protocol"]
            else:
                records.append(Record(*key, **fields))
        history = replay_group(group_id, records, names, storms)
        yield arrow_of(log_partition, group_id, history)


def arrow_of(log_partition: int, group_id: str, history: GroupHistory) -> Any:
    """Return the rows of the table group_history for one group."""
    rows_by_kind = {
        "group": [history.group],
        "member": history.members,
        "ownership": history.ownership,
        "session": history.sessions,
        "rebalance": history.rebalances,
    }
    rows = [
        {
            "log_partition": log_partition,
            "group_id": group_id,
            "kind": kind,
            "number": number,
            "nameless_topic_ids": row.pop("nameless_topic_ids", None),
            kind: row,
        }
        for kind, rows in rows_by_kind.items()
        for number, row in enumerate(rows)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
