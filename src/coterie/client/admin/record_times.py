"""When records were written: the one thing about a log that ListOffsets does not tell.

Fetch (key 1): one batch for each record, asked of its leader. A broker answers with a
whole batch however little is asked for, but only for the first partition of a request;
so each record takes a request of its own. It takes the right to read the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from coterie.client.admin.leaders import Outcomes, ask_leaders
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results
from coterie.client.cluster import Cluster
from coterie.errors import ClientError, CoterieError, MalformedFrame
from coterie.types import LogOffset, TopicPartition
from coterie.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from coterie.wire.record_batch import decode_records, split_batches
from coterie.wire.schema import Versions

IN_FLIGHT_MAX: Final = 8
"""Batches of one node that are waited for."""
_BY_NAME: Final = Versions(4, 12)
"""Later versions name topics by id."""
_CLIENT: Final = -1
_ONE_BATCH: Final = 1
"""So few bytes that an answer has no second batch."""


async def record_times(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, LogOffset],
    *,
    progress: Progress | None = None,
) -> Results[TopicPartition, int]:
    """The timestamp, in ms, of the first record at or after an offset of each
    partition, as far as its batch goes; -1 when it has none.

    An offset at which no record is, or from which on a batch has none left, is an
    error of its partition.
    """

    async def ask(
        node_id: int, offsets: Mapping[TopicPartition, LogOffset]
    ) -> Outcomes[int]:
        gate = asyncio.Semaphore(IN_FLIGHT_MAX)

        async def one(partition: TopicPartition) -> int | CoterieError:
            async with gate:
                return await _fetch(cluster, node_id, partition, offsets[partition])

        found = await asyncio.gather(*(one(each) for each in offsets))
        return dict(zip(offsets, found, strict=True))

    return await ask_leaders(cluster, wanted, ask, progress)


async def _fetch(
    cluster: Cluster, node_id: int, partition: TopicPartition, offset: LogOffset
) -> int | CoterieError:
    asked = FetchPartition(
        partition=partition.partition,
        fetch_offset=offset,
        partition_max_bytes=_ONE_BATCH,
    )
    request = FetchRequest(
        replica_id=_CLIENT,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_ONE_BATCH,
        topics=[FetchTopic(topic=partition.topic, partitions=[asked])],
    )
    answer = await cluster.call(
        request, FetchResponse, node_id=node_id, wanted=_BY_NAME
    )
    name = f"partition {partition.topic}-{partition.partition}"
    for topic in answer.responses:
        for found in topic.partitions:
            if found.error_code:
                return refusal(found.error_code, name)
            return _time_of(found.records or b"", offset, name)
    return refusal(answer.error_code, name)


def _time_of(data: bytes, offset: LogOffset, name: str) -> int | CoterieError:
    try:
        for header, batch in split_batches(data):
            for record in decode_records(batch, header):
                if record.offset >= offset:
                    return record.timestamp_ms
    except MalformedFrame as error:
        return ClientError(f"{name}: the batch at offset {offset} is no use: {error}")
    return ClientError(f"{name} has no record at offset {offset} now")
