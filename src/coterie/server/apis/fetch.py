"""Fetch, key 1: versions 4-18 (7: sessions, KIP-227; 12: KIP-595; 13: topic ids).

An answer leaves when there are `min_bytes`, when something is wrong with a partition,
or after `max_wait_ms`. It holds at least one batch if there is any, and else no more
than the limits of the request, of the partition and of the broker (KIP-74).
"""

from __future__ import annotations

import logging
from typing import Final

from coterie.auth.authorizer import Operation
from coterie.errors import ApiError, LogError
from coterie.runtime.fetch_sessions import Asked, FetchPlan, PartitionKey, Quiet
from coterie.runtime.partitions import Partition, Read
from coterie.runtime.polls import Poll
from coterie.server.apis.support import (
    LEADER_EPOCH,
    check_leader,
    leader_of,
    may_topic,
    unknown_partition,
)
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_LOGGER = logging.getLogger(__name__)
READ_COMMITTED: Final = 1
_TOPIC_IDS_SINCE: Final = 13
_ZSTD_SINCE: Final = 10
_LEADER_HINTS_SINCE: Final = 12
_ENDPOINTS_SINCE: Final = 16
_ZSTD_BITS: Final = 4
_CODEC_MASK: Final = 7
_ATTRIBUTES_LOW_AT: Final = 22


def handle(call: Call) -> None:
    """Answer now, or when there is enough to answer with."""
    request: FetchRequest = call.request
    broker = call.node.broker
    sessions = broker.fetch_sessions
    try:
        plan = sessions.plan(request, call.api_version, broker.clock())
    except ApiError as error:
        call.answer(FetchResponse(error_code=error.code))
        return
    fetch = _Fetch(call, request, plan)
    size_bytes = fetch.read()
    if (
        fetch.has_failed
        or size_bytes >= request.min_bytes
        or request.max_wait_ms <= 0
        or not plan.wanted
    ):
        call.answer(fetch.response())
        return

    def finished() -> None:
        try:
            fetch.read()
            response = fetch.response()
        except Exception:
            # Others are told in the same turn: a bug here is no reason to forget them.
            _LOGGER.exception("a bug in answering a fetch that waited")
            call.close()
            return
        call.answer(response)

    poll = Poll(
        fetch.partitions,
        missing_bytes=request.min_bytes - size_bytes,
        committed=request.isolation_level == READ_COMMITTED,
        finished=finished,
    )
    # A client that is gone is not noticed here: nobody waits for ever.
    wait_ms = min(request.max_wait_ms, broker.settings.connections_max_idle_ms)
    poll.start(broker.data.scheduler, wait_ms)


class _Result:
    """What one look at a partition found."""

    __slots__ = ("asked", "data", "key", "quiet")
    data: PartitionData

    def __init__(self, key: PartitionKey, asked: Asked) -> None:
        self.key = key
        self.asked = asked
        self.quiet: Quiet | None = None


