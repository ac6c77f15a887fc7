"""Apache's tables, to the byte: widths, blanks at the ends of lines, blank lines.

Most tables begin each line with a line feed instead of ending it with one, and end with
one: so there is a blank line before the header. Every function is pure: rows in, text
out. What Coterie adds stands behind Apache's columns (C-30..C-32).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from coterie.cli.kafka_consumer_groups.layout import MISSING, Column, length, table
from coterie.client.admin.group_values import (
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from coterie.types import GroupId, LogOffset, TopicPartition

_Row = TypeVar("_Row")


class Extras(NamedTuple):
    """Which columns are asked for beyond the plain ones."""

    verbose: bool = False
    ours: bool = False
    """Those of KIP-181."""


class OffsetRow(NamedTuple):
    """One row of the table of offsets; None is not there, or not known."""

    group_id: GroupId
    topic: str | None = None
    partition: int | None = None
    leader_epoch: int | None = None
    current_offset: LogOffset | None = None
    log_end_offset: LogOffset | None = None
    lag: int | None = None
    consumer_id: str | None = None
    host: str | None = None
    client_id: str | None = None


class StatusRow(NamedTuple):
    """What became of one partition's offset; partition -1 is an unknown topic's."""

    topic: str
    partition: int
    status: str


def group_list(
    groups: Sequence[GroupListing], *, with_type: bool, with_state: bool
) -> str:
    """`--list` with `--type`, `--state` or both (E29-06)."""
    columns: list[Column[GroupListing]] = [Column("GROUP", lambda each: each.group_id)]
    columns = [Column("GROUP", columns[0].cell, columns[0].width(groups) + 10)]
    if with_type:
        columns.append(Column("TYPE", _type_of, 20, fixed=True))
    if with_state:
        columns.append(Column("STATE", _state_of, 20, fixed=True))
    return "".join(f"{line}\n" for line in table(columns, groups))


def _type_of(group: GroupListing) -> str:
    return "Unknown" if group.type is None else group.type.value.capitalize()


def _state_of(group: GroupListing) -> str:
    return "Unknown" if group.state is None else group.state.value


def offsets(rows: Sequence[OffsetRow], extras: Extras) -> str:
    """`--describe --offsets` of one group (C-41)."""
    columns: list[Column[OffsetRow]] = [
        Column("GROUP", lambda row: row.group_id),
        Column("TOPIC", lambda row: row.topic),
        Column("PARTITION", lambda row: row.partition, 10, fixed=True),
    ]
    if extras.verbose:
        columns.append(Column("LEADER-EPOCH", lambda row: row.leader_epoch, fixed=True))
    columns += [
        Column("CURRENT-OFFSET", lambda row: row.current_offset, fixed=True),
        Column("LOG-END-OFFSET", lambda row: row.log_end_offset, fixed=True),
        Column("LAG", lambda row: row.lag, fixed=True),
        Column("CONSUMER-ID", lambda row: row.consumer_id),
        Column("HOST", lambda row: row.host),
        Column("CLIENT-ID", lambda row: row.client_id, 0, fixed=True),
    ]
    return _below_a_blank_line(columns, rows)


def members(group: GroupDescription, extras: Extras) -> str:
    """`--describe --members` of one group; of no members, the header (C-51)."""
    rows = group.members
    columns: list[Column[MemberDescription]] = [
        Column("GROUP", lambda _: group.group_id),
        Column("CONSUMER-ID", lambda member: member.member_id),
    ]
    if any(member.instance_id for member in rows):
        columns.append(
            Column("GROUP-INSTANCE-ID", lambda member: member.instance_id or "", 17)
        )
    columns += [
        Column("HOST", lambda member: member.host),
        Column("CLIENT-ID", lambda member: member.client_id),
        Column("#PARTITIONS", lambda member: len(member.assignment), fixed=True),
    ]
    if extras.verbose:
        columns += _epochs_and_assignments(group, is_last=not extras.ours)
    if extras.ours:
        columns += _strategy_and_subscription(group, verbose=extras.verbose)
    if not extras.verbose and not extras.ours:
        columns.append(Column("", lambda _: "", 0))
    return "\n" + "".join(f"{line}\n" for line in table(columns, rows))


def _epochs_and_assignments(
    group: GroupDescription, *, is_last: bool
) -> list[Column[MemberDescription]]:
    """What 4.0 added (C-43). Who was upgraded counts only while not all are."""
    kinds = {member.is_classic for member in group.members}
    columns: list[Column[MemberDescription]] = [
        Column("CURRENT-EPOCH", lambda member: member.epoch, fixed=True),
        Column("CURRENT-ASSIGNMENT", lambda member: assigned(member.assignment), 20),
        Column("TARGET-EPOCH", lambda _: group.assignment_epoch, fixed=True),
        Column(
            "TARGET-ASSIGNMENT",
            lambda member: assigned(member.target_assignment or ()),
            20,
        ),
    ]
    if {True, False} <= kinds:
        width = 0 if is_last else len("UPGRADED")
        columns.append(Column("UPGRADED", _upgraded, width, fixed=True))
    return columns


def _upgraded(member: MemberDescription) -> str | None:
    return None if member.is_classic is None else str(not member.is_classic).lower()


def assigned(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as `topicA:0,1;topicB:2`, or a hyphen."""
    topics = (
        f"{topic}:{','.join(str(each.partition) for each in some)}"
        for topic, some in groupby(sorted(partitions), key=lambda each: each.topic)
    )
    return ";".join(sorted(topics)) or MISSING


