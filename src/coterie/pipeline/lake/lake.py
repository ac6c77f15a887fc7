"""Open, read and commit versions of a lake.

A lake is a directory of Parquet files and manifests. Files that are in no manifest are
ignored.

| path | content |
|---|---|
| `lake.json` | the directory is a lake: its source and the version of its format |
| `versions/NNNNNN.json` | the manifest of one version; creating it is the commit |
| `current.json` | a recent version; the search for the newest starts there |
| `bronze/`, `silver/`, `gold/` | one folder per table; file names are unique |

A manifest is complete when it exists, and the files that it names never change. A
reader sees all of a commit or nothing, and never the files of a killed writer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from coterie.errors import LogError, SettingError
from coterie.files import is_open, make_private_directory
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.tables.all_tables import TABLES

_LOGGER = logging.getLogger(__name__)

SCHEMA: Final = "coterie.pipeline.lake"
SCHEMA_VERSION: Final = 1
_IDENTITY: Final = "lake.json"
_CURRENT: Final = "current.json"


# Manifests. Their field names are the keys of the JSON files.


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Parquet file of a table."""

    path: str
    """Relative to the lake's directory."""
    rows: int
    size_bytes: int
    version: int
    """The first version of the lake that contains these rows."""
    log_partitions: tuple[int, ...] = ()
    """The log partitions of its rows; empty when unknown."""


class TableFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files of a table, and the versions in which the table changed."""

    files: tuple[File, ...] = ()
    changed: int = 0
    """The last version in which its rows changed."""
    through: int = 0
    """For a gold table: the last version whose rows were used to build it."""
    uses_settings: bool = False
    """For a gold table: its content depends on settings as well as rows."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(file.rows for file in self.files)


