"""Fetch, key 1: versions 4-18 (7: sessions, KIP-227; 12: KIP-595; 13: topic ids).

The response is sent when `min_bytes` are available, when a partition has an error, or
after `max_wait_ms`. Its size is bounded by the limits of the request, of each partition
and of the broker, except that it has at least one batch if there is any (KIP-74).

As in Kafka (KafkaApis.handleFetchRequest), a partition that is unknown or whose topic
is not authorized is refused before anything is read: it is last in the response, and
the response still waits for the other partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from coterie.auth.acl import Operation
from coterie.broker.runtime.fetch_sessions import (
    EmptyRead,
    FetchPlan,
    PartitionKey,
    SessionPartition,
)
from coterie.broker.runtime.partitions import Partition, Poll
from coterie.broker.server.apis.routing import (
    LEADER_EPOCH,
    NO_EPOCH,
    find_partition,
    leader_of,
)
from coterie.broker.server.call import Call
from coterie.errors import ApiError, LogError
from coterie.settings import INT32_MAX
from coterie.wire import messages as m
from coterie.wire.codec import encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import SIZE_BYTES

_LOGGER = logging.getLogger(__name__)
_WAIT_MAX_MS: Final = 600_000
"""The longest wait where connections have no idle limit."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
_TOPIC_IDS_SINCE: Final = 13
_SESSIONS_SINCE: Final = 7
_ZSTD_SINCE: Final = 10
_LEADER_HINTS_SINCE: Final = 12
_ENDPOINTS_SINCE: Final = 16
_ZSTD_BITS: Final = 4
_CODEC_MASK: Final = 7
_ATTRIBUTES_LOW_AT: Final = 22


def fetch(call: Call) -> None:
    """Respond now, or once enough bytes are available. Requires READ on each topic."""
    request: m.FetchRequest = call.request
    broker = call.node.broker
    sessions = broker.fetch_sessions
    if request.isolation_level not in {READ_UNCOMMITTED, READ_COMMITTED}:
        call.respond(_unknown_isolation_level(request, call.api_version))
        return
    try:
        plan = sessions.plan(request, call.api_version, broker.clock())
    except ApiError as error:
        call.respond(m.FetchResponse(error_code=error.code))
        return
    reader = _Reader(call, request, plan)
    size_bytes = reader.read()
    min_bytes = min(request.min_bytes, reader.max_bytes)
    if (
        reader.has_failed
        or size_bytes >= min_bytes
        or request.max_wait_ms <= 0
        or not reader.partitions
    ):
        call.respond(reader.response())
        return

    def finished() -> None:
        try:
            reader.read()
            response = reader.response()
        except Exception:
            # Other waiting fetches complete in the same call, so the exception must not
            # propagate.
            _LOGGER.exception("a delayed fetch failed: a bug")
            call.close()
            return
        call.respond(response)

    poll = Poll(
        reader.partitions,
        missing_bytes=min_bytes - size_bytes,
        committed=request.isolation_level == READ_COMMITTED,
        finished=finished,
    )
    # A poll is not cancelled when its client disconnects, so its wait is bounded.
    idle_ms = broker.settings.connections_max_idle_ms
    wait_ms = min(request.max_wait_ms, idle_ms if idle_ms > 0 else _WAIT_MAX_MS)
    poll.start(broker.data.scheduler, wait_ms)
    call.wait(poll.finish)


