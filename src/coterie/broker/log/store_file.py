"""Queries of the SQLite file in a data directory, which a server may be writing.

The file is opened read-only, without the lock, and no file is created beside it. Each
query opens its own short connection. With a write-ahead log beside the file, SQLite
lets readers and the writer work concurrently. Without one there is no writer: then the
file is opened as immutable, because SQLite would otherwise create files of its own,
which the server might have no right to open. If a server starts during such a query,
the query is repeated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from coterie.broker.log.manifest import MANIFEST_VERSION
from coterie.broker.log.sqlite_file import APPLICATION_ID, FILE_NAME
from coterie.errors import LogError, SettingError

QueryValues: TypeAlias = Sequence[Any] | Mapping[str, Any]

_BUSY_S: Final = 10.0
"""The time to wait for a server that is starting or stopping."""


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The SQLite file in a server's data directory."""

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / FILE_NAME

    def version(self) -> int:
        """Return the version of the store."""
        [(version,)] = self.query("PRAGMA user_version")
        return int(version)

    def query(
        self, query: str, values: QueryValues = (), *, bytes_max: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query; with `bytes_max` only the first rows, until the
        total size of their last column reaches it. Raises SettingError if the store is
        missing or has a newer version, and LogError when SQLite fails.
        """
        wal = self.path.with_name(f"{FILE_NAME}-wal")
        is_immutable = not wal.exists()
        rows = self._query(query, values, bytes_max, is_immutable=is_immutable)
        if is_immutable and wal.exists():
            return self._query(query, values, bytes_max, is_immutable=False)
        return rows

    def _query(
        self,
        query: str,
        values: QueryValues,
        bytes_max: int | None,
        *,
        is_immutable: bool,
    ) -> list[tuple[Any, ...]]:
        if not self.path.is_file():
            raise SettingError(
                f"{self.directory} has no {FILE_NAME}: give the directory that"
                " `coterie serve` has as --data"
            )
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        if is_immutable:
            uri += "&immutable=1"
        try:
            with closing(sqlite3.connect(uri, timeout=_BUSY_S, uri=True)) as connection:
                self._check_version(connection)
                cursor = connection.execute(query, values)
                if bytes_max is None:
                    return cursor.fetchall()
                rows, size = [], 0
                for row in cursor:
                    rows.append(row)
                    size += len(row[-1] or b"")
                    if size >= bytes_max:
                        break
                cursor.close()
                return rows
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise self._not_a_store() from None
            raise LogError(f"{self.path}: {error}") from None

    def _check_version(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise self._not_a_store()
        if version > MANIFEST_VERSION:
            raise SettingError(
                f"{self.path} was written by a newer Coterie (store version {version};"
                f" this one supports {MANIFEST_VERSION}): read it with that version"
            )

    def _not_a_store(self) -> SettingError:
        return SettingError(
            f"{self.path} is not a Coterie store: give the directory that"
            " `coterie serve` has as --data"
        )
