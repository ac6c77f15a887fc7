"""Apache's tables, to the byte: widths, blanks at the ends of lines, blank lines.

Most tables begin each line with a line feed instead of ending it with one, and end with
one: so there is a blank line before the header. Every function is pure: rows in, text
out. What Coterie adds stands behind Apache's columns (C-30..C-32).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from coterie.cli.kafka_consumer_groups.layout import (
    MISSING,
    Column,
    last,
    length,
    table,
)
from coterie.client.admin.group_values import (
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from coterie.types import GroupId, LogOffset, TopicPartition


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


_GROUP: Final = Column("GROUP")
_TOPIC: Final = Column("TOPIC")
_PARTITION: Final = Column("PARTITION", 10, fixed=True)
_OFFSETS: Final = (
    _GROUP,
    _TOPIC,
    _PARTITION,
    Column("LEADER-EPOCH", fixed=True),
    Column("CURRENT-OFFSET", fixed=True),
    Column("LOG-END-OFFSET", fixed=True),
    Column("LAG", fixed=True),
    Column("CONSUMER-ID"),
    Column("HOST"),
    last("CLIENT-ID"),
)
_LEADER_EPOCH: Final = OffsetRow._fields.index("leader_epoch")


def group_list(
    groups: Sequence[GroupListing], *, with_type: bool, with_state: bool
) -> str:
    """`--list` with `--type`, `--state` or both (E29-06)."""
    widest = max((length(each.group_id) for each in groups), default=0)
    columns = [Column("GROUP", max(15, widest) + 10)]
    rows = [[each.group_id] for each in groups]
    if with_type:
        columns.append(Column("TYPE", 20, fixed=True))
        for row, each in zip(rows, groups, strict=True):
            row.append(each.type.value.capitalize() if each.type else "Unknown")
    if with_state:
        columns.append(Column("STATE", 20, fixed=True))
        for row, each in zip(rows, groups, strict=True):
            row.append(each.state.value if each.state else "Unknown")
    return "".join(f"{line}\n" for line in table(columns, rows))


def offsets(rows: Iterable[OffsetRow], extras: Extras) -> str:
    """`--describe --offsets` of one group (C-41)."""
    columns: list[Column] = list(_OFFSETS)
    lines: list[list[object]] = [list(row) for row in rows]
    if not extras.verbose:
        del columns[_LEADER_EPOCH]
        for line in lines:
            del line[_LEADER_EPOCH]
    return _below_a_blank_line(columns, lines)


def members(group: GroupDescription, extras: Extras) -> str:
    """`--describe --members` of one group; of no members, the header (C-51)."""
    has_instances = any(each.instance_id for each in group.members)
    columns = [
        _GROUP,
        Column("CONSUMER-ID"),
        *([Column("GROUP-INSTANCE-ID", 17)] if has_instances else []),
        Column("HOST"),
        Column("CLIENT-ID"),
        Column("#PARTITIONS", fixed=True),
    ]
    rows: list[list[object]] = [
        [
            group.group_id,
            each.member_id,
            *([each.instance_id or ""] if has_instances else []),
            each.host,
            each.client_id,
            len(each.assignment),
        ]
        for each in group.members
    ]
    if extras.verbose:
        _add_epochs_and_assignments(group, columns, rows, is_last=not extras.ours)
    if extras.ours:
        _add_strategy_and_subscription(group, columns, rows, extras)
    # Apache's format of the plain columns ends with a blank.
    end = " \n" if extras == Extras() else "\n"
    return "\n" + "".join(f"{line}{end}" for line in table(columns, rows))


def _add_epochs_and_assignments(
    group: GroupDescription,
    columns: list[Column],
    rows: Sequence[list[object]],
    *,
    is_last: bool,
) -> None:
    """What 4.0 added (C-43). Who was upgraded counts only while not all are."""
    columns += [
        Column("CURRENT-EPOCH", fixed=True),
        Column("CURRENT-ASSIGNMENT", 20),
        Column("TARGET-EPOCH", fixed=True),
        Column("TARGET-ASSIGNMENT", 20),
    ]
    for row, each in zip(rows, group.members, strict=True):
        target = assigned(each.target_assignment or ())
        epoch = group.assignment_epoch
        row += [each.epoch, assigned(each.assignment), epoch, target]
    if {True, False} <= {each.is_classic for each in group.members}:
        columns.append(last("UPGRADED") if is_last else Column("UPGRADED", 8))
        for row, each in zip(rows, group.members, strict=True):
            row.append(_upgraded(each))


def _upgraded(member: MemberDescription) -> str | None:
    return None if member.is_classic is None else str(not member.is_classic).lower()


def assigned(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as `topicA:0,1;topicB:2`, or a hyphen."""
    topics = (
        f"{topic}:{','.join(str(each.partition) for each in some)}"
        for topic, some in groupby(sorted(partitions), key=lambda each: each.topic)
    )
    return ";".join(sorted(topics)) or MISSING


