"""The lake: a directory of Parquet files and the manifests that say which count.

| path | what it is |
|---|---|
| `lake.json` | that it is a lake, of which source, of which form |
| `versions/NNNNNN.json` | what was in it at one time; creating one is the commit |
| `current.json` | the number of about the newest: where to look for it |
| `bronze/`, `silver/`, `gold/` | a folder a table, of files with names of their own |

A version that is there is whole, and files that it names never change. So whoever reads
sees all of a commit or nothing of it, and what a killed writer left is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from coterie.errors import LogError, SettingError
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.lake.version import (
    SCHEMA,
    SCHEMA_VERSION,
    File,
    Identity,
    Version,
)
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.table import Table

_IDENTITY: Final = "lake.json"
_CURRENT: Final = "current.json"


class _Head(msgspec.Struct):
    """What is looked at before the rest: a later form may have another rest."""

    schema: str = ""
    schema_version: int = 0


class _Pointer(msgspec.Struct):
    number: int


_Kind = TypeVar("_Kind")


class Lake:
    """A lake as it was when it was opened, or after the last commit by this object."""

    def __init__(self, storage: Storage, identity: Identity, version: Version) -> None:
        self.storage = storage
        self.identity = identity
        self.version = version

    @classmethod
    def open(cls, where: str | Path) -> Lake:
        """Open one that is there. Raises SettingError when there is none, or one that
        only a later Coterie reads."""
        storage = Storage(where)
        data = storage.read(_IDENTITY)
        if data is None:
            raise SettingError(
                f"there is no lake in {storage}: coterie pipeline run --to {storage}"
                " --from SOURCE makes one"
            )
        return cls(storage, _identity(storage, data), _newest(storage))

    @classmethod
    def create(
        cls, where: str | Path, source: str, cluster_id: str | None = None
    ) -> Lake:
        """Make an empty one. Raises SettingError when something is there already."""
        storage = Storage(where)
        if any(storage.entries("")):
            raise SettingError(
                f"{storage} is no lake and not empty: choose another directory"
            )
        identity = Identity(
            schema=SCHEMA,
            schema_version=SCHEMA_VERSION,
            source=source,
            cluster_id=cluster_id,
        )
        try:
            made = storage.create(_IDENTITY, _text(identity))
        except OSError as error:
            raise LogError(f"{storage}: {error.strerror or error}") from None
        if not made:
            raise SettingError(f"{storage} is being made by somebody else")
        return cls(storage, identity, Version())

    @classmethod
    def open_or_create(
        cls, where: str | Path, source: str, cluster_id: str | None = None
    ) -> Lake:
        """Open the one of this source, or make it. Raises SettingError when the one
        that is there is of another log."""
        if Storage(where).read(_IDENTITY) is None:
            return cls.create(where, source, cluster_id)
        lake = cls.open(where)
        mine = lake.identity
        if mine.cluster_id and cluster_id:  # by whatever brokers it is reached
            if mine.cluster_id != cluster_id:
                raise SettingError(
                    f"{lake.storage} is of the cluster {mine.cluster_id}, and {source}"
                    f" is the cluster {cluster_id}: give each a directory of its own"
                )
        elif mine.source != source:
            raise SettingError(
                f"{lake.storage} is of {mine.source}, not of {source}: give each log a"
                " directory of its own"
            )
        return lake

    def refresh(self) -> Version:
        """Look for newer versions."""
        self.version = _newest(self.storage, self.version)
        return self.version

    def at(self, number: int) -> Version:
        """An earlier version. `compact` keeps those that a gold table was built in, and
        some of the last. Raises LogError when it is gone."""
        if number == self.version.number:
            return self.version
        data = self.storage.read(path_of(number))
        if data is None:
            raise LogError(f"{self.storage} has no version {number} any more")
        return _decode(self.storage, path_of(number), data, Version)

    def commit(self, version: Version) -> None:
        """Let the next version be seen. Raises LogError when another writer was
        faster; then nothing of this one is seen."""
        assert version.number == self.version.number + 1, "not the next version"
        old = {
            file.path for each in self.version.tables.values() for file in each.files
        }
        named = [file.path for each in version.tables.values() for file in each.files]
        self.storage.sync([path for path in named if path not in old])
        if not self.storage.create(path_of(version.number), _text(version)):
            raise LogError(
                f"another run writes to {self.storage} (version {version.number} is its"
                " own): let one run at a time write there"
            )
        self.storage.replace(_CURRENT, _text(_Pointer(version.number)))
        self.version = version

    def read(
        self, name: str, columns: Sequence[str] | None = None, filters: Any = None
    ) -> Any:
        """The rows of a table as an Arrow table, without Spark. `filters` is an
        expression of pyarrow.dataset. A table that was never built has no rows."""
        table = TABLES[name]
        taken = table.schema.names if columns is None else list(columns)
        files = self.version.of(name).files
        if not files:
            fields = [table.schema.field(each) for each in taken]
            return pa.schema(fields).empty_table()
        try:
            scanned = self.scan(name, files)
            return scanned.to_table(columns=taken, filter=filters)
        except (OSError, pa.ArrowInvalid) as error:
            raise LogError(
                f"{name} of {self.storage} cannot be read: {error}"
            ) from None

    def scan(self, name: str, files: Sequence[File]) -> Any:
        """Some files of a table as a dataset of pyarrow."""
        return ds.dataset(
            [self.storage.at(each.path) for each in files],
            schema=_read_schema(TABLES[name]),
            format="parquet",
            filesystem=self.storage.files,
        )


def _read_schema(table: Table) -> Any:
    """Nullable: what Spark writes says so of all columns."""
    return pa.schema([pa.field(each.name, each.type) for each in table.columns])


def path_of(number: int) -> str:
    """Where the manifest of a version is."""
    return f"versions/{number:06}.json"


def numbers_of(storage: Storage) -> list[int]:
    """The versions that are there, in order."""
    paths = (Path(each.path) for each in storage.entries("versions"))
    return sorted(int(path.stem) for path in paths if path.stem.isdigit())


def _text(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _identity(storage: Storage, data: bytes) -> Identity:
    head = _decode(storage, _IDENTITY, data, _Head)
    if head.schema != SCHEMA:
        raise SettingError(f"{storage}/{_IDENTITY} is not of a lake of Coterie's")
    if head.schema_version > SCHEMA_VERSION:
        raise SettingError(
            f"{storage} was made by a later version of Coterie (form"
            f" {head.schema_version}, this one knows {SCHEMA_VERSION}): update Coterie"
        )
    return _decode(storage, _IDENTITY, data, Identity)


def _newest(storage: Storage, since: Version | None = None) -> Version:
    """The last version of the row that `current.json` points into."""
    data = storage.read(_CURRENT)
    number = _decode(storage, _CURRENT, data, _Pointer).number if data else 0
    version = since or Version()
    if number > version.number:
        found = storage.read(path_of(number))
        if found is None:
            raise LogError(f"{storage}/{path_of(number)} is missing")
        version = _decode(storage, path_of(number), found, Version)
    while (found := storage.read(path_of(version.number + 1))) is not None:
        version = _decode(storage, path_of(version.number + 1), found, Version)
    return version


def _decode(storage: Storage, path: str, data: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise LogError(f"{storage}/{path} is damaged: {error}") from None
