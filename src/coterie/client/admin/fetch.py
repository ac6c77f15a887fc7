"""Fetch (key 1) for admin clients: raw batches, and the timestamps of single records.

    fetched = await fetch_log(cluster, partition, offset, committed_only=True)

The calls fetch from the leaders of partitions, look up a moved leader again, and retry
after retriable errors for `api_timeout_ms`. They need READ on the topic.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from coterie.client.admin.leaders import LeaderCache, Outcomes, ask_leaders
from coterie.client.admin.results import Progress, Results, api_error
from coterie.client.cluster import Cluster
from coterie.errors import ApiError, ClientError, CoterieError, MalformedFrame
from coterie.types import LogOffset, ProducerId, TopicName, TopicPartition
from coterie.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from coterie.wire.record_batch import decode_records, split_batches
from coterie.wire.schema import Versions

BYTES_MAX: Final = 8 * 1024 * 1024
IN_FLIGHT_MAX: Final = 8
"""Requests for record times in flight to one node."""
_BY_NAME: Final = Versions(4, 12)
"""Later versions name topics by id."""
_CLIENT: Final = -1
"""The replica id of a client."""
_WAIT_MS: Final = 500
_ONE_BATCH: Final = 1
"""A limit in bytes at which a broker returns one batch, and no second."""


class AbortedTxn(NamedTuple):
    """An aborted transaction: batches of the producer from `first_offset` to its next
    marker are not committed."""

    producer_id: ProducerId
    first_offset: LogOffset


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
        node_id: int, own: Mapping[TopicPartition, LogOffset]
    ) -> Outcomes[FetchResult]:
        request = _fetch_request(own, bytes_max)
        request.max_wait_ms = _WAIT_MS
        request.min_bytes = 1
        request.isolation_level = int(committed_only)
        response = await cluster.call(
            request, FetchResponse, node_id=node_id, wanted=_BY_NAME
        )
        return _fetch_outcomes(response, own)

    return await ask_leaders(cluster, offsets, ask, cache=cache)


def _fetch_outcomes(
    response: FetchResponse, wanted: Mapping[TopicPartition, LogOffset]
) -> Outcomes[FetchResult]:
    if response.error_code:
        error = api_error(response.error_code, "to fetch")
        return dict.fromkeys(wanted, error)
    outcomes: dict[TopicPartition, FetchResult | CoterieError] = {}
    for topic in response.responses:
        for data in topic.partitions:
            partition = TopicPartition(topic.topic, data.partition_index)
            aborted = data.aborted_transactions or ()
            outcomes[partition] = (
                api_error(data.error_code, _partition_name(partition))
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


async def record_times(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, LogOffset],
    progress: Progress | None,
) -> Results[TopicPartition, int]:
    """Return the timestamp (ms) of the first record at or after each offset, within the
    batch that contains the offset; -1 when the record has none. A partition has an
    error when that batch has no such record.
    """

    async def ask(
        node_id: int, offsets: Mapping[TopicPartition, LogOffset]
    ) -> Outcomes[int]:
        slots = asyncio.Semaphore(IN_FLIGHT_MAX)

        # A broker returns a whole batch for a limit of one byte, but only for the first
        # partition of a request: hence one request for each record.
        async def one(partition: TopicPartition) -> int | CoterieError:
            request = _fetch_request({partition: offsets[partition]}, _ONE_BATCH)
            async with slots:
                response = await cluster.call(
                    request, FetchResponse, node_id=node_id, wanted=_BY_NAME
                )
            data = _partition_data(response, partition)
            if isinstance(data, ApiError):
                return data
            return _timestamp(data.records or b"", partition, offsets[partition])

        timestamps = await asyncio.gather(*map(one, offsets))
        return dict(zip(offsets, timestamps, strict=True))

    return await ask_leaders(cluster, wanted, ask, progress)


def _fetch_request(
    offsets: Mapping[TopicPartition, LogOffset], bytes_max: int
) -> FetchRequest:
    topics: dict[TopicName, list[FetchPartition]] = defaultdict(list)
    for partition, offset in offsets.items():
        topics[partition.topic].append(
            FetchPartition(
                partition=partition.partition,
                fetch_offset=offset,
                partition_max_bytes=bytes_max,
            )
        )
    return FetchRequest(
        replica_id=_CLIENT,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=bytes_max,
        topics=[
            FetchTopic(topic=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )


def _partition_data(
    response: FetchResponse, partition: TopicPartition
) -> PartitionData | ApiError:
    name = _partition_name(partition)
    for topic in response.responses:
        for data in topic.partitions:
            return api_error(data.error_code, name) if data.error_code else data
    return api_error(response.error_code, name)


def _timestamp(
    batches: bytes, partition: TopicPartition, offset: LogOffset
) -> int | CoterieError:
    name = _partition_name(partition)
    try:
        for header, batch in split_batches(batches):
            for record in decode_records(batch, header):
                if record.offset >= offset:
                    return record.timestamp_ms
    except MalformedFrame as error:
        return ClientError(f"{name}: cannot read the batch at offset {offset}: {error}")
    return ClientError(f"{name} has no record at offset {offset} now")


def _partition_name(partition: TopicPartition) -> str:
    return f"partition {partition.topic}-{partition.partition}"
