"""Queries of the manifest in a data directory, which a server may be writing.

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

from coterie.broker.log.directory import MANIFEST_NAME
from coterie.broker.log.manifest import log_error, refusal
from coterie.errors import SettingError

QueryValues: TypeAlias = Sequence[Any] | Mapping[str, Any]

_BUSY_S: Final = 10.0
"""The time to wait for a server that is starting or stopping."""


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The manifest in a server's data directory."""

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / MANIFEST_NAME

    def query(self, query: str, values: QueryValues = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises SettingError if the manifest is missing, or is of another application or
        version, and LogError when SQLite fails.
        """
        wal = self.path.with_name(f"{MANIFEST_NAME}-wal")
        is_immutable = not wal.exists()
        rows = self._query(query, values, is_immutable=is_immutable)
        if is_immutable and wal.exists():
            return self._query(query, values, is_immutable=False)
        return rows

    def _query(
        self, query: str, values: QueryValues, *, is_immutable: bool
    ) -> list[tuple[Any, ...]]:
        if not self.path.is_file():
            raise SettingError(
                f"{self.directory} has no {MANIFEST_NAME}: give the directory that"
                " `coterie serve` has as --data"
            )
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        if is_immutable:
            uri += "&immutable=1"
        try:
            with closing(sqlite3.connect(uri, timeout=_BUSY_S, uri=True)) as connection:
                reason = refusal(connection, self.path)
                if reason is not None:
                    raise SettingError(reason)
                return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise log_error(self.path, error) from None
