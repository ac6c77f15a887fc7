"""The file of Coterie's embedded store, read by others than its server: nothing is
written to it, nothing beside it, and the server may go on meanwhile.

Every question has its own short connection. With a write-ahead log beside the file,
SQLite lets readers and the writer be. Without one nobody writes; then the file is read
as one that does not change, as SQLite would make files of its own otherwise, which the
server might not be allowed to open. Should a server start just then, the question is
asked again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from coterie.catalog.entries import Kind, decode_entry, space_of
from coterie.catalog.topics import Topic
from coterie.errors import LogError, SettingError
from coterie.log.sqlite import APPLICATION_ID, FILE_NAME, SCHEMA_VERSION

_BUSY_S: Final = 10.0
"""How long to wait for a server that is just starting or ending."""


Values: TypeAlias = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The store in a server's data directory."""

    directory: Path

    @property
    def path(self) -> Path:
        """The file."""
        return self.directory / FILE_NAME

    def ask(
        self, query: str, values: Values = (), *, bytes_max: int | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows that a query gives; with `bytes_max` the first of them, until their
        last column has so many bytes.

        Raises SettingError when there is no store, or none that this version reads;
        LogError when the disk says no.
        """
        is_still = not self._wal().exists()
        rows = self._ask(query, values, bytes_max, is_still=is_still)
        if is_still and self._wal().exists():
            return self._ask(query, values, bytes_max, is_still=False)
        return rows

    def topic(self, name: str) -> Topic | None:
        """A topic of the catalog; None when there is none."""
        rows = self.ask(
            "SELECT value FROM small_values WHERE space = ? AND key = ?",
            (space_of(Kind.TOPIC), name.encode()),
        )
        return self._topic(name.encode(), rows[0][0]) if rows else None

    def topics(self) -> list[Topic]:
        """All topics of the catalog, by name."""
        rows = self.ask(
            "SELECT key, value FROM small_values WHERE space = ? ORDER BY key",
            (space_of(Kind.TOPIC),),
        )
        return [self._topic(key, value) for key, value in rows]

    @staticmethod
    def _topic(key: bytes, value: bytes) -> Topic:
        entry = decode_entry(Kind.TOPIC, bytes(key), bytes(value))
        assert entry.value is not None
        return Topic.from_value(entry.name, entry.value)

    def _wal(self) -> Path:
        return self.path.with_name(f"{FILE_NAME}-wal")

    def _ask(
        self,
        query: str,
        values: Values,
        bytes_max: int | None,
        *,
        is_still: bool,
    ) -> list[tuple[Any, ...]]:
        if not self.path.is_file():
            raise SettingError(
                f"{self.directory} has no {FILE_NAME}: name the directory that"
                " `coterie serve` was given as --data"
            )
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        if is_still:
            uri += "&immutable=1"
        try:
            with closing(sqlite3.connect(uri, _BUSY_S, uri=True)) as connection:
                self._check(connection)
                rows = connection.execute(query, values)
                return rows.fetchall() if bytes_max is None else _some(rows, bytes_max)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise self._foreign() from None
            raise LogError(f"{self.path}: {error}") from None

    def _check(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise self._foreign()
        if version > SCHEMA_VERSION:
            raise SettingError(
                f"{self.path} was written by a newer Coterie (store version {version};"
                f" this one knows {SCHEMA_VERSION}): read it with that version"
            )

    def _foreign(self) -> SettingError:
        return SettingError(
            f"{self.path} is not a Coterie store: name the directory that"
            " `coterie serve` was given as --data"
        )


def _some(rows: sqlite3.Cursor, bytes_max: int) -> list[tuple[Any, ...]]:
    found, size = [], 0
    for row in rows:
        found.append(row)
        size += len(row[-1])
        if size >= bytes_max:
            break
    rows.close()
    return found