def _unknown_isolation_level(
    request: m.FetchRequest, api_version: int
) -> m.FetchResponse:
    """Return the response that Kafka has for a bug: it fails to find the level."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    if api_version >= _TOPIC_IDS_SINCE:
        return m.FetchResponse(error_code=code)
    return m.FetchResponse(
        error_code=code if api_version >= _SESSIONS_SINCE else ErrorCode.NONE,
        responses=[
            m.FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    m.PartitionData(
                        partition_index=part.partition,
                        error_code=code,
                        high_watermark=-1,
                        records=b"",
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _quota_bytes(call: Call) -> int | None:
    """Return the largest size of a response that the client's quota does not throttle
    by itself; None without a quota."""
    broker = call.node.broker
    if not broker.catalog.client_quotas.has_client_quotas:
        return None
    name, now_ms = call.principal.name, broker.clock()
    limit = broker.quotas.limits(name, call.client_id, now_ms).fetch
    return None if limit is None else int(min(limit.largest, INT32_MAX))


class _PartitionResult:
    """The result of reading one partition."""

    __slots__ = ("cached", "data", "empty_read", "key")
    data: m.PartitionData

    def __init__(self, key: PartitionKey, cached: SessionPartition) -> None:
        self.key = key
        self.cached = cached
        self.empty_read: EmptyRead | None = None


class _Reader:
    """The reader of one request's partitions, which also builds the response.

    A request that waits is read a second time when it completes.
    """

    def __init__(self, call: Call, request: m.FetchRequest, plan: FetchPlan) -> None:
        self._call = call
        self._request = request
        self._plan = plan
        self._committed = request.isolation_level == READ_COMMITTED
        self._readable = plan.partitions
        self._refused: list[_PartitionResult] | None = None
        """The partitions that are not read; None before the first read."""
        self._results: list[_PartitionResult] = []
        self._endpoints: dict[int, m.NodeEndpoint] = {}
        self._left_bytes = 0
        limit = call.node.broker.catalog.settings.fetch_max_bytes
        quota_bytes = _quota_bytes(call)
        self._has_quota = quota_bytes is not None
        self.max_bytes = min(request.max_bytes, limit, quota_bytes or INT32_MAX)
        """The largest size of the records in the response."""
        self.partitions: list[Partition] = []
        self.has_failed = False

    def read(self) -> int:
        """Read every partition; return the size of all records in bytes."""
        self._left_bytes = self.max_bytes
        acls_version = self._call.node.broker.authorizer.version
        self._results = []
        self.partitions = []
        readable: list[tuple[PartitionKey, SessionPartition]] = []
        refused: list[_PartitionResult] = []
        size_bytes = 0
        for key, cached in self._readable:
            if cached.empty_read is not None and cached.empty_read.is_current(
                self._committed, acls_version
            ):
                readable.append((key, cached))
                self.partitions.append(cached.empty_read.partition)
                continue
            result = _PartitionResult(key, cached)
            if self._refused is None and self._is_refused(result):
                refused.append(result)
                continue
            readable.append((key, cached))
            self._read_partition(result, is_first=size_bytes == 0)
            size = len(result.data.records or b"")
            self._left_bytes = max(self._left_bytes - size, 0)
            size_bytes += size
            self._results.append(result)
        if self._refused is None:
            self._readable, self._refused = readable, refused
        return size_bytes

    def response(self) -> m.FetchResponse:
        """Return the response with the result of the last `read`.

        A throttled client gets an empty response, and its fetch session does not
        change; a new session is not created.
        """
        plan, call = self._plan, self._call
        everything = [*self._results, *(self._refused or ())]
        results = [(result.key, result.data) for result in everything]
        included = [(key, data) for key, data in results if plan.includes(key, data)]
        response = self._response(included)
        if call.node.broker.catalog.client_quotas.has_client_quotas:
            size = 0
            if self._has_quota:
                size = SIZE_BYTES + len(encode(response, call.api_version))
            throttle_ms = call.peer.fetch_throttle_ms(call.client_id, size)
            if throttle_ms:
                call.node.broker.fetch_sessions.discard_new(plan)
                return m.FetchResponse(
                    throttle_time_ms=throttle_ms, session_id=plan.session_id
                )
        plan.store(included)
        for result in everything:
            result.cached.empty_read = result.empty_read
        return response

    def _response(
        self, included: Iterable[tuple[PartitionKey, m.PartitionData]]
    ) -> m.FetchResponse:
        topics: list[m.FetchableTopicResponse] = []
        for key, data in included:
            last = topics[-1] if topics else None
            if last is None or (last.topic, last.topic_id) != key[:2]:
                last = m.FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id)
                topics.append(last)
            last.partitions.append(data)
        return m.FetchResponse(
            session_id=self._plan.session_id,
            responses=topics,
            node_endpoints=list(self._endpoints.values()),
        )

    def _is_refused(self, result: _PartitionResult) -> bool:
        """Find the topic's name; return whether the partition may not be read, with the
        error in the result."""
        key, cached = result.key, result.cached
        data = self._call.node.broker.data
        if self._call.api_version < _TOPIC_IDS_SINCE:
            cached.topic = key.topic
        elif cached.topic is None:
            cached.topic = data.catalog.topic_name(key.topic_id)
        if cached.topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not self._call.authorize_topic(Operation.READ, cached.topic):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif data.partition(cached.topic, key.partition) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            return False
        result.data = self._error(key.partition, code)
        result.data.aborted_transactions = []  # null only after a read, as in Kafka
        return True

    def _read_partition(self, result: _PartitionResult, *, is_first: bool) -> None:
        key, request = result.key, result.cached.request
        try:
            partition = self._find_partition(key, result.cached)
            if request.last_fetched_epoch > LEADER_EPOCH:
                # No epoch follows whose start would be the end of that one.
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            bounds = partition.bounds()
            if request.last_fetched_epoch == LEADER_EPOCH and (
                request.fetch_offset > bounds.flushed_offset
            ):
                result.data = self._diverging(partition, key.partition)
                return
            limit = min(request.partition_max_bytes, self._left_bytes)
            read = partition.read(
                request.fetch_offset,
                limit,
                committed=self._committed,
                at_least_one=is_first,
            )
            self.partitions.append(partition)
            # Clients cannot decompress zstd before v10 (KIP-110).
            if self._call.api_version < _ZSTD_SINCE and any(
                batch[_ATTRIBUTES_LOW_AT] & _CODEC_MASK == _ZSTD_BITS
                for batch in read.batches
            ):
                raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        except (ApiError, LogError) as error:
            code = ErrorCode.KAFKA_STORAGE_ERROR
            if isinstance(error, ApiError):
                code = error.code
            result.data = self._error(key.partition, code)
            self.has_failed = True
            return
        end = read.last_stable_offset if self._committed else read.bounds.flushed_offset
        if request.fetch_offset >= end:
            acls_version = self._call.node.broker.authorizer.version
            result.empty_read = EmptyRead(
                partition, partition.version, self._committed, acls_version
            )
        result.data = m.PartitionData(
            partition_index=key.partition,
            high_watermark=read.bounds.flushed_offset,
            last_stable_offset=read.last_stable_offset,
            log_start_offset=read.bounds.log_start_offset,
            aborted_transactions=None
            if read.aborted is None
            else [
                m.AbortedTransaction(
                    producer_id=transaction.producer_id,
                    first_offset=transaction.first_offset,
                )
                for transaction in read.aborted
            ],
            records=b"".join(read.batches),
        )

    def _find_partition(self, key: PartitionKey, cached: SessionPartition) -> Partition:
        name = cached.topic
        assert name is not None
        # The first read was authorized; one after a wait is authorized again.
        if self._refused is not None and not self._call.authorize_topic(
            Operation.READ, name
        ):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if self._call.api_version >= _TOPIC_IDS_SINCE:
            topic = self._call.node.broker.catalog.topics.get(name)
            if topic is not None and topic.topic_id != key.topic_id:
                raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        # Fetch has no epoch below 0 (FetchRequest.optionalEpoch), other requests have.
        epoch = max(cached.request.current_leader_epoch, NO_EPOCH)
        return find_partition(self._call, name, key.partition, epoch)

    def _diverging(self, partition: Partition, index: int) -> m.PartitionData:
        """Return the result for an offset beyond the end of the client's last fetched
        epoch: the end of that epoch (KIP-595)."""
        self.has_failed = True
        bounds = partition.bounds()
        return m.PartitionData(
            partition_index=index,
            high_watermark=bounds.flushed_offset,
            last_stable_offset=partition.last_stable_offset(),
            log_start_offset=bounds.log_start_offset,
            diverging_epoch=m.DivergingEpoch(
                epoch=LEADER_EPOCH, end_offset=bounds.flushed_offset
            ),
            aborted_transactions=None,
            records=b"",
        )

    def _error(self, index: int, code: ErrorCode) -> m.PartitionData:
        result = m.PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
        version = self._call.api_version
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _LEADER_HINTS_SINCE:
            leader = leader_of(self._call, index)
            result.current_leader = m.LeaderIdAndEpoch(
                leader_id=leader.node_id, leader_epoch=LEADER_EPOCH
            )
            if version >= _ENDPOINTS_SINCE:
                self._endpoints[leader.node_id] = m.NodeEndpoint(
                    node_id=leader.node_id, host=leader.host, port=leader.port
                )
        return result
