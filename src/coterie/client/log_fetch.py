"""Reading a log's batches as they are: bytes, markers of transactions and all.

    fetched = await fetch_log(cluster, partition, offset, committed_only=True)

Fetch (key 1), of one partition at a time, from its leader. A leader that moved is
looked for again, and what may pass is tried again, for `api_timeout_ms` in all. It
takes the right to read the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from coterie.client.admin.leaders import Outcomes, ask_leaders
from coterie.client.admin.refusals import refusal
from coterie.client.cluster import Cluster
from coterie.errors import CoterieError
from coterie.types import LogOffset, ProducerId, TopicPartition
from coterie.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from coterie.wire.schema import Versions

BYTES_MAX: Final = 8 * 1024 * 1024
_BY_NAME: Final = Versions(4, 12)
"""Later versions name topics by id."""
_CLIENT: Final = -1
_WAIT_MS: Final = 500


class Aborted(NamedTuple):
    """A transaction that was aborted: batches of the producer from that offset to its
    next marker do not count."""

    producer_id: ProducerId
    first_offset: LogOffset


class Fetched(NamedTuple):
    """What a leader has from an offset on.

    `data` is batches one after the other: the first may begin before the offset, and
    the last may be cut short. Offsets are -1 where the broker does not say.
    """

    data: bytes
    aborted: tuple[Aborted, ...]
    """With `committed_only`: those that reach into `data`."""
    log_start_offset: LogOffset
    last_stable_offset: LogOffset
    high_watermark: LogOffset
    is_throttled: bool
    """A quota holds the broker back: nothing now does not mean that there is none."""


async def fetch_log(
    cluster: Cluster,
    partition: TopicPartition,
    offset: LogOffset,
    *,
    bytes_max: int = BYTES_MAX,
    committed_only: bool = False,
) -> Fetched:
    """The batches from the one that holds `offset` on, about `bytes_max` of them, or
    one that is larger; none after half a second without any.

    With `committed_only` they end where the first open transaction begins; records of
    aborted ones are among them. Raises ApiError, OFFSET_OUT_OF_RANGE for an offset
    before the log's start or after its end, ConnectionLost and RequestTimedOut.
    """

    async def ask(
        node_id: int, offsets: Mapping[TopicPartition, LogOffset]
    ) -> Outcomes[Fetched]:
        [(where, at)] = offsets.items()
        request = _request(where, at, bytes_max, committed_only=committed_only)
        answer = await cluster.call(
            request, FetchResponse, node_id=node_id, wanted=_BY_NAME
        )
        return {where: _outcome(answer, where)}

    results = await ask_leaders(cluster, {partition: offset}, ask)
    return results.one(partition)


def _request(
    partition: TopicPartition,
    offset: LogOffset,
    bytes_max: int,
    *,
    committed_only: bool,
) -> FetchRequest:
    asked = FetchPartition(
        partition=partition.partition,
        fetch_offset=offset,
        partition_max_bytes=bytes_max,
    )
    return FetchRequest(
        replica_id=_CLIENT,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=int(committed_only),
        topics=[FetchTopic(topic=partition.topic, partitions=[asked])],
    )


def _outcome(
    answer: FetchResponse, partition: TopicPartition
) -> Fetched | CoterieError:
    name = f"partition {partition.topic}-{partition.partition}"
    for topic in answer.responses:
        for found in topic.partitions:
            if found.error_code:
                return refusal(found.error_code, name)
            return _fetched(found, is_throttled=answer.throttle_time_ms > 0)
    return refusal(answer.error_code, name)


def _fetched(found: PartitionData, *, is_throttled: bool) -> Fetched:
    return Fetched(
        found.records or b"",
        tuple(
            Aborted(each.producer_id, each.first_offset)
            for each in found.aborted_transactions or ()
        ),
        found.log_start_offset,
        found.last_stable_offset,
        found.high_watermark,
        is_throttled,
    )