class Version(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A committed version of the lake: its files and the next offsets to read."""

    number: int = 0
    """0 is the empty lake; the first commit is 1."""
    heads: tuple[LogHead, ...] = ()
    """Each log partition in order, with the next offset to read."""
    tables: Mapping[str, TableFiles] = {}
    as_of_ts: datetime | None = None
    """The newest `append_ts` that was read, in UTC."""
    history_from_ts: datetime | None = None
    """The oldest `append_ts` that was read, in UTC."""
    moved: int = 0
    """The last version in which heads or times changed."""
    settings: Mapping[str, str] = {}
    """The settings that the gold tables were built with."""

    @property
    def positions(self) -> dict[int, int]:
        """The position in each log partition: the next offset to read."""
        return {head.log_partition: head.next_offset for head in self.heads}

    def of(self, name: str) -> TableFiles:
        """Return the files of a table; none when it was never built."""
        return self.tables.get(name, TableFiles())


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `lake.json`: the source and cluster of the lake."""

    schema: str
    schema_version: int
    source: str
    """In the form that `open_source` takes."""
    cluster_id: str | None = None


class _Head(msgspec.Struct):
    """The fields of `lake.json` in every version of its format; they are decoded
    first.
    """

    schema: str = ""
    schema_version: int = 0


class _Pointer(msgspec.Struct):
    number: int


_Struct = TypeVar("_Struct")


# The lake.


class Lake:
    """A lake, at the version of its opening or of the last commit by this process."""

    def __init__(self, storage: Storage, identity: Identity, version: Version) -> None:
        self.storage = storage
        self.identity = identity
        self.version = version

    @classmethod
    def open(cls, where: str | Path) -> Lake:
        """Open an existing lake. Raises SettingError when it does not exist, or if it
        was created by a later version of Coterie.
        """
        storage = Storage(where)
        data = storage.read(_IDENTITY)
        if data is None:
            raise SettingError(
                f"there is no lake in {storage}: create one with coterie pipeline run"
                f" --to {storage} --from SOURCE"
            )
        return cls(storage, _decode_identity(storage, data), _read_newest(storage))

    @classmethod
    def create(
        cls, where: str | Path, source: str, cluster_id: str | None = None
    ) -> Lake:
        """Create an empty lake. Raises SettingError when the directory is not empty."""
        storage = Storage(where)
        if any(storage.entries("")):
            raise SettingError(
                f"{storage} is not a lake and not empty: choose another directory"
            )
        if storage.is_local:
            _make_private(Path(storage.root))
        identity = Identity(
            schema=SCHEMA,
            schema_version=SCHEMA_VERSION,
            source=source,
            cluster_id=cluster_id,
        )
        try:
            is_created = storage.create(_IDENTITY, _encode(identity))
        except OSError as error:
            raise LogError(f"{storage}: {error.strerror or error}") from None
        if not is_created:
            raise SettingError(f"another process is creating a lake in {storage}")
        return cls(storage, identity, Version())

    @classmethod
    def open_or_create(
        cls, where: str | Path, source: str, cluster_id: str | None = None
    ) -> Lake:
        """Open the lake of this source, or create it.

        Raises SettingError when the directory holds the lake of another log.
        """
        if Storage(where).read(_IDENTITY) is None:
            return cls.create(where, source, cluster_id)
        lake = cls.open(where)
        identity = lake.identity
        # The cluster id identifies the log: the bootstrap servers of a cluster may
        # change.
        if identity.cluster_id and cluster_id:
            if identity.cluster_id != cluster_id:
                raise SettingError(
                    f"{lake.storage} holds cluster {identity.cluster_id}, and {source}"
                    f" is cluster {cluster_id}: use one directory per cluster"
                )
        elif identity.source != source:
            raise SettingError(
                f"{lake.storage} was made from {identity.source}, not from {source}:"
                " use one directory per log"
            )
        return lake

    def at(self, number: int) -> Version:
        """Return an earlier version.

        `compact` keeps the versions that gold tables were built from, and the last
        few. Raises LogError when the version was deleted.
        """
        if number == self.version.number:
            return self.version
        data = self.storage.read(path_of(number))
        if data is None:
            raise LogError(f"{self.storage}: version {number} was deleted")
        return _decode(self.storage, path_of(number), data, Version)

    def commit(self, version: Version) -> None:
        """Publish the next version.

        Raises LogError on a concurrent commit; nothing of this version is then visible.
        """
        assert version.number == self.version.number + 1, "not the next version"
        old = {
            file.path for table in self.version.tables.values() for file in table.files
        }
        new = [
            file.path
            for table in version.tables.values()
            for file in table.files
            if file.path not in old
        ]
        # The files are flushed before the manifest that lists them.
        self.storage.sync(new)
        if not self.storage.create(path_of(version.number), _encode(version)):
            raise LogError(
                f"another run writes to {self.storage}: it committed version"
                f" {version.number} first; only one run may write at a time"
            )
        self.storage.replace(_CURRENT, _encode(_Pointer(version.number)))
        self.version = version

    def read(
        self, name: str, columns: Sequence[str] | None = None, filters: Any = None
    ) -> Any:
        """Return the rows of a table as an Arrow table, without Spark.

        `filters` is a `pyarrow.dataset` expression. A table that was never built has
        no rows. Raises LogError when a file cannot be read.
        """
        table = TABLES[name]
        selected = table.schema.names if columns is None else list(columns)
        files = self.version.of(name).files
        if not files:
            fields = [table.schema.field(column) for column in selected]
            return pa.schema(fields).empty_table()
        try:
            scanned = self.scan(name, files)
            return scanned.to_table(columns=selected, filter=filters)
        except (OSError, pa.ArrowInvalid) as error:
            raise LogError(
                f"{name} of {self.storage} cannot be read: {error}"
            ) from None

    def scan(self, name: str, files: Sequence[File]) -> Any:
        """Return files of a table as a `pyarrow.dataset.Dataset`."""
        return ds.dataset(
            [self.storage.at(file.path) for file in files],
            # Spark writes every column as nullable.
            schema=pa.schema(
                [pa.field(each.name, each.type) for each in TABLES[name].columns]
            ),
            format="parquet",
            filesystem=self.storage.filesystem,
        )


def path_of(number: int) -> str:
    """Return the path of a version's manifest."""
    return f"versions/{number:06}.json"


def folder_of(table: str) -> str:
    """Return the folder of a table's files, relative to the lake's directory."""
    return f"{TABLES[table].layer.value}/{table}"


def new_file_path(table: str, number: int) -> str:
    """Return a unique path for a table's file in version `number`."""
    return f"{folder_of(table)}/{number:06}-{uuid4().hex[:12]}.parquet"


def list_versions(storage: Storage) -> list[int]:
    """Return the numbers of the existing versions in order."""
    paths = (Path(entry.path) for entry in storage.entries("versions"))
    return sorted(int(path.stem) for path in paths if path.stem.isdigit())


def _make_private(directory: Path) -> None:
    """Create the directory of a lake for this user only; warn if it exists and others
    can use it."""
    try:
        if not make_private_directory(directory) and is_open(directory):
            _LOGGER.warning(
                "other users can read the lake %s: chmod 700 %s", directory, directory
            )
    except OSError as error:
        raise LogError(f"{directory}: {error.strerror or error}") from None


def _encode(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _decode(storage: Storage, path: str, data: bytes, kind: type[_Struct]) -> _Struct:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise LogError(f"{storage}/{path} is damaged: {error}") from None


def _decode_identity(storage: Storage, data: bytes) -> Identity:
    head = _decode(storage, _IDENTITY, data, _Head)
    if head.schema != SCHEMA:
        raise SettingError(f"{storage}/{_IDENTITY} does not describe a Coterie lake")
    if head.schema_version > SCHEMA_VERSION:
        raise SettingError(
            f"{storage} was made by a later version of Coterie (schema version"
            f" {head.schema_version}, supported: {SCHEMA_VERSION}): update Coterie"
        )
    return _decode(storage, _IDENTITY, data, Identity)


def _read_newest(storage: Storage) -> Version:
    """Return the newest version.

    `current.json` may lag behind: a writer can die between creating a manifest and
    updating it. So later manifests are tried one by one.
    """
    data = storage.read(_CURRENT)
    number = _decode(storage, _CURRENT, data, _Pointer).number if data else 0
    version = Version()
    if number:
        manifest = storage.read(path_of(number))
        if manifest is None:
            raise LogError(f"{storage}/{path_of(number)} is missing")
        version = _decode(storage, path_of(number), manifest, Version)
    while (manifest := storage.read(path_of(version.number + 1))) is not None:
        version = _decode(storage, path_of(version.number + 1), manifest, Version)
    return version