def _add_strategy_and_subscription(
    group: GroupDescription,
    columns: list[Column],
    rows: Sequence[list[object]],
    extras: Extras,
) -> None:
    """What KIP-181 asked for (C-31, C-32)."""
    if extras.verbose:
        columns += [Column("ASSIGNMENT-STRATEGY", 20), last("SUBSCRIPTION")]
    else:
        columns.append(last("ASSIGNMENT-STRATEGY"))
    for row, each in zip(rows, group.members, strict=True):
        row.append(",".join(each.protocols or ()) or group.assignor or None)
        if extras.verbose:
            topics = ",".join(each.subscribed_topics or ())
            row.append(topics or each.subscribed_topic_regex or None)


def state(group: GroupDescription, extras: Extras) -> str:
    """`--describe --state` of one group (C-44)."""
    node = group.coordinator
    columns = [
        _GROUP,
        Column("COORDINATOR (ID)", 25),
        Column("ASSIGNMENT-STRATEGY", 20, fixed=True),
        Column("STATE", 20, fixed=True),
    ]
    row: list[object] = [
        group.group_id,
        f"{node}  ({node.node_id})",
        group.assignor or None,
        group.state.value,
    ]
    if extras.verbose:
        columns += [
            Column("GROUP-EPOCH", fixed=True),
            Column("TARGET-ASSIGNMENT-EPOCH", 25, fixed=True),
        ]
        row += [group.group_epoch, group.assignment_epoch]
    columns.append(Column("#MEMBERS", fixed=True) if extras.ours else last("#MEMBERS"))
    row.append(len(group.members))
    if extras.ours:
        columns += [Column("GENERATION-ID", fixed=True), last("LEADER-ID")]
        row += [group.generation_id, group.leader_id or None]
    return _below_a_blank_line(columns, [row])


def new_offsets(
    planned: Mapping[GroupId, Mapping[TopicPartition, LogOffset]],
) -> str:
    """`--reset-offsets`; without any group, no header."""
    if not planned:
        return "\n"
    group = Column("GROUP", max(15, *map(length, planned)))
    columns = [group, _TOPIC, _PARTITION, last("NEW-OFFSET")]
    rows = (
        (group_id, *partition, offset)
        for group_id, partitions in planned.items()
        for partition, offset in partitions.items()
    )
    return _below_a_blank_line(columns, rows)


def deleted_offsets(rows: Iterable[StatusRow]) -> str:
    """`--delete-offsets` (C-65)."""
    columns = [_TOPIC, _PARTITION, Column("STATUS", fixed=True)]
    return _below_a_blank_line(
        columns,
        (
            (row.topic, None if row.partition < 0 else row.partition, row.status)
            for row in rows
        ),
    )


def _below_a_blank_line(
    columns: Sequence[Column], rows: Iterable[Sequence[object]]
) -> str:
    return "".join(f"\n{line}" for line in table(columns, rows)) + "\n"
