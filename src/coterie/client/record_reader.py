"""A reader of records without a group: the caller assigns partitions and offsets.

    reader = RecordReader(admin.cluster, {TopicPartition("orders", 0): 0})
    while not reader.is_done:
        results = await reader.read()

Control batches are left out, and with `committed_only` also the records of aborted
transactions (KIP-98).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from coterie.client.admin.fetch import FetchResult, fetch_logs
from coterie.client.admin.results import Results, partition_name
from coterie.client.admin.routing import LeaderCache
from coterie.client.cluster import Cluster
from coterie.errors import ClientError, CoterieError, MalformedFrame
from coterie.types import LogOffset, TopicPartition
from coterie.wire.record_batch import LogRecord, crc_matches, decode_records

_BYTES_MAX: Final = 1024 * 1024
_FRUITLESS_MAX: Final = 20
"""Fetches in a row without a batch, though the log goes on; each waits for half a
second."""


class RecordReader:
    """A reader of partitions, from given offsets up to given ends, or without end.

    `bytes_max` limits the batches of one `read` for each broker (bytes), before they
    are decompressed; a larger single batch is read, too.
    """

    def __init__(
        self,
        cluster: Cluster,
        offsets: Mapping[TopicPartition, LogOffset],
        *,
        ends: Mapping[TopicPartition, LogOffset] | None = None,
        committed_only: bool = False,
        bytes_max: int = _BYTES_MAX,
    ) -> None:
        self.positions = dict(offsets)
        """The offset of the next record of each partition that is still read."""
        self._cluster = cluster
        self._ends = ends
        self._committed_only = committed_only
        self._bytes_max = bytes_max
        self._cache = LeaderCache(wait_ms=cluster.options.api_timeout_ms)
        self._fruitless: Counter[TopicPartition] = Counter()
        self._drop_finished()

    @property
    def is_done(self) -> bool:
        """Whether every partition was read up to its end, or failed."""
        return not self.positions

    async def read(self) -> Results[TopicPartition, tuple[LogRecord, ...]]:
        """Return the next records of each partition: none after half a second without
        any.

        A partition with an error is not read again. Raises the errors of
        `Logs.list_offsets`.
        """
        fetched = await fetch_logs(
            self._cluster,
            self.positions,
            bytes_max=self._bytes_max,
            committed_only=self._committed_only,
            cache=self._cache,
        )
        values: dict[TopicPartition, tuple[LogRecord, ...]] = {}
        errors: dict[TopicPartition, CoterieError] = dict(fetched.errors)
        for key, result in fetched.values.items():
            try:
                values[key] = self._records(key, result)
            except CoterieError as error:
                errors[key] = error
        for key in errors:
            del self.positions[key]
        # A broker fills a response in the order of the request: rotate it.
        self.positions = dict([*list(self.positions.items())[1:], *self._first()])
        self._drop_finished()
        return Results(values, errors)

    def _first(self) -> list[tuple[TopicPartition, LogOffset]]:
        return list(self.positions.items())[:1]

    def _drop_finished(self) -> None:
        ends = self._ends
        if ends is not None:
            self.positions = {
                key: position
                for key, position in self.positions.items()
                if position < ends[key]
            }

    def _records(
        self, key: TopicPartition, result: FetchResult
    ) -> tuple[LogRecord, ...]:
        """Return the records from the position on, and advance the position."""
        start = position = self.positions[key]
        end = None if self._ends is None else self._ends[key]
        records: list[LogRecord] = []
        try:
            for batch in result.batches():
                if not crc_matches(batch.data):
                    raise MalformedFrame("its checksum is wrong")
                position = max(position, batch.header.last_offset + 1)
                if batch.is_hidden:
                    continue
                records += (
                    each
                    for each in decode_records(batch.data, batch.header)
                    if each.offset >= start and (end is None or each.offset < end)
                )
        except MalformedFrame as error:
            raise ClientError(
                f"{partition_name(key)}: cannot read the batch at "
                f"offset {position}: {error}"
            ) from None
        self.positions[key] = position
        self._check_progress(key, result, has_moved=position > start)
        return tuple(records)

    def _check_progress(
        self, key: TopicPartition, result: FetchResult, *, has_moved: bool
    ) -> None:
        """Raise ClientError when a log has an end that no fetch reaches."""
        if has_moved or self._ends is None or result.is_throttled:
            self._fruitless[key] = 0
            return
        # A response may be full before this partition, but not in every round.
        self._fruitless[key] += 1
        if self._fruitless[key] > _FRUITLESS_MAX * len(self.positions):
            raise ClientError(
                f"{partition_name(key)} returns no records from offset "
                f"{self.positions[key]} on, though it ends at {self._ends[key]}"
            )
