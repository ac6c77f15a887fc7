"""The log in a data directory whose batches are rows of its SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie.broker.catalog.entries import EntryKind, decode_entry, space_of
from coterie.broker.catalog.topics import Topic
from coterie.broker.log.log import OFFSET_BITS, OFFSET_MAX
from coterie.broker.log.sqlite_file import FILE_NAME
from coterie.broker.log.store_file import StoreFile
from coterie.pipeline.sources.stored_log import (
    Growth,
    NumberedPartition,
    SampledPositions,
    StoredHeader,
    StoredRun,
)
from coterie.types import TopicId

_QUERY_BYTES: Final = 8 * 1024 * 1024
"""The size of batches in one query."""
_QUERY_BATCHES: Final = 50_000
_LOG_SPAN: Final = """
FROM batches WHERE place BETWEEN coalesce(
    (SELECT place FROM batches WHERE place BETWEEN :low AND :from
     ORDER BY place DESC LIMIT 1), :low) AND :high
    AND last_offset >= :from & :offset_max
"""
"""The batches of a log partition from the one that holds an offset."""
_HEAD_QUERY: Final = f"""
SELECT place & {OFFSET_MAX}, last_offset, size_bytes, CASE WHEN flags & 3 THEN bytes END
{_LOG_SPAN} ORDER BY place LIMIT {_QUERY_BATCHES}
"""
_BATCHES_QUERY: Final = (
    f"SELECT place & {OFFSET_MAX}, last_offset, place, bytes {_LOG_SPAN} ORDER BY place"
)
_ENDS_QUERY: Final = """
SELECT topic_id, partition, log_start_offset, max(next_offset, coalesce(
    (SELECT last_offset + 1 FROM batches
     WHERE place BETWEEN number << :bits AND number << :bits | :offset_max
     ORDER BY place DESC LIMIT 1), 0)), number
FROM partitions ORDER BY number
"""
"""The current start and end of each partition."""
_MINUTES_QUERY: Final = """
SELECT max(at_ms), max(last_offset) + 1 FROM (
    SELECT last_offset, max(max_timestamp_ms) OVER (ORDER BY place) AS at_ms
    FROM batches
    WHERE place BETWEEN :from AND :high AND max_timestamp_ms BETWEEN 0 AND :now
)
WHERE at_ms > :after GROUP BY at_ms / 60000 ORDER BY at_ms / 60000
"""
"""The last time and the end of a partition in each minute in which it grew."""


class SqliteStore:
    """The log in a SQLite file."""

    def __init__(self, file: StoreFile) -> None:
        self.directory = file.directory
        self._query = file.query

    def topics(self) -> list[Topic]:
        rows = self._query(
            "SELECT key, value FROM small_values WHERE space = ? ORDER BY key",
            (space_of(EntryKind.TOPIC),),
        )
        return [decode_topic(key, value) for key, value in rows]

    def partitions(self, topic_id: TopicId) -> list[NumberedPartition]:
        rows = self._query(
            "SELECT partition, number, next_offset FROM partitions"
            " WHERE topic_id = ? ORDER BY partition",
            (topic_id,),
        )
        return [NumberedPartition(*row) for row in rows]

    def start_offset(self, number: int) -> int:
        rows = self._query(
            "SELECT min(place) FROM batches WHERE place BETWEEN :low AND :high",
            _span_values(number, 0),
        )
        return OFFSET_MAX if rows[0][0] is None else int(rows[0][0]) & OFFSET_MAX

    def headers(self, number: int, offset: int) -> Iterator[list[StoredHeader]]:
        while rows := self._query(
            _HEAD_QUERY, _span_values(number, offset), bytes_max=_QUERY_BYTES
        ):
            yield rows
            offset = rows[-1][1] + 1

    def batches(self, number: int, offset: int) -> Iterator[StoredRun]:
        while rows := self._query(
            _BATCHES_QUERY, _span_values(number, offset), bytes_max=_QUERY_BYTES
        ):
            yield StoredRun(FILE_NAME, rows)
            offset = rows[-1][1] + 1

    def growth(
        self, positions: SampledPositions, after_ms: int, now_ms: int
    ) -> list[Growth]:
        found = []
        bits = {"bits": OFFSET_BITS, "offset_max": OFFSET_MAX}
        times = {"after": after_ms, "now": now_ms}
        for topic_id, partition, start, end, number in self._query(_ENDS_QUERY, bits):
            position = positions.get((topic_id, partition))
            if position is None:
                continue
            span = _span_values(number, position)
            grown = position < end
            minutes = self._query(_MINUTES_QUERY, {**span, **times}) if grown else []
            found.append(Growth.of((topic_id, partition), start, end, minutes))
        return found


def decode_topic(key: bytes, value: bytes) -> Topic:
    """Decode an entry of the catalog."""
    entry = decode_entry(EntryKind.TOPIC, bytes(key), bytes(value))
    assert entry.value is not None
    return Topic.from_value(entry.name, entry.value)


def _span_values(number: int, offset: int) -> dict[str, int]:
    low = number << OFFSET_BITS
    return {
        "low": low,
        "high": low | OFFSET_MAX,
        "from": low | min(offset, OFFSET_MAX),
        "offset_max": OFFSET_MAX,
    }
