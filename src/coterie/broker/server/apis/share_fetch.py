"""ShareFetch, key 78: versions 1-2.

The acknowledgements of a request are applied first. Then its session is fetched: the
response is sent when enough bytes can be acquired, when a partition has an error, or
after `max_wait_ms`; and when the acknowledgements are durable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from coterie.auth.acl import Operation
from coterie.broker.catalog.producer_state import AbortedTransaction
from coterie.broker.coordinator.share_partition.acquire import (
    Acquired,
    Acquisition,
    OffsetRange,
    acquire,
    archive_aborted,
)
from coterie.broker.coordinator.share_partition.partition import SharePartition
from coterie.broker.coordinator.share_partition.state import ShareKey
from coterie.broker.runtime.partitions import Partition, Poll, ReadResult
from coterie.broker.runtime.share_partitions import OpenFailure
from coterie.broker.runtime.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionId,
    SessionKey,
    ShareSession,
    ShareSessionPartition,
)
from coterie.broker.server.apis.routing import find_partition
from coterie.broker.server.apis.share_acknowledge import (
    LeaderHints,
    Outcomes,
    acknowledge_all,
    batches_of,
    check_member,
)
from coterie.broker.server.call import Call
from coterie.errors import ApiError, LogError
from coterie.wire import messages as m
from coterie.wire.codec import encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import SIZE_BYTES
from coterie.wire.record_batch import decode_marker, decode_records, read_header

_LOGGER = logging.getLogger(__name__)
_WAIT_MAX_MS: Final = 600_000
"""The longest wait where connections have no idle limit."""
BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1
READ_COMMITTED: Final = "read_committed"


def share_fetch(call: Call) -> None:
    """Acknowledge and acquire records. Requires READ on the group and on each
    topic."""
    request: m.ShareFetchRequest = call.request
    try:
        key = check_member(call, request.group_id, request.member_id)
        _check_request(request)
        session = _session(call, key)
    except ApiError as error:
        response = m.ShareFetchResponse(error_code=error.code)
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            # A client tries again at once.
            delay_s = _wait_ms(call) / 1000
            call.node.broker.data.scheduler.call_later(
                delay_s, lambda: call.respond(response)
            )
        else:
            call.respond(response)
        return
    _ShareFetch(call, key, session).start()


def _check_request(request: m.ShareFetchRequest) -> None:
    """Raise ApiError INVALID_REQUEST for a renewal that also fetches, for
    acknowledgements without a session, and for an unknown acquire mode."""
    if request.is_renew_ack and (
        request.max_bytes
        or request.min_bytes
        or request.max_records
        or request.max_wait_ms
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if request.share_session_epoch == INITIAL_EPOCH and any(
        part.acknowledgement_batches
        for topic in request.topics
        for part in topic.partitions
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if request.share_acquire_mode not in {BATCH_OPTIMIZED, RECORD_LIMIT}:
        raise ApiError(ErrorCode.INVALID_REQUEST)


def _session(call: Call, key: SessionKey) -> ShareSession:
    """Return the session of a request, with the request's changes."""
    request: m.ShareFetchRequest = call.request
    sessions = call.node.broker.share_sessions
    topic_name = call.node.broker.catalog.topic_name
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        session = sessions.open(key, call.peer)
    else:
        session = sessions.advance(key, epoch)
    if epoch != FINAL_EPOCH:
        added = {
            PartitionId(topic.topic_id, part.partition_index): topic_name(
                topic.topic_id
            )
            for topic in request.topics
            for part in topic.partitions
        }
        forgotten = [
            PartitionId(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        sessions.update(session, added, forgotten)
    return session


def _wait_ms(call: Call) -> int:
    # A wait does not end when its client disconnects, so it is bounded.
    idle_ms = call.node.broker.settings.connections_max_idle_ms
    limit = idle_ms if idle_ms > 0 else _WAIT_MAX_MS
    wait_ms: int = call.request.max_wait_ms
    return max(0, min(wait_ms, limit))


class _Readable(NamedTuple):
    """A share partition of which records can be acquired now."""

    partition: PartitionId
    share: SharePartition
    source: Partition
    fetch_offset: int


class _ShareFetch:
    """A request, from its acknowledgements to the response."""

    def __init__(self, call: Call, key: SessionKey, session: ShareSession) -> None:
        self._call = call
        self._request: m.ShareFetchRequest = call.request
        self._key = key
        self._session = session
        self._shares = call.node.broker.share_partitions
        self._committed = (
            self._shares.configs(key.group_id).isolation_level == READ_COMMITTED
        )
        settings = call.node.broker.catalog.settings
        self._max_bytes = min(self._request.max_bytes, settings.fetch_max_bytes)
        self._min_bytes = min(self._request.min_bytes, self._max_bytes)
        self._ends_ms = 0
        self._entries: list[tuple[PartitionId, ShareSessionPartition]] = []
        self._errors: dict[PartitionId, ErrorCode] = {}
        self._sources: list[Partition] = []
        self._poll: Poll | None = None
        self._reads: dict[PartitionId, ReadResult] = {}
        self._is_evaluating = False
        self._is_session_moved = False
        self._fetched: dict[PartitionId, m.ShareFetchedPartition] | None = None
        self._outcomes: Outcomes | None = None

    def start(self) -> None:
        """Apply the acknowledgements, then fetch."""
        call, request = self._call, self._request
        epoch = request.share_session_epoch
        batches = batches_of(
            (
                PartitionId(topic.topic_id, part.partition_index),
                part.acknowledgement_batches,
            )
            for topic in request.topics
            for part in topic.partitions
            if part.acknowledgement_batches
        )
        acknowledge_all(
            call,
            self._key,
            batches,
            is_renew=request.is_renew_ack,
            done=self._acknowledged,
        )
        fetches = request.max_records > 0 and self._max_bytes > 0
        if epoch == FINAL_EPOCH:
            call.node.broker.share_sessions.close(self._session)
            self._complete({})
        elif request.is_renew_ack or not fetches or not self._session.partitions:
            self._complete({})
        else:
            self._begin_fetch()

    # Waiting.

    def _begin_fetch(self) -> None:
        entries = list(self._session.partitions.items())
        at = self._request.share_session_epoch % len(entries)
        self._entries = entries[at:] + entries[:at]
        wait_ms = _wait_ms(self._call)
        self._ends_ms = self._call.node.broker.clock() + wait_ms
        for partition, _ in self._entries:
            self._shares.watch(ShareKey(self._key.group_id, *partition), self._wake)
        self._evaluate(is_last=wait_ms <= 0)
        if self._fetched is None:
            self._call.wait(self._end_wait)

    def _end_wait(self) -> None:
        if self._fetched is None:
            self._evaluate(is_last=True)

    def _wake(self) -> None:
        """Evaluate again, as records may be acquired now."""
        if self._poll is not None:
            self._poll.finish()

    def _evaluate(self, *, is_last: bool) -> None:
        """Complete the fetch if it need not wait any more; wait otherwise."""
        if self._is_evaluating:
            return
        self._is_evaluating = True
        try:
            readable = self._readable()
            has_enough = self._has_enough(readable)
            if is_last or self._errors or has_enough:
                self._finish_fetch(readable)
            else:
                self._wait()
        except Exception:
            # Other fetches are woken by the same call, so the exception must not
            # propagate.
            _LOGGER.exception("a share fetch failed: a bug")
            self._unwatch()
            self._call.close()
        finally:
            self._is_evaluating = False

    def _wait(self) -> None:
        broker = self._call.node.broker
        left_ms = max(0, self._ends_ms - broker.clock())

        def finished() -> None:
            self._poll = None
            self._evaluate(is_last=broker.clock() >= self._ends_ms)

        poll = Poll(self._sources, missing_bytes=1, committed=False, finished=finished)
        self._poll = poll
        poll.start(broker.data.scheduler, left_ms)

    def _readable(self) -> list[_Readable]:
        """Return the share partitions with records to acquire; note errors."""
        group_id = self._key.group_id
        limits = self._shares.limits(group_id)
        readable: list[_Readable] = []
        self._errors, self._sources, self._reads = {}, [], {}
        for partition, entry in self._entries:
            try:
                source = self._source(partition, entry)
            except ApiError as error:
                self._errors[partition] = error.code
                continue
            self._sources.append(source)
            share = self._shares.open(ShareKey(group_id, *partition), source)
            if isinstance(share, OpenFailure):
                self._errors[partition] = share.code
            elif share is not None:
                share.move_start(source.bounds().log_start_offset)
                if share.can_acquire(limits):
                    offset = share.next_fetch_offset()
                    readable.append(_Readable(partition, share, source, offset))
        return readable

    def _source(
        self, partition: PartitionId, entry: ShareSessionPartition
    ) -> Partition:
        """Return the partition to read. Raises ApiError."""
        call = self._call
        if entry.topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not call.authorize_topic(Operation.READ, entry.topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        name = call.node.broker.catalog.topic_name(partition.topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return find_partition(call, name, partition.partition)

    def _has_enough(self, readable: Sequence[_Readable]) -> bool:
        """Return whether `min_bytes` can be read, and at least one record."""
        missing = max(self._min_bytes, 1)
        for each in readable:
            read = self._read(each, len(readable))
            missing -= sum(map(len, read.batches))
            if missing <= 0:
                return True
        return False

    def _read(self, each: _Readable, count: int) -> ReadResult:
        """Read a share of `max_bytes`, once for each evaluation; note an error."""
        known = self._reads.get(each.partition)
        if known is not None:
            return known
        read = ReadResult((), each.source.bounds(), 0, None)
        try:
            read = each.source.read(
                each.fetch_offset,
                self._max_bytes // count,
                committed=self._committed,
                at_least_one=True,
            )
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                self._errors[each.partition] = error.code
        except LogError:
            self._errors[each.partition] = ErrorCode.KAFKA_STORAGE_ERROR
        self._reads[each.partition] = read
        return read

    # The result.

    def _finish_fetch(self, readable: Sequence[_Readable]) -> None:
        """Acquire records of all readable share partitions."""
        self._unwatch()
        epoch = self._request.share_session_epoch
        sessions = self._call.node.broker.share_sessions
        if not sessions.is_current(self._session, epoch):
            self._complete(None)
            return
        fetched: dict[PartitionId, m.ShareFetchedPartition] = {}
        left = self._request.max_records
        for each in readable:
            if left <= 0:
                break
            read = self._read(each, len(readable))
            acquired, data = self._acquire(each, read, left)
            left -= sum(last - first + 1 for first, last, _ in acquired)
            if acquired:
                fetched[each.partition] = data
        for partition, code in self._errors.items():
            fetched[partition] = m.ShareFetchedPartition(
                partition_index=partition.partition, error_code=code
            )
        self._complete(self._included(fetched))

    def _acquire(
        self, each: _Readable, read: ReadResult, records_max: int
    ) -> tuple[list[Acquired], m.ShareFetchedPartition]:
        request = self._request
        limits = self._shares.limits(self._key.group_id)
        ranges = [_offsets_of(batch) for batch in read.batches]
        acquisition = Acquisition(
            self._key.member_id,
            records_max,
            request.batch_size,
            request.share_acquire_mode == RECORD_LIMIT,
            self._call.node.broker.data.clock(),
        )
        acquired = acquire(each.share, each.fetch_offset, ranges, acquisition, limits)
        if acquired and read.aborted:
            aborted = _aborted_ranges(read.batches, ranges, read.aborted)
            acquired = archive_aborted(each.share, acquired, aborted)
        if acquired:
            self._shares.acquired(ShareKey(self._key.group_id, *each.partition))
        return acquired, m.ShareFetchedPartition(
            partition_index=each.partition.partition,
            records=_records(read.batches, ranges, acquired),
            acquired_records=[
                m.AcquiredRecords(
                    first_offset=first, last_offset=last, delivery_count=count
                )
                for first, last, count in acquired
            ],
        )

    def _included(
        self, fetched: dict[PartitionId, m.ShareFetchedPartition]
    ) -> dict[PartitionId, m.ShareFetchedPartition]:
        """Return the results that belong in the response, in order: those with records,
        an error, or that are due."""
        included: dict[PartitionId, m.ShareFetchedPartition] = {}
        for partition, entry in self._entries:
            data = fetched.get(partition)
            if data is None and not entry.is_due:
                continue
            if data is None:
                data = m.ShareFetchedPartition(partition_index=partition.partition)
            included[partition] = data
            entry.is_due = data.error_code != ErrorCode.NONE
            if data.records:
                self._session.move_to_end(partition)
        return included

    def _unwatch(self) -> None:
        for partition, _ in self._entries:
            self._shares.unwatch(ShareKey(self._key.group_id, *partition), self._wake)

    def _acknowledged(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._respond()

    def _complete(
        self, fetched: dict[PartitionId, m.ShareFetchedPartition] | None
    ) -> None:
        """Complete the fetch; None when another request has used the session."""
        self._fetched = {} if fetched is None else fetched
        self._is_session_moved = fetched is None
        self._respond()

    def _respond(self) -> None:
        """Respond once the fetch is complete and the acknowledgements are durable."""
        if self._fetched is None or self._outcomes is None:
            return
        call = self._call
        if self._is_session_moved:
            code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
            call.respond(m.ShareFetchResponse(error_code=code))
            return
        response = self._response(self._fetched, self._outcomes)
        if call.node.broker.catalog.client_quotas.has_client_quotas:
            size = SIZE_BYTES + len(encode(response, call.api_version))
            throttle_ms = call.peer.fetch_throttle_ms(call.client_id, size)
            if throttle_ms:
                # As in Kafka the records stay locked.
                call.respond(m.ShareFetchResponse(throttle_time_ms=throttle_ms))
                return
        call.respond(response)

    def _response(
        self,
        fetched: dict[PartitionId, m.ShareFetchedPartition],
        outcomes: Outcomes,
    ) -> m.ShareFetchResponse:
        for partition, (code, message) in outcomes.items():
            data = fetched.get(partition)
            if data is None:
                data = m.ShareFetchedPartition(partition_index=partition.partition)
                fetched[partition] = data
            data.acknowledge_error_code = code
            data.acknowledge_error_message = message
        hints = LeaderHints(self._call)
        topics: dict[bytes, m.ShareFetchedTopic] = {}
        for partition, data in fetched.items():
            for each in (data.error_code, data.acknowledge_error_code):
                if each == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    data.current_leader = hints.of(partition, ErrorCode(each))
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = m.ShareFetchedTopic(topic_id=partition.topic_id)
                topics[partition.topic_id] = topic
            topic.partitions.append(data)
        configs = self._shares.configs(self._key.group_id)
        return m.ShareFetchResponse(
            acquisition_lock_timeout_ms=configs.record_lock_duration_ms,
            responses=list(topics.values()),
            node_endpoints=list(hints.endpoints.values()),
        )


_BASE_OFFSET: Final = slice(0, 8)
_LAST_OFFSET_DELTA: Final = slice(23, 27)


def _offsets_of(batch: bytes) -> OffsetRange:
    """Return the offsets of a record batch without decoding its header."""
    first = int.from_bytes(batch[_BASE_OFFSET], "big")
    return OffsetRange(first, first + int.from_bytes(batch[_LAST_OFFSET_DELTA], "big"))


def _records(
    batches: Sequence[bytes],
    ranges: Sequence[OffsetRange],
    acquired: Sequence[Acquired],
) -> bytes:
    """Return the record batches from the first acquired offset to the last one."""
    if not acquired:
        return b""
    first, last = acquired[0].first, acquired[-1].last
    return b"".join(
        batch
        for batch, offsets in zip(batches, ranges, strict=True)
        if offsets.last >= first and offsets.first <= last
    )


def _aborted_ranges(
    batches: Sequence[bytes],
    ranges: Sequence[OffsetRange],
    aborted: Iterable[AbortedTransaction],
) -> list[OffsetRange]:
    """Return the offsets of the record batches of aborted transactions."""
    starts = sorted((each.first_offset, each.producer_id) for each in aborted)
    at = 0
    open_ids: set[int] = set()
    found: list[OffsetRange] = []
    for batch, offsets in zip(batches, ranges, strict=True):
        while at < len(starts) and starts[at][0] <= offsets.last:
            open_ids.add(starts[at][1])
            at += 1
        header = read_header(batch)
        if header.producer_id not in open_ids:
            continue
        if header.is_control:
            marker = decode_marker(decode_records(batch, header)[0])
            if marker is not None and not marker.commit:
                open_ids.discard(header.producer_id)
        elif header.is_transactional:
            found.append(offsets)
    return found