class _Fetch:
    """One request: what it reads, as often as it is asked to, and its answer."""

    def __init__(self, call: Call, request: FetchRequest, plan: FetchPlan) -> None:
        self._call = call
        self._request = request
        self._plan = plan
        self._committed = request.isolation_level == READ_COMMITTED
        self._results: list[_Result] = []
        self._endpoints: dict[int, NodeEndpoint] = {}
        self._left_bytes = 0
        self.partitions: list[Partition] = []
        self.has_failed = False

    def read(self) -> int:
        """Read every partition; how many bytes there are in all."""
        limit = self._call.node.broker.catalog.settings.fetch_max_bytes
        self._left_bytes = min(self._request.max_bytes, limit)
        rules = self._call.node.broker.authorizer.version
        self._results = []
        self.partitions = []
        size_bytes = 0
        for key, asked in self._plan.wanted:
            if asked.quiet is not None and asked.quiet.holds(self._committed, rules):
                self.partitions.append(asked.quiet.partition)
                continue
            result = _Result(key, asked)
            self._read_partition(result, is_first=size_bytes == 0)
            size = len(result.data.records or b"")
            self._left_bytes = max(self._left_bytes - size, 0)
            size_bytes += size
            self._results.append(result)
        return size_bytes

    def response(self) -> FetchResponse:
        """The answer to what was read last."""
        plan = self._plan
        found = [(result.key, result.data) for result in self._results]
        shown = [(key, data) for key, data in found if plan.shows(key, data)]
        plan.answered(shown)
        for result in self._results:
            result.asked.quiet = result.quiet
        topics: list[FetchableTopicResponse] = []
        for key, data in shown:
            last = topics[-1] if topics else None
            if last is None or (last.topic, last.topic_id) != key[:2]:
                last = FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id)
                topics.append(last)
            last.partitions.append(data)
        return FetchResponse(
            session_id=plan.session_id,
            responses=topics,
            node_endpoints=list(self._endpoints.values()),
        )

    def _read_partition(self, result: _Result, *, is_first: bool) -> None:
        key, wanted = result.key, result.asked.wanted
        try:
            partition = self._find(key, wanted)
            if wanted.last_fetched_epoch > LEADER_EPOCH:
                result.data = self._diverging(partition, key.partition)
                return
            limit = min(wanted.partition_max_bytes, self._left_bytes)
            read = partition.read(
                wanted.fetch_offset,
                limit,
                committed=self._committed,
                at_least_one=is_first,
            )
            self.partitions.append(partition)
            self._check_codec(read)
        except ApiError as error:
            result.data = self._refuse(key.partition, error.code)
            return
        except LogError:
            result.data = self._refuse(key.partition, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        end = read.last_stable_offset if self._committed else read.bounds.flushed_offset
        if wanted.fetch_offset >= end:
            rules = self._call.node.broker.authorizer.version
            result.quiet = Quiet(partition, partition.version, self._committed, rules)
        result.data = PartitionData(
            partition_index=key.partition,
            high_watermark=read.bounds.flushed_offset,
            last_stable_offset=read.last_stable_offset,
            log_start_offset=read.bounds.log_start_offset,
            aborted_transactions=_aborted(read),
            records=b"".join(read.batches),
        )

    def _find(self, key: PartitionKey, wanted: FetchPartition) -> Partition:
        data = self._call.node.broker.data
        name: str | None = key.topic
        if self._call.api_version >= _TOPIC_IDS_SINCE:
            name = data.catalog.topic_name(key.topic_id)
            if name is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        assert name is not None
        if not may_topic(self._call, Operation.READ, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = data.partition(name, key.partition)
        if partition is None:
            raise unknown_partition()
        check_leader(self._call, key.partition, wanted.current_leader_epoch)
        return partition

    def _check_codec(self, read: Read) -> None:
        """Clients before Fetch v10 cannot read zstd (KIP-110)."""
        if self._call.api_version >= _ZSTD_SINCE:
            return
        for batch in read.batches:
            if batch[_ATTRIBUTES_LOW_AT] & _CODEC_MASK == _ZSTD_BITS:
                raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    def _diverging(self, partition: Partition, index: int) -> PartitionData:
        """The client has fetched in an epoch that never was (KIP-595)."""
        self.has_failed = True
        bounds = partition.bounds()
        return PartitionData(
            partition_index=index,
            high_watermark=bounds.flushed_offset,
            log_start_offset=bounds.log_start_offset,
            diverging_epoch=EpochEndOffset(
                epoch=LEADER_EPOCH, end_offset=bounds.flushed_offset
            ),
            aborted_transactions=None,
            records=b"",
        )

    def _refuse(self, index: int, code: ErrorCode) -> PartitionData:
        self.has_failed = True
        answer = PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
        version = self._call.api_version
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _LEADER_HINTS_SINCE:
            leader = leader_of(self._call, index)
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=leader.node_id, leader_epoch=LEADER_EPOCH
            )
            if version >= _ENDPOINTS_SINCE:
                self._endpoints[leader.node_id] = NodeEndpoint(
                    node_id=leader.node_id, host=leader.host, port=leader.port
                )
        return answer


def _aborted(read: Read) -> list[AbortedTransaction] | None:
    if read.aborted is None:
        return None
    return [
        AbortedTransaction(
            producer_id=found.producer_id, first_offset=found.first_offset
        )
        for found in read.aborted
    ]
