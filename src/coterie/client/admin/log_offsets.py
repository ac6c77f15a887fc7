"""Offsets of logs: their ends, their beginnings, and what was written when.

ListOffsets (key 2): one request to each leader for all of its partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from coterie.client.admin.leaders import Outcomes, ask_leaders
from coterie.client.admin.offset_values import (
    AtTime,
    LogOffsetFound,
    OffsetSpec,
    Special,
)
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results
from coterie.client.cluster import Cluster
from coterie.errors import CoterieError, UnsupportedByBroker
from coterie.types import TopicName, TopicPartition
from coterie.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.schema import VERSION_MAX, Versions

_SINCE: Final[Mapping[OffsetSpec, int]] = {
    Special.MAX_TIMESTAMP: 7,
    Special.EARLIEST_LOCAL: 8,
    Special.LATEST_TIERED: 9,
}
"""The first version in which each can be asked for; others in any."""
_ISOLATION_SINCE: Final = 2
_CLIENT: Final = -1
"""The replica id of who is no replica."""


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, OffsetSpec],
    *,
    committed_only: bool = False,
    progress: Progress | None = None,
) -> Results[TopicPartition, LogOffsetFound]:
    """The offset of each partition that is asked for.

    With `committed_only` no offset lies beyond a transaction that is still open: LATEST
    is then the last stable offset. A partition whose leader is too old for that, or for
    its `Special`, has UnsupportedByBroker for its error.
    """

    async def ask(
        node_id: int, specs: Mapping[TopicPartition, OffsetSpec]
    ) -> Outcomes[LogOffsetFound]:
        return await _ask(cluster, node_id, specs, committed_only=committed_only)

    return await ask_leaders(cluster, wanted, ask, progress)


async def _ask(
    cluster: Cluster,
    node_id: int,
    specs: Mapping[TopicPartition, OffsetSpec],
    *,
    committed_only: bool,
) -> Outcomes[LogOffsetFound]:
    connection = await cluster.connection(node_id)
    least = _ISOLATION_SINCE if committed_only else 0
    version = connection.version_of(ListOffsetsRequest, Versions(least, VERSION_MAX))
    outcomes: dict[TopicPartition, LogOffsetFound | CoterieError] = {}
    topics: dict[TopicName, list[ListOffsetsPartition]] = defaultdict(list)
    for key, spec in specs.items():
        if version < (since := _SINCE.get(spec, 0)):
            outcomes[key] = UnsupportedByBroker(
                f"{connection.address} serves ListOffsets only up to {version}; "
                f"{Special(_number(spec)).name} needs {since}"
            )
        else:
            asked = ListOffsetsPartition(
                partition_index=key.partition, timestamp=_number(spec)
            )
            topics[key.topic].append(asked)
    if topics:
        request = ListOffsetsRequest(
            replica_id=_CLIENT,
            isolation_level=int(committed_only),
            topics=[
                ListOffsetsTopic(name=name, partitions=asked)
                for name, asked in topics.items()
            ],
            timeout_ms=cluster.options.request_timeout_ms,
        )
        wanted = Versions(version, version)
        answer = await connection.call(request, ListOffsetsResponse, wanted=wanted)
        outcomes |= _outcomes(answer)
    return outcomes


def _number(spec: OffsetSpec) -> int:
    """What the protocol calls it. Nothing was written before 1970."""
    return max(spec.timestamp_ms, 0) if isinstance(spec, AtTime) else int(spec)


def _outcomes(
    answer: ListOffsetsResponse,
) -> dict[TopicPartition, LogOffsetFound | CoterieError]:
    return {
        TopicPartition(topic.name, each.partition_index): _outcome(topic.name, each)
        for topic in answer.topics
        for each in topic.partitions
    }


def _outcome(
    topic: TopicName, each: ListOffsetsPartitionResponse
) -> LogOffsetFound | CoterieError:
    if each.error_code:
        return refusal(each.error_code, f"partition {topic}-{each.partition_index}")
    epoch = each.leader_epoch
    return LogOffsetFound(each.offset, each.timestamp, epoch if epoch >= 0 else None)
