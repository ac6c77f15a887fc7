"""Offsets as the CSV of Apache's tool: `topic,partition,offset` for one group,
`group,topic,partition,offset` for several (C-63). No header.

Names are quoted exactly where Apache's writer quotes them: over 24 characters, or with
a backslash or a character that sorts before the hyphen.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from coterie.errors import SettingError
from coterie.types import GroupId, LogOffset, TopicPartition

_UNQUOTED_MAX: Final = 24
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


class CsvRow(NamedTuple):
    """One line."""

    group_id: GroupId
    at: TopicPartition
    offset: LogOffset


def write_csv(rows: Iterable[CsvRow], *, with_group: bool) -> str:
    """The lines of those rows, each with its line feed."""
    return "".join(
        (f"{_quoted(row.group_id)}," if with_group else "")
        + f"{_quoted(row.at.topic)},{row.at.partition},{row.offset}\n"
        for row in rows
    )


def read_csv(
    text: str, only_group: GroupId | None = None
) -> Mapping[GroupId, Mapping[TopicPartition, LogOffset]]:
    """The offsets of a file, by group.

    Lines of three columns are those of `only_group`; without it they are refused.
    Raises SettingError, which names the line.
    """
    groups: dict[GroupId, dict[TopicPartition, LogOffset]] = {}
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        for fields in reader:
            if not fields:
                continue
            row = _read_row(fields, only_group)
            offsets = groups.setdefault(row.group_id, {})
            if row.at in offsets:
                raise SettingError(
                    f"{row.at.topic}-{row.at.partition} is there twice: keep one"
                )
            offsets[row.at] = row.offset
    except (SettingError, csv.Error) as error:
        raise SettingError(f"line {reader.line_num}: {error}") from error
    return groups


def _read_row(fields: list[str], only_group: GroupId | None) -> CsvRow:
    match fields:
        case [topic, partition, offset] if only_group is not None:
            group_id = only_group
        case [_, _, _]:
            raise SettingError(
                "a line without a group needs exactly one group to be selected: select"
                " one, or write group,topic,partition,offset"
            )
        case [group_id, topic, partition, offset]:
            pass
        case _:
            raise SettingError(
                f"{len(fields)} columns: write topic,partition,offset or"
                " group,topic,partition,offset"
            )
    if not topic:
        raise SettingError("a topic has a name")
    at = TopicPartition(topic, _number(partition, "partition", _PARTITION_MAX))
    return CsvRow(group_id, at, _number(offset, "offset", _OFFSET_MAX))


def _number(text: str, what: str, highest: int) -> int:
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and int(plain) <= highest):
        raise SettingError(f"{text!r} is no {what}: write a number from 0")
    return int(plain)


def _quoted(name: str) -> str:
    plain = all(letter >= "-" and letter != "\\" for letter in name)
    if plain and len(name) <= _UNQUOTED_MAX:
        return name
    return '"' + name.replace('"', '""') + '"'
