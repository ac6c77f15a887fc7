"""The tables of kafka-consumer-groups.sh, byte for byte: widths, trailing spaces, blank
lines.

Columns are left-aligned and one space apart, as Java's printf formats them. Most tables
start each line with a line feed instead of ending it with one, so that a blank line
comes before the header. Every function is pure. Coterie's columns come after Apache's
(C-30..C-32).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from coterie import client
from coterie.types import GroupId, LogOffset, TopicPartition

MISSING: Final = "-"
LINE_FEED: Final = "\udc0a"
"""A line feed in a cell, as Python's surrogateescape writes bytes: a terminal must not
take it for the end of a row. No name of Kafka has this character."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    least: int = 15
    """The minimum width."""
    fixed: bool = False
    """Whether the width does not grow with the cells: a longer cell shifts its line."""

    def width(self, cells: Iterable[str]) -> int:
        """Return the width of the column with these cells."""
        return self.least if self.fixed else max(self.least, *map(length, cells))


def cell_text(cell: object) -> str:
    """Return the text of a cell: a hyphen for None, and no line feed."""
    return MISSING if cell is None else str(cell).replace("\n", LINE_FEED)


def last(name: str) -> Column:
    """Return a column whose cells are not padded."""
    return Column(name, 0, fixed=True)


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table with its header; None is printed as a hyphen."""
    lines = [[column.name for column in columns]]
    lines += ([cell_text(cell) for cell in row] for row in rows)
    down = zip(*lines, strict=True)
    widths = [column.width(cells) for column, cells in zip(columns, down, strict=True)]
    return [" ".join(map(pad, line, widths)) for line in lines]


def pad(text: str, width: int) -> str:
    """Return the text, padded on the right to a width."""
    if text.isascii():
        return text.ljust(width)
    return text + " " * (width - length(text))


def length(text: str) -> int:
    """Return String.length of Java: the number of UTF-16 code units."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class OffsetRow(NamedTuple):
    """One row of `--describe --offsets`; None is absent or unknown."""

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
    """The result of deleting one offset; the partition of an unknown topic is -1."""

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
    groups: Sequence[client.GroupListing], *, with_type: bool, with_state: bool
) -> str:
    """Return the table of `--list` with `--type`, `--state` or both (E29-06)."""
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


def offsets(rows: Iterable[OffsetRow], *, verbose: bool = False) -> str:
    """Return the table of `--describe --offsets` of one group (C-41)."""
    columns: list[Column] = list(_OFFSETS)
    lines: list[list[object]] = [list(row) for row in rows]
    if not verbose:
        del columns[_LEADER_EPOCH]
        for line in lines:
            del line[_LEADER_EPOCH]
    return _after_blank_line(columns, lines)


def members(group: client.GroupDescription, *, verbose: bool = False) -> str:
    """Return the table of `--describe --members` of one group (C-42, C-51)."""
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
    pairs = list(zip(rows, group.members, strict=True))
    if verbose:  # The columns of KIP-1099 (C-43).
        columns += [
            Column("CURRENT-EPOCH", fixed=True),
            Column("CURRENT-ASSIGNMENT", 20),
            Column("TARGET-EPOCH", fixed=True),
            Column("TARGET-ASSIGNMENT", 20),
        ]
        for row, each in pairs:
            target = assigned(each.target_assignment or ())
            row += [each.epoch, assigned(each.assignment)]
            row += [group.assignment_epoch, target]
        # UPGRADED is shown only while some members are classic and others are not.
        if {True, False} <= {each.is_classic for each in group.members}:
            columns.append(Column("UPGRADED", 8))
            for row, each in pairs:
                is_known = each.is_classic is not None
                row.append(str(not each.is_classic).lower() if is_known else None)
    # The columns of KIP-181 (C-31, C-32).
    strategy = "ASSIGNMENT-STRATEGY"
    columns.append(Column(strategy, 20) if verbose else last(strategy))
    columns += [last("SUBSCRIPTION")] if verbose else []
    for row, each in pairs:
        row.append(",".join(each.protocols or ()) or group.assignor or None)
        if verbose:
            topics = ",".join(each.subscribed_topics or ())
            row.append(topics or each.subscribed_topic_regex or None)
    return _after_blank_line(columns, rows)


def assigned(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as `topicA:0,1;topicB:2`, or a hyphen."""
    topics = (
        f"{topic}:{','.join(str(each.partition) for each in some)}"
        for topic, some in groupby(sorted(partitions), key=lambda each: each.topic)
    )
    return ";".join(sorted(topics)) or MISSING


def state(group: client.GroupDescription, *, verbose: bool = False) -> str:
    """Return the table of `--describe --state` of one group (C-44)."""
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
    if verbose:
        columns += [
            Column("GROUP-EPOCH", fixed=True),
            Column("TARGET-ASSIGNMENT-EPOCH", 25, fixed=True),
        ]
        row += [group.group_epoch, group.assignment_epoch]
    # The last two columns are those of KIP-181 (C-30).
    columns += [
        Column("#MEMBERS", fixed=True),
        Column("GENERATION-ID", fixed=True),
        last("LEADER-ID"),
    ]
    row += [len(group.members), group.generation_id, group.leader_id or None]
    return _after_blank_line(columns, [row])


def new_offsets(
    planned: Mapping[GroupId, Mapping[TopicPartition, LogOffset]],
) -> str:
    """Return the table of `--reset-offsets`; it has no header without a group."""
    if not planned:
        return "\n"
    group = Column("GROUP", max(15, *map(length, planned)))
    columns = [group, _TOPIC, _PARTITION, last("NEW-OFFSET")]
    rows = (
        (group_id, *partition, offset)
        for group_id, partitions in planned.items()
        for partition, offset in partitions.items()
    )
    return _after_blank_line(columns, rows)


def deleted_offsets(rows: Iterable[StatusRow]) -> str:
    """Return the table of `--delete-offsets` (C-65)."""
    columns = [_TOPIC, _PARTITION, Column("STATUS", fixed=True)]
    return _after_blank_line(
        columns,
        (
            (row.topic, None if row.partition < 0 else row.partition, row.status)
            for row in rows
        ),
    )


def _after_blank_line(
    columns: Sequence[Column], rows: Iterable[Sequence[object]]
) -> str:
    return "".join(f"\n{line}" for line in table(columns, rows)) + "\n"
