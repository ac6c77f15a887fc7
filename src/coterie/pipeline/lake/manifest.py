"""The files `lake.json` and `manifests/NNNNNN.json`: what a lake is, and its versions.

The field names of these classes are the keys of the JSON files. A manifest names one
version of each Delta table, so that a reader sees all tables as of one commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec

from coterie.errors import LogError, SettingError
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.lake.log_clock import LogClock
from coterie.pipeline.lake.storage import Storage

SCHEMA: Final = "coterie.pipeline.lake"
SCHEMA_VERSION: Final = 3
IDENTITY_PATH: Final = "lake.json"
_CURRENT: Final = "manifests/current.json"
_CHECKED: Final = re.compile(rb'\{"crc32":"([0-9a-f]{8})",(.*)', re.DOTALL)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `lake.json`: the source and cluster of the lake."""

    schema: str
    schema_version: int
    source: str
    """In the form that `open_source` takes."""
    cluster_id: str | None = None


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Parquet file of a table."""

    path: str
    """Relative to the table's folder."""
    rows: int
    size_bytes: int
    day: str | None = None
    """The file's partition (YYYY-MM-DD), or None."""
    stats: str = ""
    """Delta's statistics of a new file, as JSON."""

    @property
    def step(self) -> int:
        """The step that wrote the newest rows of the file; the file's name has it."""
        return int(self.path.rpartition("/")[2].partition("-")[0])


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files that a commit adds to a table and removes from it."""

    table: str
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    moves_rows: bool = True
    """False for a compaction: it writes the same rows to other files."""


class TableState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table in one version of the lake."""

    delta: int = 0
    """The version of the Delta table."""
    rows: int = 0
    changed: int = 0
    """The last step that changed its rows."""
    through: int = 0
    """For a gold table: it was built from all rows of steps up to this one."""
    cuts: tuple[datetime, ...] = ()
    """For group_windows: the times whose state it has, in order."""
    read: Mapping[str, int] = {}
    """For a gold table: the Delta versions of the replaced tables that it was built
    from."""


THIS_COMMIT: Final = -1
"""In `TableState.read`: the Delta version that the same commit creates."""


class Version(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version of the lake: versions of its tables, and the next offsets to read."""

    number: int = 0
    """0 is the empty lake; the first commit is 1."""
    step: int = 0
    """The highest step so far. Each ingestion and each refresh is a step; it gets its
    number when it begins, so steps of one process may overlap."""
    committed_ts: datetime | None = None
    """The time of the commit by the writer's clock, in UTC."""
    heads: tuple[LogHead, ...] = ()
    """Each log partition in order, with the next offset to read."""
    tables: Mapping[str, TableState] = {}
    """The tables that were written at least once."""
    as_of_ts: datetime | None = None
    """The time of the newest records (`log_clock`), in UTC."""
    clocks: tuple[LogClock, ...] = ()
    """The time of each log partition, in order."""
    history_from_ts: datetime | None = None
    """The oldest `append_ts` that was read, in UTC."""
    moved: int = 0
    """The last step that changed heads or times."""
    vacuumed: int = 0
    """The number of the version after which old files were last deleted."""
    settings: Mapping[str, str] = {}
    """The settings that the gold tables were built with."""
    changes: tuple[Change, ...] = ()
    """Changes that are not in the Delta tables yet. A version with changes is decided
    but not yet visible; the next writer applies them."""

    @property
    def positions(self) -> dict[int, int]:
        """The position in each log partition: the next offset to read."""
        return {head.log_partition: head.next_offset for head in self.heads}

    def of(self, name: str) -> TableState:
        """Return the state of a table; without rows when it was never written."""
        return self.tables.get(name, TableState())


class _Head(msgspec.Struct):
    """The fields of `lake.json` in every version of its format; they are decoded
    first.
    """

    schema: str = ""
    schema_version: int = 0


class _Pointer(msgspec.Struct):
    number: int


_Struct = TypeVar("_Struct")


def path_of(number: int) -> str:
    """Return the path of a version's manifest."""
    return f"manifests/{number:06}.json"


def encode(value: Any) -> bytes:
    """Encode a JSON file of the lake. Its first key is the checksum of the others: one
    wrong digit of an offset would lose records or read them twice."""
    fields = msgspec.json.encode(value)[1:] + b"\n"
    return b'{"crc32":"%08x",' % crc32(fields) + fields


def decode(storage: Storage, path: str, data: bytes, kind: type[_Struct]) -> _Struct:
    """Decode a JSON file of the lake. Raises LogError when it is damaged."""
    match = _CHECKED.fullmatch(data)
    try:
        if match is None or int(match[1], 16) != crc32(match[2]):
            raise msgspec.DecodeError("its checksum is wrong")
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise LogError(
            f"{storage}/{path} is damaged: {error}; restore it from a backup, or read"
            " the log again into another directory with coterie pipeline run"
        ) from None


def read_identity(storage: Storage) -> Identity | None:
    """Return the content of `lake.json`; None when it does not exist.

    Raises SettingError for another kind of directory, or another format.
    """
    data = storage.read(IDENTITY_PATH)
    if data is None:
        return None
    # Another version may have another form of checksum.
    with suppress(msgspec.DecodeError):
        _check_format(storage, msgspec.json.decode(data, type=_Head))
    return decode(storage, IDENTITY_PATH, data, Identity)


def _check_format(storage: Storage, head: _Head) -> None:
    if head.schema != SCHEMA:
        raise SettingError(
            f"{storage}/{IDENTITY_PATH} does not describe a Coterie lake"
        )
    if head.schema_version != SCHEMA_VERSION:
        raise SettingError(
            f"{storage} was made by another version of Coterie (schema version"
            f" {head.schema_version}, supported: {SCHEMA_VERSION}): use that version,"
            " or choose another directory"
        )


def read_newest(storage: Storage) -> tuple[Version, Version | None]:
    """Return the newest visible version, and a decided one that is not visible yet.

    `current.json` may lag behind, because a writer can die before it updates it; so
    later manifests are tried one by one.
    """
    data = storage.read(_CURRENT)
    if data:
        number = decode(storage, _CURRENT, data, _Pointer).number
    else:
        # The first commit of a lake has no pointer before it is visible.
        number = min(list_versions(storage), default=1)
        number -= number == 1
    version = read_version(storage, number) if number else Version()
    if version is None:
        raise LogError(
            f"{storage}/{path_of(number)} is missing: restore it from a backup, or read"
            " the log again into another directory with coterie pipeline run"
        )
    while (later := read_version(storage, version.number + 1)) is not None:
        if later.changes:
            return version, later
        version = later
    return version, None


def read_version(storage: Storage, number: int) -> Version | None:
    """Return a version; None when it does not exist, or no longer."""
    data = storage.read(path_of(number))
    return decode(storage, path_of(number), data, Version) if data else None


def publish(storage: Storage, version: Version) -> None:
    """Make a decided version, whose changes were applied, visible."""
    assert not version.changes, "the changes were not applied"
    storage.replace(path_of(version.number), encode(version))
    storage.replace(_CURRENT, encode(_Pointer(version.number)))


def list_versions(storage: Storage) -> list[int]:
    """Return the numbers of the existing versions in order."""
    names = (entry.path.rpartition("/")[2] for entry in storage.entries("manifests"))
    stems = (name.removesuffix(".json") for name in names)
    return sorted(int(stem) for stem in stems if stem.isdigit())
