"""Fetch (key 1) for admin clients: raw batches, and the first record from an offset on.

    fetched = await fetch_log(cluster, partition, offset, committed_only=True)

The calls fetch from the leaders of partitions, look up a moved leader again, and retry
after retriable errors for `api_timeout_ms`. They need READ on the topic.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import Progress, Results, api_error, partition_name
from coterie.client.admin.routing import LeaderCache, Outcomes, send_to_leaders
from coterie.client.cluster import Cluster
from coterie.errors import ClientError, CoterieError, MalformedFrame
from coterie.types import LogOffset, ProducerId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.record_batch import (
    BatchHeader,
    decode_marker,
    decode_records,
    record_times,
    whole_batches,
)
from coterie.wire.schema import Versions

BYTES_MAX: Final = 8 * 1024 * 1024
IN_FLIGHT_MAX: Final = 8
"""Requests for first records in flight to one node."""
FETCHES_MAX: Final = 32
"""The most requests for one first record: 31 MiB of markers and aborted records."""
_BY_NAME: Final = Versions(4, 12)
"""Later versions name topics by id."""
_CLIENT: Final = -1
"""The replica id of a client."""
_WAIT_MS: Final = 500
_ONE_BATCH: Final = 1
"""A limit in bytes at which a broker returns one batch, and no second."""
_SKIPPED_BYTES: Final = 1024 * 1024
"""The limit in bytes after a batch without a record."""


class AbortedTxn(NamedTuple):
    """An aborted transaction: batches of the producer from `first_offset` to its next
    marker are not committed."""

    producer_id: ProducerId
    first_offset: LogOffset


class FetchedBatch(NamedTuple):
    """A batch of a log. `is_hidden` is true for a transaction marker, and for records
    of an aborted transaction when they were fetched with `committed_only`."""

    header: BatchHeader
    data: bytes
    is_hidden: bool


class FirstRecord(NamedTuple):
    """The first record at or after an offset. `timestamp_ms` (since 1970) is -1 when it
    has none, and when too much that is no record precedes it."""

    offset: LogOffset
    timestamp_ms: int


class FetchResult(NamedTuple):
    """The batches of a log from an offset on.

    `data` is a sequence of batches: the first may start before the offset, the last may
    be truncated. Offsets are -1 where the broker sends none.
    """

    data: bytes
    aborted: tuple[AbortedTxn, ...]
    """With `committed_only`: the aborted transactions that reach into `data`."""
    log_start_offset: LogOffset
    last_stable_offset: LogOffset
    high_watermark: LogOffset
    is_throttled: bool
    """Whether a quota delayed the response: empty `data` then does not mean the end of
    the log.
    """

    def batches(self) -> Iterator[FetchedBatch]:
        """Yield the batches of `data`, without a last one that is truncated.

        Raises MalformedFrame for batches of other formats.
        """
        coming = deque(sorted(self.aborted, key=lambda each: each.first_offset))
        aborted: set[ProducerId] = set()
        for header, batch in whole_batches(self.data):
            while coming and coming[0].first_offset <= header.last_offset:
                aborted.add(coming.popleft().producer_id)
            is_aborted = header.is_transactional and header.producer_id in aborted
            yield FetchedBatch(header, batch, header.is_control or is_aborted)
            if is_aborted and header.is_control:
                marker = decode_marker(decode_records(batch, header)[0])
                if marker is not None and not marker.commit:
                    aborted.discard(header.producer_id)


async def fetch_log(
    cluster: Cluster,
    partition: TopicPartition,
    offset: LogOffset,
    *,
    bytes_max: int = BYTES_MAX,
    committed_only: bool = False,
) -> FetchResult:
    """Fetch batches, starting with the one that holds `offset`: about `bytes_max`
    bytes, or one larger batch; none after half a second without records.

    With `committed_only` they end before the first open transaction; records of aborted
    transactions are included. Raises ApiError (OFFSET_OUT_OF_RANGE for an offset
    outside the log), ConnectionLost and RequestTimedOut.
    """
    results = await fetch_logs(
        cluster,
        {partition: offset},
        bytes_max=bytes_max,
        committed_only=committed_only,
    )
    return results.one(partition)


async def fetch_logs(
    cluster: Cluster,
    offsets: Mapping[TopicPartition, LogOffset],
    *,
    bytes_max: int = BYTES_MAX,
    committed_only: bool = False,
    cache: LeaderCache | None = None,
) -> Results[TopicPartition, FetchResult]:
    """Fetch batches of several partitions, as `fetch_log` does: one request to each
    leader, with about `bytes_max` bytes in its response."""

    async def ask(
        node_id: int, partitions: Sequence[TopicPartition]
    ) -> Outcomes[TopicPartition, FetchResult]:
        own = {each: offsets[each] for each in partitions}
        request = _fetch_request(own, bytes_max)
        request.max_wait_ms = _WAIT_MS
        request.min_bytes = 1
        request.isolation_level = int(committed_only)
        response = await cluster.call(
            request, m.FetchResponse, node_id=node_id, wanted=_BY_NAME
        )
        return _fetch_outcomes(response, own)

    return await send_to_leaders(cluster, offsets, ask, cache=cache)


def _fetch_outcomes(
    response: m.FetchResponse, wanted: Iterable[TopicPartition]
) -> Outcomes[TopicPartition, FetchResult]:
    if response.error_code:
        error = api_error(response.error_code, "to fetch")
        return dict.fromkeys(wanted, error)
    outcomes: dict[TopicPartition, FetchResult | CoterieError] = {}
    for topic in response.responses:
        for data in topic.partitions:
            partition = TopicPartition(topic.topic, data.partition_index)
            aborted = data.aborted_transactions or ()
            outcomes[partition] = (
                api_error(data.error_code, partition_name(partition))
                if data.error_code
                else FetchResult(
                    data.records or b"",
                    tuple(
                        AbortedTxn(each.producer_id, each.first_offset)
                        for each in aborted
                    ),
                    data.log_start_offset,
                    data.last_stable_offset,
                    data.high_watermark,
                    is_throttled=response.throttle_time_ms > 0,
                )
            )
    return outcomes


class Records(Family):
    """Calls about single records."""

    async def first(
        self,
        wanted: Mapping[TopicPartition, Collection[LogOffset]],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, Mapping[LogOffset, FirstRecord | None]]:
        """Return the first record at or after each offset of each partition, with its
        timestamp (ms); None when no record follows.

        Transaction markers are not records, and with `committed_only` neither are those
        of aborted transactions (KIP-98). It sends one Fetch request for each offset, or
        more where others precede the record, and needs READ on the topic.
        """

        async def ask(
            node_id: int, partitions: Sequence[TopicPartition]
        ) -> Outcomes[TopicPartition, Mapping[LogOffset, FirstRecord | None]]:
            slots = asyncio.Semaphore(IN_FLIGHT_MAX)

            async def one(
                partition: TopicPartition, offset: LogOffset
            ) -> FirstRecord | CoterieError | None:
                async with slots:
                    return await _first_record(
                        self._cluster,
                        node_id,
                        partition,
                        offset,
                        committed_only=committed_only,
                    )

            async def of_partition(
                partition: TopicPartition,
            ) -> Mapping[LogOffset, FirstRecord | None] | CoterieError:
                offsets = list(wanted[partition])
                found = await asyncio.gather(
                    *(one(partition, each) for each in offsets)
                )
                records: dict[LogOffset, FirstRecord | None] = {}
                for offset, each in zip(offsets, found, strict=True):
                    if isinstance(each, CoterieError):
                        return each
                    records[offset] = each
                return records

            outcomes = await asyncio.gather(*map(of_partition, partitions))
            return dict(zip(partitions, outcomes, strict=True))

        return await send_to_leaders(self._cluster, wanted, ask, progress)


class SyncRecords(SyncFamily[Records]):
    """The blocking methods of `Records`."""

    first = blocking(Records.first)


async def _first_record(
    cluster: Cluster,
    node_id: int,
    partition: TopicPartition,
    offset: LogOffset,
    *,
    committed_only: bool,
) -> FirstRecord | CoterieError | None:
    # A broker returns a whole batch for a limit of one byte, but only for the first
    # partition of a request: hence one request for each record.
    position, bytes_max = offset, _ONE_BATCH
    for _ in range(FETCHES_MAX):
        request = _fetch_request({partition: position}, bytes_max)
        request.isolation_level = int(committed_only)
        response = await cluster.call(
            request, m.FetchResponse, node_id=node_id, wanted=_BY_NAME
        )
        fetched = _fetch_outcomes(response, [partition]).get(partition)
        if not isinstance(fetched, FetchResult):
            return fetched or ClientError(
                f"the response of node {node_id} omits {partition_name(partition)}"
            )
        start = position
        try:
            for batch in fetched.batches():
                position = max(position, batch.header.last_offset + 1)
                if batch.is_hidden:
                    continue
                for found, timestamp_ms in record_times(batch.data):
                    if found >= offset:
                        return FirstRecord(found, timestamp_ms)
        except MalformedFrame as error:
            return ClientError(
                f"{partition_name(partition)}: cannot read the batch at offset "
                f"{position}: {error}"
            )
        if position == start and not fetched.is_throttled:
            return None
        bytes_max = _SKIPPED_BYTES
    return FirstRecord(position, -1)


def _fetch_request(
    offsets: Mapping[TopicPartition, LogOffset], bytes_max: int
) -> m.FetchRequest:
    topics: dict[TopicName, list[m.FetchPartition]] = defaultdict(list)
    for partition, offset in offsets.items():
        topics[partition.topic].append(
            m.FetchPartition(
                partition=partition.partition,
                fetch_offset=offset,
                partition_max_bytes=bytes_max,
            )
        )
    return m.FetchRequest(
        replica_id=_CLIENT,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=bytes_max,
        topics=[
            m.FetchTopic(topic=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
