"""Open, read and commit versions of a lake.

A lake is a directory of Delta tables and manifests.

| path | content |
|---|---|
| `lake.json` | the directory is a lake: its source and the version of its format |
| `manifests/NNNNNN.json` | a version: the next offsets, a Delta version per table |
| `manifests/current.json` | a recent version; the search for the newest starts there |
| `bronze/`, `silver/`, `gold/`, `internal/` | one Delta table per folder |

A commit first creates its manifest with the new files, which decides it: of two
writers, one fails here. Then it commits the files to the Delta tables and removes them
from the manifest, which makes the version visible to Coterie. The next writer completes
a commit that was killed in between. A reader of the lake sees all tables as of one
version; a reader of one Delta table sees every committed row once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from coterie.errors import LogError, SettingError
from coterie.files import is_open, make_private_directory
from coterie.pipeline.lake import delta as delta_log
from coterie.pipeline.lake.delta import folder_of
from coterie.pipeline.lake.faults import advice, describe_fault, summarize
from coterie.pipeline.lake.manifest import (
    IDENTITY_PATH,
    SCHEMA,
    SCHEMA_VERSION,
    THIS_COMMIT,
    Change,
    DataFile,
    Identity,
    TableState,
    Version,
    encode,
    list_versions,
    path_of,
    publish,
    read_identity,
    read_newest,
    read_version,
)
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.table import Table

_LOGGER = logging.getLogger(__name__)

KEEP_HOURS: Final = 7 * 24
"""How long earlier versions stay readable, unless a run says otherwise."""
_CHECKED: Final = ds.ParquetFragmentScanOptions(
    pre_buffer=True, page_checksum_verification=True
)
"""Without it, most wrong bytes in a file would give wrong rows."""
STAGING: Final = "_staging"
"""The folder of files that Spark is writing."""


class Lake:
    """A lake, at the version of its opening or of the last commit by this process.

    A lake that was opened to write may be used by several threads; commits of other
    processes make its next commit fail.
    """

    def __init__(self, storage: Storage, identity: Identity, version: Version) -> None:
        self.storage = storage
        self.identity = identity
        self.version = version
        self.keep_hours = KEEP_HOURS
        self._lock = threading.RLock()
        self._step = version.step
        self._writing: dict[str, Any] = {}
        """The Delta tables of a writer, at their newest version."""
        self._files: dict[str, tuple[int, tuple[DataFile, ...]]] = {}
        """The files of tables, and the Delta version that has them."""

    # Opening.

    @classmethod
    def open(cls, where: str | Path, as_of: int | datetime | None = None) -> Lake:
        """Open an existing lake for reading, at its newest or an earlier version.

        `as_of` is a version's number, or a time: the last version committed by then.
        Raises SettingError when the lake does not exist or was made by another version
        of Coterie, and LogError when it has no such version, or no longer.
        """
        storage = Storage(where)
        identity = read_identity(storage)
        if identity is None:
            raise _no_lake(storage)
        if as_of is None:
            return cls(storage, identity, read_newest(storage)[0])
        return cls(storage, identity, find_version(storage, as_of))

    @classmethod
    def open_to_write(cls, where: str | Path, keep_hours: int = KEEP_HOURS) -> Lake:
        """Open an existing lake, and complete what a killed writer left.

        Raises SettingError and LogError.
        """
        storage = Storage(where)
        identity = read_identity(storage)
        if identity is None:
            raise _no_lake(storage)
        visible, decided = read_newest(storage)
        lake = cls(storage, identity, visible)
        lake.keep_hours = keep_hours
        storage.delete_folder(STAGING)
        lake._prepare_tables()
        if decided is not None:
            lake._apply(decided)
        return lake

    @classmethod
    def create(
        cls,
        where: str | Path,
        source: str,
        cluster_id: str | None = None,
        keep_hours: int = KEEP_HOURS,
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
            is_created = storage.create(IDENTITY_PATH, encode(identity))
        except OSError as error:
            fault = LogError(f"{storage}: {error.strerror or error}")
            raise describe_fault(error, storage) or fault from None
        if not is_created:
            raise SettingError(f"another process is creating a lake in {storage}")
        lake = cls(storage, identity, Version())
        lake.keep_hours = keep_hours
        lake._prepare_tables()
        return lake

    @classmethod
    def open_or_create(
        cls,
        where: str | Path,
        source: str,
        cluster_id: str | None = None,
        keep_hours: int = KEEP_HOURS,
    ) -> Lake:
        """Open the lake of this source to write, or create it.

        Raises SettingError when the directory holds the lake of another log.
        """
        storage = Storage(where)
        identity = read_identity(storage)
        if identity is None:
            return cls.create(where, source, cluster_id, keep_hours)
        # The cluster id identifies the log: the bootstrap servers of a cluster may
        # change.
        if identity.cluster_id and cluster_id:
            if identity.cluster_id != cluster_id:
                raise SettingError(
                    f"{storage} holds cluster {identity.cluster_id}, and {source}"
                    f" is cluster {cluster_id}: use one directory per cluster"
                )
        elif identity.source != source:
            raise SettingError(
                f"{storage} was made from {identity.source}, not from {source}:"
                " use one directory per log"
            )
        return cls.open_to_write(where, keep_hours)

    # Reading.

    def has(self, name: str) -> bool:
        """Return whether a table was ever written."""
        return name in self.version.tables

    def rows(self, name: str) -> int:
        """Return the number of rows of a table."""
        return self.version.of(name).rows

    def dataset(self, name: str) -> Any:
        """Return a table as a `pyarrow.dataset.Dataset`.

        Conditions on a dataset skip files by their statistics and partitions.
        """
        table = TABLES[name]
        schema = delta_log.delta_schema(table)
        if not self.has(name):
            return ds.dataset(schema.empty_table())
        opened = delta_log.open_table(self.storage, table, self.version.of(name).delta)
        filesystem = self.storage.filesystem_of(folder_of(table))
        dataset = opened.to_pyarrow_dataset(filesystem=filesystem, schema=schema)
        dataset.format.default_fragment_scan_options = _CHECKED
        return dataset

    def read(
        self, name: str, columns: Sequence[str] | None = None, filters: Any = None
    ) -> Any:
        """Return the rows of a table as an Arrow table, without Spark.

        `filters` is a `pyarrow.dataset` expression. Without `columns`, all columns
        except `day` are read. A table that was never built has no rows. Raises LogError
        when a file cannot be read.
        """
        table = TABLES[name]
        selected = table.schema.names if columns is None else list(columns)
        try:
            return self.dataset(name).to_table(columns=selected, filter=filters)
        except (OSError, pa.ArrowException) as error:
            raise LogError(
                f"{name} of {self.storage} cannot be read: {summarize(error)};"
                f" {advice(name, self.storage)}"
            ) from None

    def check_files(self) -> None:
        """Check that every file of every table exists and has its size.

        A run reads few files, and would not find the others missing. Raises LogError
        with the first one.
        """
        sizes = {entry.path: entry.size_bytes for entry in self.storage.entries("")}
        for name in self.version.tables:
            for file in self.files(name):
                path = f"{folder_of(TABLES[name])}/{file.path}"
                if sizes.get(path) != file.size_bytes:
                    state = "has another size" if path in sizes else "is missing"
                    raise LogError(
                        f"{self.storage}/{path} {state}: {advice(name, self.storage)}"
                    )

    def files(self, name: str, version: int | None = None) -> tuple[DataFile, ...]:
        """Return the files of a table, the oldest step first.

        `version` is a Delta version; by default that of the lake's version.
        """
        with self._lock:
            newest = self.version.of(name).delta
            wanted = newest if version is None else version
            known, files = self._files.get(name, (-1, ()))
            if known == wanted:
                return files
            opened = self._writing.get(name)
            if opened is None or opened.version() != wanted:
                opened = delta_log.open_table(self.storage, TABLES[name], wanted)
            files = delta_log.files_of(opened)
            if wanted == newest:
                self._files[name] = (wanted, files)
            return files

    def file_dataset(self, name: str, files: Sequence[DataFile]) -> Any:
        """Return files of a table as a dataset with the columns of its files."""
        table = TABLES[name]
        return ds.dataset(
            [self.storage.at(f"{folder_of(table)}/{file.path}") for file in files],
            schema=table.file_schema,
            format=ds.ParquetFileFormat(default_fragment_scan_options=_CHECKED),
            filesystem=self.storage.filesystem,
        )

    def bounds(self, name: str, column: str) -> Mapping[str, tuple[Any, Any]]:
        """Return the least and greatest value of a column by path of file."""
        delta = self.version.of(name).delta
        opened = delta_log.open_table(self.storage, TABLES[name], delta)
        return delta_log.bounds_of(opened, column)

    # Writing.

    def next_step(self) -> int:
        """Return the number of a new step; see `Version.step`."""
        with self._lock:
            self._step += 1
            return self._step

    def commit(
        self,
        changes: Sequence[Change],
        update: Callable[[Version], Version] = lambda version: version,
    ) -> None:
        """Commit changes of tables, and of the facts that `update` returns.

        `update` gets the newest version and returns the next one, whose number, step,
        time, row counts and Delta versions are set here. Raises LogError on a
        concurrent commit by another process; nothing of this commit is then visible.
        """
        with self._lock:
            base = self.version
            version = update(base)
            tables = dict(version.tables)
            for change in changes:
                state = tables.get(change.table, TableState())
                moved = sum(file.rows for file in change.added)
                moved -= sum(file.rows for file in change.removed)
                tables[change.table] = msgspec.structs.replace(
                    state, rows=base.of(change.table).rows + moved
                )
            version = msgspec.structs.replace(
                version,
                number=base.number + 1,
                step=self._step,
                committed_ts=datetime.now(UTC),
                tables=tables,
                changes=tuple(each for each in changes if each.added or each.removed),
            )
            if not self._decide(version, changes):
                raise LogError(
                    f"another run writes to {self.storage}: it committed version"
                    f" {version.number} first; only one run may write at a time"
                )
            self._apply(version)

    def _decide(self, version: Version, changes: Sequence[Change]) -> bool:
        """Create the manifest of a version; return whether no other run did.

        The new files of a version that was not decided are deleted: on a full disk,
        repeated runs would leave ever more.
        """
        paths = [
            f"{folder_of(TABLES[change.table])}/{file.path}"
            for change in changes
            for file in change.added
        ]
        manifest = path_of(version.number)
        try:
            # Files are flushed before the manifest that lists them.
            self.storage.sync(paths)
            is_decided = self.storage.create(manifest, encode(version))
        except OSError:
            if self.storage.read(manifest) is None:
                self._delete(paths)
            raise
        if not is_decided:
            self._delete(paths)
        return is_decided

    def _delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.storage.delete(path)

    def adopt(self, vacuumed: int) -> None:
        """Commit a version with the newest Delta version of each table.

        Deleting old files adds versions to the Delta tables, and removes early ones.
        """
        with self._lock:
            old = {name: state.delta for name, state in self.version.tables.items()}
            new = {}
            for name in old:
                delta = self._to_write(name)
                delta.update_incremental()
                new[name] = delta.version()

            def update(version: Version) -> Version:
                tables = {
                    name: msgspec.structs.replace(
                        state,
                        delta=new[name],
                        read={
                            each: new[each] if number == old[each] else number
                            for each, number in state.read.items()
                        },
                    )
                    for name, state in version.tables.items()
                }
                return msgspec.structs.replace(
                    version, tables=tables, vacuumed=vacuumed
                )

            self.commit((), update)

    def _apply(self, version: Version) -> None:
        """Commit the changes of a decided version to the Delta tables, and publish
        it."""
        tables = dict(version.tables)
        logs = []
        for change in version.changes:
            table = TABLES[change.table]
            delta = self._to_write(change.table)
            delta_log.apply(delta, table, change, version.number)
            number = delta.version()
            tables[change.table] = msgspec.structs.replace(
                tables[change.table], delta=number
            )
            self._files.pop(change.table, None)
            logs.append(f"{folder_of(table)}/_delta_log/{number:020}.json")
        self.storage.sync(logs)
        for name, state in tables.items():
            if THIS_COMMIT in state.read.values():
                read = {
                    each: tables[each].delta if number == THIS_COMMIT else number
                    for each, number in state.read.items()
                }
                tables[name] = msgspec.structs.replace(state, read=read)
        version = msgspec.structs.replace(version, tables=tables, changes=())
        publish(self.storage, version)
        self.version = version
        self._step = max(self._step, version.step)

    def _to_write(self, name: str) -> Any:
        if name not in self._writing:
            self._writing[name] = delta_log.open_table(self.storage, TABLES[name])
        return self._writing[name]

    def _prepare_tables(self) -> None:
        """Create missing tables, add new columns, and undo commits of others.

        A table may only differ from the manifest by a commit of a killed writer that
        the manifest has as decided. Another program's change of its files, such as
        OPTIMIZE, is undone, because builds find new rows by the names of files.
        """
        for table in TABLES.values():
            delta_log.create(self.storage, table, self.keep_hours)
            delta = self._to_write(table.name)
            delta_log.keep_log(delta, self.keep_hours)
            delta_log.add_columns(delta, table)
            self._undo_others(table, delta)

    def _undo_others(self, table: Table, delta: Any) -> None:
        ours = self.version.of(table.name).delta
        if delta.version() == ours:
            return
        applied = delta.transaction_version(delta_log.APPLICATION)
        if applied is not None and applied > self.version.number:
            return  # by the decided version, which is completed next
        before = delta_log.open_table(self.storage, table, ours)
        if set(delta.file_uris()) == set(before.file_uris()):
            return
        _LOGGER.warning(
            "%s of %s was changed by another program: its files of version %d are"
            " restored",
            table.name,
            self.storage,
            ours,
        )
        delta.restore(ours)
        delta.update_incremental()


def find_version(storage: Storage, as_of: int | datetime) -> Version:
    """Return a version by its number, or the last one that was committed by a time.

    Raises LogError when it does not exist, or no longer.
    """
    newest, _ = read_newest(storage)
    numbers = [number for number in list_versions(storage) if number <= newest.number]
    if isinstance(as_of, int):
        version = read_version(storage, as_of) if as_of in numbers else None
        if version is None:
            kept = f"{numbers[0]} to {numbers[-1]}" if numbers else "none"
            raise LogError(f"{storage} has no version {as_of}; it has {kept}")
        return version
    for number in reversed(numbers):
        version = read_version(storage, number)
        if version and version.committed_ts and version.committed_ts <= as_of:
            return version
    raise LogError(
        f"{storage} has no version of {as_of.isoformat()}; coterie pipeline versions"
        " lists those that it has"
    )


def _no_lake(storage: Storage) -> SettingError:
    return SettingError(
        f"there is no lake in {storage}: create one with coterie pipeline run"
        f" --to {storage} --from SOURCE"
    )


def _make_private(directory: Path) -> None:
    """Create the directory of a lake for this user only; warn if it exists and others
    can use it."""
    try:
        if not make_private_directory(directory) and is_open(directory):
            _LOGGER.warning(
                "other users can read the lake %s: chmod 700 %s", directory, directory
            )
    except OSError as error:
        fault = LogError(f"{directory}: {error.strerror or error}")
        raise describe_fault(error, directory) or fault from None
