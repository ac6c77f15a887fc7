"""Committed offsets of groups as a file: exported from one cluster, group or moment,
imported into another. Unlike CSV it has metadata and leader epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie.client.admin.offset_values import CommittedOffset
from coterie.errors import SettingError
from coterie.operations.documents import decode_document, encode_document
from coterie.operations.plan import OffsetEntry, entries_of
from coterie.types import GroupId, TopicPartition

SCHEMA: Final = "coterie.offsets"
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """One group's offsets."""

    group_id: GroupId
    offsets: tuple[OffsetEntry, ...]


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """A whole file."""

    schema: str = field(default=SCHEMA, kw_only=True)
    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    exported_at: str
    """UTC."""
    cluster_id: str | None
    groups: tuple[GroupEntry, ...]


Exported = Mapping[GroupId, Mapping[TopicPartition, CommittedOffset]]


def write_offsets_file(
    offsets: Exported, exported_at: str, cluster_id: str | None
) -> bytes:
    """The file of some groups' offsets."""
    groups = (GroupEntry(each, entries_of(offsets[each])) for each in sorted(offsets))
    return encode_document(OffsetFile(exported_at, cluster_id, tuple(groups)))


def read_offsets_file(data: bytes) -> Exported:
    """The offsets of a file. Raises SettingError."""
    read = decode_document(data, OffsetFile, SCHEMA, SCHEMA_VERSION)
    groups: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
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
