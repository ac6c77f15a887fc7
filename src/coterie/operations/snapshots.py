"""What is kept before anything is written: a file for each command that writes.

`ID.jsonl`: the first line says what ran, each further line keeps one group as it was
and what is about to be written to it. A line is on the disk before its group is
touched, so whatever was written can be undone; a last line that a crash cut short
belongs to a write that never began, and is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from coterie.client.admin.offset_values import CommittedOffset
from coterie.errors import SettingError
from coterie.operations.documents import (
    append_durably,
    decode_document,
    encode_line,
)
from coterie.operations.plan import Action, OffsetEntry
from coterie.types import GroupId, TopicPartition

SCHEMA: Final = "coterie.snapshot"
SCHEMA_VERSION: Final = 1
_SUFFIX: Final = ".jsonl"


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """The first line."""

    schema: str = field(default=SCHEMA, kw_only=True)
    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    snapshot_id: str
    taken_at: str
    """UTC, as in 2026-11-21T10:00:00.000Z."""
    cluster_id: str | None
    command: str = ""
    plan_id: str = ""


@dataclass(frozen=True, slots=True)
class GroupBefore:
    """A further line: one group before it was written to."""

    group_id: GroupId
    action: Action
    existed: bool
    offsets: tuple[OffsetEntry, ...]
    """All that it had committed."""
    wrote: tuple[OffsetEntry, ...]
    """What was about to be committed; offset null: deleted."""

    @property
    def before(self) -> Mapping[TopicPartition, CommittedOffset | None]:
        """What it had committed."""
        return {entry.at: entry.committed for entry in self.offsets}

    @property
    def written(self) -> Mapping[TopicPartition, CommittedOffset | None]:
        """What was about to be committed (None: deleted)."""
        return {entry.at: entry.committed for entry in self.wrote}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole file."""

    head: SnapshotHead
    groups: tuple[GroupBefore, ...]


class SnapshotWriter:
    """Keeps groups in a new snapshot, whose file is made by the first of them."""

    def __init__(self, directory: Path, head: SnapshotHead) -> None:
        self.path = directory / f"{head.snapshot_id}{_SUFFIX}"
        self._head = head
        self._is_new = True

    @property
    def snapshot_id(self) -> str:
        """By which `undo` finds it."""
        return self._head.snapshot_id

    @property
    def has_kept(self) -> bool:
        """Whether there is anything to undo."""
        return not self._is_new

    def keep(self, groups: Iterable[GroupBefore]) -> None:
        """Put groups on the disk; returns when they are there. Raises SettingError."""
        lines = [encode_line(each) for each in groups]
        if not lines:
            return
        try:
            if self._is_new:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                lines.insert(0, encode_line(self._head))
            append_durably(self.path, b"".join(lines), is_new=self._is_new)
        except OSError as error:
            raise SettingError(
                f"{self.path}: {error.strerror}; nothing is written to a group whose"
                " offsets cannot be kept: choose another directory with --snapshots"
            ) from error
        self._is_new = False


def read_snapshot(directory: Path, snapshot_id: str) -> Snapshot:
    """The snapshot of that id. Raises SettingError."""
    path = directory / f"{snapshot_id}{_SUFFIX}"
    if path.parent != directory:
        raise SettingError(f"{snapshot_id!r} is no id of a snapshot")
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError as error:
        raise SettingError(
            f"there is no snapshot {snapshot_id!r} in {directory}: `coterie groups undo"
            " --list` shows those that there are"
        ) from error
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from error


def list_snapshots(directory: Path) -> Iterator[Snapshot]:
    """Every snapshot of a directory, the newest first. Raises SettingError."""
    ids = (path.stem for path in directory.glob(f"*{_SUFFIX}"))
    found = (read_snapshot(directory, each) for each in ids)
    yield from sorted(
        found,
        key=lambda each: (each.head.taken_at, each.head.snapshot_id),
        reverse=True,
    )


def _decode(data: bytes) -> Snapshot:
    head, *lines = data.split(b"\n")
    if lines and lines.pop():
        pass  # cut short by a crash, before its write began
    groups = tuple(_decode_line(line) for line in lines)
    return Snapshot(decode_document(head, SnapshotHead, SCHEMA, SCHEMA_VERSION), groups)


def _decode_line(line: bytes) -> GroupBefore:
    try:
        return msgspec.json.decode(line, type=GroupBefore)
    except msgspec.DecodeError as error:
        raise SettingError(f"not a group of a {SCHEMA!r}: {error}") from error
