"""ListOffsets (key 2) and DeleteRecords (key 21): the offsets of logs.

Each leader gets one request for all of its partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from coterie.client.admin.calls import broker_timeout_ms
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import Progress, Results, api_error, partition_name
from coterie.client.admin.routing import Outcomes, send_to_leaders
from coterie.errors import CoterieError, UnsupportedByBroker
from coterie.types import LogOffset, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.schema import VERSION_MAX, Versions


class SpecialOffset(IntEnum):
    """The special timestamps of ListOffsets requests, with the protocol's numbers."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The offset of the record with the latest timestamp (KIP-734)."""
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record whose timestamp is at least this (ms since 1970, UTC)."""

    timestamp_ms: int


OffsetSpec: TypeAlias = SpecialOffset | AtTime
"""The offset that `Logs.list_offsets` returns."""

LATEST: Final = SpecialOffset.LATEST
"""The end of the log: the offset of the next record."""
EARLIEST: Final = SpecialOffset.EARLIEST
"""The start of the log: the offset of its first record."""


@dataclass(frozen=True, slots=True)
class LogOffsetInfo:
    """An offset of a log. `offset` is -1 when every record is older than the time."""

    offset: LogOffset
    timestamp_ms: int = -1
    """The timestamp of its record; -1 without a timestamp or without `AtTime`."""
    leader_epoch: int | None = None


_SINCE: Final[Mapping[OffsetSpec, int]] = {
    SpecialOffset.MAX_TIMESTAMP: 7,
    SpecialOffset.EARLIEST_LOCAL: 8,
    SpecialOffset.LATEST_TIERED: 9,
}
"""The first version of ListOffsets for each kind; other kinds work in any version."""
_ISOLATION_SINCE: Final = 2
_CLIENT: Final = -1
"""The replica id of a client."""


class Logs(Family):
    """Calls about the logs of partitions."""

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffsetInfo]:
        """List log offsets: the start, the end, or the first offset at or after a time.

        With `committed_only`, LATEST is the last stable offset. A partition without an
        available leader is retried for `ClientOptions.leader_wait_ms`.
        """

        async def ask(
            node_id: int, partitions: Sequence[TopicPartition]
        ) -> Outcomes[TopicPartition, LogOffsetInfo]:
            connection = await self._cluster.connection(node_id)
            least = _ISOLATION_SINCE if committed_only else 0
            versions = Versions(least, VERSION_MAX)
            version = connection.version_of(m.ListOffsetsRequest, versions)
            outcomes: dict[TopicPartition, LogOffsetInfo | CoterieError] = {}
            topics: dict[TopicName, list[m.ListOffsetsPartition]] = defaultdict(list)
            for partition in partitions:
                spec = wanted[partition]
                number = _number(spec)
                if version < (since := _SINCE.get(spec, 0)):
                    outcomes[partition] = UnsupportedByBroker(
                        f"{connection.address} serves ListOffsets only up to "
                        f"{version}; {SpecialOffset(number).name} needs {since}"
                    )
                else:
                    topics[partition.topic].append(
                        m.ListOffsetsPartition(
                            partition_index=partition.partition, timestamp=number
                        )
                    )
            if not topics:
                return outcomes
            request = m.ListOffsetsRequest(
                replica_id=_CLIENT,
                isolation_level=int(committed_only),
                topics=[
                    m.ListOffsetsTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
                timeout_ms=self._cluster.options.request_timeout_ms,
            )
            response = await connection.call(
                request, m.ListOffsetsResponse, wanted=Versions(version, version)
            )
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    epoch = each.leader_epoch
                    outcomes[partition] = (
                        api_error(each.error_code, partition_name(partition))
                        if each.error_code
                        else LogOffsetInfo(
                            each.offset, each.timestamp, epoch if epoch >= 0 else None
                        )
                    )
            return outcomes

        return await send_to_leaders(self._cluster, wanted, ask, progress)

    async def delete_records(
        self,
        before: Mapping[TopicPartition, LogOffset],
        *,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffset]:
        """Delete the records before each offset (KIP-107), or all records with -1.

        Returns the new start of each log.
        """

        async def ask(
            node_id: int, partitions: Sequence[TopicPartition]
        ) -> Outcomes[TopicPartition, LogOffset]:
            topics: dict[TopicName, list[m.DeleteRecordsPartition]] = defaultdict(list)
            for partition in partitions:
                topics[partition.topic].append(
                    m.DeleteRecordsPartition(
                        partition_index=partition.partition, offset=before[partition]
                    )
                )
            request = m.DeleteRecordsRequest(
                topics=[
                    m.DeleteRecordsTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
                timeout_ms=broker_timeout_ms(self._cluster.options),
            )
            response = await self._cluster.call(
                request, m.DeleteRecordsResponse, node_id=node_id
            )
            outcomes: dict[TopicPartition, LogOffset | CoterieError] = {}
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    outcomes[partition] = (
                        api_error(each.error_code, partition_name(partition))
                        if each.error_code
                        else each.low_watermark
                    )
            return outcomes

        return await send_to_leaders(self._cluster, before, ask, progress)


class SyncLogs(SyncFamily[Logs]):
    """The blocking methods of `Logs`."""

    list_offsets = blocking(Logs.list_offsets)
    delete_records = blocking(Logs.delete_records)


def _number(spec: OffsetSpec) -> int:
    """Return the timestamp for a request. A time before 1970 becomes 0, because
    negative numbers mean a `SpecialOffset`.
    """
    return max(spec.timestamp_ms, 0) if isinstance(spec, AtTime) else int(spec)