def _strategy_and_subscription(
    group: GroupDescription, *, verbose: bool
) -> list[Column[MemberDescription]]:
    """What KIP-181 asked for (C-31, C-32)."""

    def strategy(member: MemberDescription) -> str | None:
        return ",".join(member.protocols or ()) or group.assignor or None

    def subscription(member: MemberDescription) -> str | None:
        topics = ",".join(member.subscribed_topics or ())
        return topics or member.subscribed_topic_regex or None

    if not verbose:
        return [Column("ASSIGNMENT-STRATEGY", strategy, 0, fixed=True)]
    return [
        Column("ASSIGNMENT-STRATEGY", strategy, 20),
        Column("SUBSCRIPTION", subscription, 0, fixed=True),
    ]


def state(group: GroupDescription, extras: Extras) -> str:
    """`--describe --state` of one group (C-44)."""
    node = group.coordinator
    columns: list[Column[GroupDescription]] = [
        Column("GROUP", lambda each: each.group_id),
        Column("COORDINATOR (ID)", lambda _: f"{node}  ({node.node_id})", 25),
        Column(
            "ASSIGNMENT-STRATEGY", lambda each: each.assignor or None, 20, fixed=True
        ),
        Column("STATE", lambda each: each.state.value, 20, fixed=True),
    ]
    if extras.verbose:
        columns += [
            Column("GROUP-EPOCH", lambda each: each.group_epoch, fixed=True),
            Column(
                "TARGET-ASSIGNMENT-EPOCH",
                lambda each: each.assignment_epoch,
                25,
                fixed=True,
            ),
        ]
    width = 15 if extras.ours else 0
    columns.append(
        Column("#MEMBERS", lambda each: len(each.members), width, fixed=True)
    )
    if extras.ours:
        columns += [
            Column("GENERATION-ID", lambda each: each.generation_id, fixed=True),
            Column("LEADER-ID", lambda each: each.leader_id or None, 0, fixed=True),
        ]
    return _below_a_blank_line(columns, [group])


def new_offsets(
    planned: Mapping[GroupId, Mapping[TopicPartition, LogOffset]],
) -> str:
    """`--reset-offsets`; without any group, no header."""
    rows = [
        (group_id, *partition, offset)
        for group_id, partitions in planned.items()
        for partition, offset in partitions.items()
    ]
    widest = max(map(length, planned), default=0)
    columns: list[Column[tuple[GroupId, str, int, LogOffset]]] = [
        Column("GROUP", lambda row: row[0], max(15, widest)),
        Column("TOPIC", lambda row: row[1]),
        Column("PARTITION", lambda row: row[2], 10, fixed=True),
        Column("NEW-OFFSET", lambda row: row[3], 0, fixed=True),
    ]
    return _below_a_blank_line(columns, rows) if planned else "\n"


def deleted_offsets(rows: Sequence[StatusRow]) -> str:
    """`--delete-offsets` (C-65)."""
    columns: list[Column[StatusRow]] = [
        Column("TOPIC", lambda row: row.topic),
        Column(
            "PARTITION",
            lambda row: row.partition if row.partition >= 0 else None,
            10,
            fixed=True,
        ),
        Column("STATUS", lambda row: row.status, 15, fixed=True),
    ]
    return _below_a_blank_line(columns, rows)


def _below_a_blank_line(columns: Sequence[Column[_Row]], rows: Sequence[_Row]) -> str:
    return "".join(f"\n{line}" for line in table(columns, rows)) + "\n"
