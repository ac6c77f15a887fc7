"""Reading from the embedded store: queries and the key-value store, with checks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coterie.broker.log.log import OFFSET_BITS, OFFSET_MAX
from coterie.broker.log.sqlite_file import connect, damaged, log_error, value_crc
from coterie.errors import LogCorrupt


class SqliteReader:
    """The connection that reads, used by the thread that owns the log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = connect(path)

    def query(self, sql: str, values: tuple[object, ...] = ()) -> Iterator[Any]:
        """Yield the rows of a query. Raises LogError, and LogCorrupt for a damaged
        file."""
        try:
            cursor = self.connection.execute(sql, values)
            while (row := cursor.fetchone()) is not None:
                yield row
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise log_error(self.path, error) from error

    def first(self, sql: str, values: tuple[object, ...] = ()) -> Any:
        """Return the first row of a query; None without rows."""
        try:
            cursor = self.connection.execute(sql, values)
            row = cursor.fetchone()
            cursor.close()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise log_error(self.path, error) from error
        return row

    def get(self, space: str, key: bytes) -> bytes | None:
        """Return a value of the key-value store."""
        row = self.first(
            "SELECT key, value, crc FROM small_values WHERE space = ? AND key = ?",
            (space, key),
        )
        return None if row is None else self._value(space, row)[1]

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values of a namespace, in order of keys."""
        rows = self.query(
            "SELECT key, value, crc FROM small_values WHERE space = ? ORDER BY key",
            (space,),
        )
        for row in rows:
            yield self._value(space, row)

    def corrupt(self, reason: str) -> LogCorrupt:
        """Return the error for a row that is not as it was written."""
        return damaged(self.path, reason)

    def last_number(self) -> int:
        """Return the largest number a partition has had: none is used again."""
        (number,) = self.first("SELECT max(seq) FROM sqlite_sequence")
        if not isinstance(number, int | None):
            raise self.corrupt("the table sqlite_sequence")
        return number or 0

    def close(self) -> None:
        self.connection.close()

    def _value(self, space: str, row: Any) -> tuple[bytes, bytes]:
        key, value, crc = row
        if not (isinstance(key, bytes) and isinstance(value, bytes)):
            raise self.corrupt(f"{space}: a key or value is not bytes")
        if crc is not None and crc != value_crc(space, key, value):
            raise self.corrupt(f"{space}: wrong checksum of the value of {key!r}")
        return key, value


def put_value(
    writer: sqlite3.Connection, space: str, key: bytes, value: bytes | None
) -> None:
    """Set or delete a value of the key-value store."""
    if value is None:
        writer.execute(
            "DELETE FROM small_values WHERE space = ? AND key = ?", (space, key)
        )
        return
    writer.execute(
        "INSERT INTO small_values VALUES (?, ?, ?, ?) ON CONFLICT (space, key)"
        " DO UPDATE SET value = excluded.value, crc = excluded.crc",
        (space, key, value, value_crc(space, key, value)),
    )


def is_partition(fields: Sequence[object]) -> bool:
    """Return whether the fields of a row of partitions have their types and bounds."""
    number, topic_id, *others = fields
    return (
        isinstance(number, int)
        and 0 < number < 1 << 63 - OFFSET_BITS
        and isinstance(topic_id, bytes)
        and len(topic_id) == 16
        and all(
            isinstance(each, int) and 0 <= each <= OFFSET_MAX + 1 for each in others
        )
    )
