"""Files of committed offsets: a JSON document, and the CSV of kafka-consumer-groups.sh.

The JSON document contains metadata and leader epochs, too. The CSV has the columns
`topic,partition,offset` for one group and `group,topic,partition,offset` for several,
without a header (C-63). Names are quoted where Kafka's writer (Jackson) quotes them:
over 24 characters, or with a backslash or a character below the hyphen. So are names
with a byte order mark, which is removed at the start of a file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coterie import client
from coterie.errors import SettingError
from coterie.operations import plan_files
from coterie.operations.topic_ids import TopicIds
from coterie.types import GroupId, LogOffset, TopicPartition

SCHEMA: Final = "coterie.offsets"
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """The offsets of one group."""

    group_id: GroupId
    offsets: tuple[plan_files.OffsetEntry, ...]


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """A file of committed offsets."""

    schema: str = field(default=SCHEMA, kw_only=True)
    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    exported_at: str
    """UTC."""
    cluster_id: str | None
    groups: tuple[GroupEntry, ...]
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of the topics of the offsets, where known; null for a topic that did not
    exist."""


Exported = Mapping[GroupId, Mapping[TopicPartition, client.CommittedOffset]]


def write_offsets_file(
    offsets: Exported,
    exported_at: str,
    cluster_id: str | None,
    topic_ids: TopicIds | None = None,
) -> bytes:
    """Encode the offsets of groups, with the ids of their topics if they are given."""
    groups = (
        GroupEntry(each, plan_files.entries_of(offsets[each]))
        for each in sorted(offsets)
    )
    return plan_files.encode_document(
        OffsetFile(exported_at, cluster_id, tuple(groups), topic_ids or {})
    )


def read_exported_topics(data: bytes, cluster_id: str | None) -> TopicIds:
    """Return the ids of the topics in a file if its offsets are of this cluster, else
    none. Raises SettingError."""
    read = plan_files.decode_document(data, OffsetFile, SCHEMA, SCHEMA_VERSION)
    return read.topic_ids if read.cluster_id == cluster_id else {}


def read_offsets_file(data: bytes) -> Exported:
    """Decode the offsets of a file. Raises SettingError."""
    read = plan_files.decode_document(data, OffsetFile, SCHEMA, SCHEMA_VERSION)
    groups: dict[GroupId, dict[TopicPartition, client.CommittedOffset]] = {}
    for group in read.groups:
        offsets = groups.setdefault(group.group_id, {})
        for entry in group.offsets:
            if entry.committed is None or entry.at in offsets:
                raise SettingError(
                    f"group {group.group_id}: {entry.topic}-{entry.partition} needs one"
                    " offset"
                )
            offsets[entry.at] = entry.committed
    return groups


_UNQUOTED_MAX: Final = 24
_QUOTED: Final = "\\\ufeff"
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


class CsvRow(NamedTuple):
    """A line of a CSV file of offsets."""

    group_id: GroupId
    at: TopicPartition
    offset: LogOffset


def write_csv(rows: Iterable[CsvRow], *, with_group: bool) -> str:
    """Encode rows as CSV."""
    return "".join(
        (f"{_quoted(row.group_id)}," if with_group else "")
        + f"{_quoted(row.at.topic)},{row.at.partition},{row.offset}\n"
        for row in rows
    )


def read_csv(
    text: str, only_group: GroupId | None = None
) -> Mapping[GroupId, Mapping[TopicPartition, LogOffset]]:
    """Parse CSV into the offsets of each group.

    Lines of three columns belong to `only_group`. Raises SettingError with the line
    number.
    """
    groups: dict[GroupId, dict[TopicPartition, LogOffset]] = {}
    # Not splitlines: a quoted name may contain any end of line.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for fields in reader:
            if not fields:
                continue
            row = _read_row(fields, only_group)
            offsets = groups.setdefault(row.group_id, {})
            if row.at in offsets:
                raise SettingError(
                    f"{row.at.topic}-{row.at.partition} occurs twice: keep one"
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
                "a line without a group needs exactly one selected group: select one,"
                " or write group,topic,partition,offset"
            )
        case [group_id, topic, partition, offset]:
            pass
        case _:
            raise SettingError(
                f"{len(fields)} columns: write topic,partition,offset or"
                " group,topic,partition,offset"
            )
    if not topic:
        raise SettingError("the topic is empty")
    at = TopicPartition(topic, _number(partition, "partition", _PARTITION_MAX))
    return CsvRow(group_id, at, _number(offset, "offset", _OFFSET_MAX))


def _number(text: str, what: str, highest: int) -> int:
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and int(plain) <= highest):
        raise SettingError(f"{text!r} is not a valid {what}: write a number from 0")
    return int(plain)


def _quoted(name: str) -> str:
    plain = all(letter >= "-" and letter not in _QUOTED for letter in name)
    if plain and len(name) <= _UNQUOTED_MAX:
        return name
    return '"' + name.replace('"', '""') + '"'
