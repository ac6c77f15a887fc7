"""Snapshots of groups: one JSON lines file for each command that writes.

The first line of `ID.jsonl` describes the command. Each further line contains the prior
state of one group and the offsets about to be written. A line is synced before its
group is written to, so every write can be undone; a truncated last line belongs to a
write that never started and is ignored.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from coterie import client
from coterie.errors import SettingError
from coterie.files import make_private_directory
from coterie.operations import plan_files
from coterie.operations.topic_ids import TopicIds
from coterie.types import GroupId, TopicPartition

SCHEMA: Final = "coterie.snapshot"
SCHEMA_VERSION: Final = 1
_SUFFIX: Final = ".jsonl"


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """The first line of a snapshot file."""

    schema: str = field(default=SCHEMA, kw_only=True)
    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    snapshot_id: str
    taken_at: str
    """UTC, as in 2026-11-21T10:00:00.000Z."""
    cluster_id: str | None
    command: str = ""
    plan_id: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotGroup:
    """A further line of a snapshot file: one group before the write."""

    group_id: GroupId
    action: plan_files.Action
    existed: bool
    offsets: tuple[plan_files.OffsetEntry, ...]
    """All committed offsets before the write."""
    wrote: tuple[plan_files.OffsetEntry, ...]
    """The offsets about to be written; offset null is a deletion."""
    is_share: bool = False
    """Whether it is a share group, whose offsets are start offsets."""
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of the topics of the offsets, where known; null for a topic that did not
    exist."""
    may_lack_topics: bool = False
    """Whether the write may have deleted offsets of topics that the principal may not
    describe, which are not in `offsets`."""

    @property
    def offsets_before(self) -> Mapping[TopicPartition, client.CommittedOffset | None]:
        """The committed offsets before the write."""
        return {entry.at: entry.committed for entry in self.offsets}

    @property
    def offsets_written(self) -> Mapping[TopicPartition, client.CommittedOffset | None]:
        """The offsets about to be written; None is a deletion."""
        return {entry.at: entry.committed for entry in self.wrote}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot file."""

    head: SnapshotHead
    groups: tuple[SnapshotGroup, ...]


class SnapshotWriter:
    """A writer of a new snapshot; the first group creates the file."""

    def __init__(self, directory: Path, head: SnapshotHead) -> None:
        self.path = directory / f"{head.snapshot_id}{_SUFFIX}"
        self._head = head
        self._is_new = True

    @property
    def snapshot_id(self) -> str:
        """The id for `undo`."""
        return self._head.snapshot_id

    @property
    def has_groups(self) -> bool:
        """Whether the snapshot has any group."""
        return not self._is_new

    def add(self, groups: Iterable[SnapshotGroup]) -> None:
        """Append groups and sync them to the disk. Raises SettingError."""
        lines = [plan_files.encode_line(each) for each in groups]
        if not lines:
            return
        try:
            if self._is_new:
                make_private_directory(self.path.parent)
                lines.insert(0, plan_files.encode_line(self._head))
            plan_files.append_durably(self.path, b"".join(lines), is_new=self._is_new)
        except OSError as error:
            raise SettingError(
                f"{self.path}: {error.strerror}; no group is changed without a"
                " snapshot: choose another directory with --snapshots"
            ) from error
        self._is_new = False

    def discard(self) -> None:
        """Remove the snapshot of a command that changed no group."""
        if not self._is_new:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self._is_new = True


async def open_snapshot(
    admin: client.AdminClient,
    directory: Path,
    *,
    command: str = "",
    plan_id: str = "",
    now: datetime | None = None,
) -> SnapshotWriter:
    """Return the writer of a new snapshot in a directory, for `apply_items`.

    `command` and `plan_id` say what wrote, for `list_snapshots`; `now` is the time of
    the snapshot, by default the current one. Nothing is written to the directory before
    the first group. Raises ClientError.
    """
    now = now or datetime.now(UTC)
    cluster = await admin.brokers.describe()
    taken_at = plan_files.utc_text(round(now.timestamp() * 1000))
    head = SnapshotHead(new_id(now), taken_at, cluster.cluster_id, command, plan_id)
    return SnapshotWriter(directory, head)


def new_id(now: datetime) -> str:
    """Return an id for a plan or a snapshot: the time and a random suffix."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def read_snapshot(directory: Path, snapshot_id: str) -> Snapshot:
    """Read a snapshot by its id. Raises SettingError."""
    path = directory / f"{snapshot_id}{_SUFFIX}"
    if path.parent != directory:
        raise SettingError(f"{snapshot_id!r} is not a snapshot id")
    try:
        head, *lines = path.read_bytes().split(b"\n")
        return Snapshot(
            plan_files.decode_document(head, SnapshotHead, SCHEMA, SCHEMA_VERSION),
            # The last element is empty, or a line that a crash truncated.
            tuple(msgspec.json.decode(line, type=SnapshotGroup) for line in lines[:-1]),
        )
    except msgspec.DecodeError as error:
        raise SettingError(f"{path}: not a group of a {SCHEMA!r}: {error}") from error
    except FileNotFoundError as error:
        raise SettingError(
            f"there is no snapshot {snapshot_id!r} in {directory}: `coterie groups undo"
            " --list` lists the snapshots"
        ) from error
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from error


def list_snapshots(directory: Path) -> Iterator[Snapshot]:
    """Yield the snapshots of a directory, newest first. Raises SettingError.

    A file whose head a crash cut short is left out: its operation wrote nothing.
    """
    paths = directory.glob(f"*{_SUFFIX}")
    ids = (path.stem for path in paths if b"\n" in path.read_bytes())
    found = (read_snapshot(directory, each) for each in ids)
    yield from sorted(
        found,
        key=lambda each: (each.head.taken_at, each.head.snapshot_id),
        reverse=True,
    )
