"""Incremental fetch sessions (KIP-227): a request lists only the partitions that
changed since the previous one.

A session stores the last response for each partition, so that a response holds only the
partitions that changed. The cache is bounded as in Kafka: when it is full and no
session is idle, a client gets session id 0 and lists all its partitions in every
request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coterie.broker.runtime.partitions import Partition
from coterie.errors import ApiError
from coterie.types import TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
IDLE_BEFORE_EVICTION_MS: Final = 120_000
"""Kafka's default of `min.incremental.fetch.session.eviction.ms`."""
_EPOCH_MAX: Final = 2**31 - 1
_TOPIC_IDS_SINCE: Final = 13


class PartitionKey(NamedTuple):
    """A partition in a fetch request, by topic name before v13 and by topic id
    since."""

    topic: TopicName
    topic_id: TopicId
    partition: int


class EmptyRead(NamedTuple):
    """A read that returned nothing new, and the versions it depends on."""

    partition: Partition
    version: int
    committed: bool
    acls_version: int

    def is_current(self, committed: bool, acls_version: int) -> bool:
        """Return whether a new read would also return nothing."""
        return (
            self.version == self.partition.version
            and committed == self.committed
            and acls_version == self.acls_version
        )


@dataclass(slots=True)
class SessionPartition:
    """A partition of a session: the request for it, and the last response.

    `topic` is the name that a topic id had when it was first known. A session keeps it,
    as in Kafka, when the topic is deleted or created again with another id.

    While `empty_read` is current the partition is not read again, so that a session of
    thousands of partitions costs only as much as the active ones.
    """

    request: m.FetchPartition
    topic: TopicName | None = None
    response: tuple[int, int, int, int] | None = None
    empty_read: EmptyRead | None = None


@dataclass(slots=True)
class FetchSession:
    """The fetch session of one client.

    Partitions that returned records move to the end, so that every partition is served
    when responses are full.
    """

    session_id: int
    uses_ids: bool
    used_ms: int
    epoch: int = INITIAL_EPOCH + 1
    partitions: dict[PartitionKey, SessionPartition] = field(default_factory=dict)


@dataclass(slots=True)
class FetchPlan:
    """The partitions of one request, in order."""

    partitions: list[tuple[PartitionKey, SessionPartition]]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        """The session id of the response."""
        return NO_SESSION if self.session is None else self.session.session_id

    def includes(self, key: PartitionKey, data: m.PartitionData) -> bool:
        """Return whether a partition's result belongs in the response."""
        if self.session is None:
            return True
        cached = self.session.partitions.get(key)
        assert self.session.session_id != NO_SESSION
        if cached is None:  # removed by a later request while this one waited
            return True
        return not self.is_incremental or _has_changed(cached, data)

    def store(self, results: Iterable[tuple[PartitionKey, m.PartitionData]]) -> None:
        """Store the response in the session."""
        if self.session is None:
            return
        partitions = self.session.partitions
        for key, data in results:
            cached = partitions.get(key)
            if cached is None:
                continue
            cached.response = _digest(data)
            if data.records:
                del partitions[key]
                partitions[key] = cached


class FetchSessions:
    """The sessions of one process, least recently used first.

    There are at most `slots`, with `partitions_max` partitions in all.
    """

    def __init__(
        self, slots: int, partitions_max: int, fresh_id: Callable[[], int]
    ) -> None:
        assert slots >= 0
        assert partitions_max >= 0
        self._slots = slots
        self._partitions_max = partitions_max
        self._partition_count = 0
        self._fresh_id = fresh_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: m.FetchRequest, api_version: int, now_ms: int) -> FetchPlan:
        """Return the partitions of a request, from its session if it has one.

        Raises ApiError FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            if request.session_id != NO_SESSION:
                self._remove(request.session_id)
            return self._full_plan(request, api_version, now_ms)
        return self._incremental_plan(request, api_version, now_ms)

    def requested(self, request: m.FetchRequest) -> list[PartitionKey]:
        """Return the partitions that a request reads: its own, and those of its
        session that it does not forget. Nothing changes."""
        keys = dict.fromkeys(key for key, _ in _requested(request))
        if request.session_epoch not in {INITIAL_EPOCH, FINAL_EPOCH}:
            session = self._sessions.get(request.session_id)
            if session is not None:
                keys = dict.fromkeys(session.partitions) | keys
                for key in _forgotten(request):
                    keys.pop(key, None)
        return list(keys)

    def discard_new(self, plan: FetchPlan) -> None:
        """Remove the session that a plan created, before its id was sent."""
        if plan.session is not None and not plan.is_incremental:
            self._remove(plan.session.session_id)
            plan.session = None

    def _full_plan(
        self, request: m.FetchRequest, api_version: int, now_ms: int
    ) -> FetchPlan:
        # The last occurrence of a partition counts, as in Kafka's FetchRequest.
        requested = dict(_requested(request))
        partitions = [
            (key, SessionPartition(partition)) for key, partition in requested.items()
        ]
        if request.session_epoch == FINAL_EPOCH or not partitions:
            return FetchPlan(partitions)
        if not self._has_room(len(partitions), now_ms):
            return FetchPlan(partitions)
        session_id = self._fresh_id()
        while session_id <= NO_SESSION or session_id in self._sessions:
            session_id = self._fresh_id()
        session = FetchSession(session_id, api_version >= _TOPIC_IDS_SINCE, now_ms)
        session.partitions = dict(partitions)
        self._sessions[session_id] = session
        self._partition_count += len(partitions)
        assert len(self._sessions) <= self._slots
        return FetchPlan(partitions, session)

    def _incremental_plan(
        self, request: m.FetchRequest, api_version: int, now_ms: int
    ) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != (api_version >= _TOPIC_IDS_SINCE):
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._partition_count -= len(session.partitions)
        _update(session, request)
        self._partition_count += len(session.partitions)
        if self._partition_count > self._partitions_max:
            # The client lists all its partitions again, without a session.
            self._remove(session.session_id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        assert session.epoch > INITIAL_EPOCH
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        partitions = list(session.partitions.items())
        assert session.epoch != INITIAL_EPOCH
        if not partitions:
            del self._sessions[session.session_id]
            return FetchPlan(partitions)
        return FetchPlan(partitions, session, is_incremental=True)

    def _has_room(self, partition_count: int, now_ms: int) -> bool:
        """Return whether a session fits, after removing idle sessions if need be."""
        if not self._slots or partition_count > self._partitions_max:
            return False
        while (
            len(self._sessions) >= self._slots
            or self._partition_count + partition_count > self._partitions_max
        ):
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.used_ms < IDLE_BEFORE_EVICTION_MS:
                return False
            self._remove(oldest.session_id)
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)
            assert self._partition_count >= 0


def _requested(
    request: m.FetchRequest,
) -> Iterable[tuple[PartitionKey, m.FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            key = PartitionKey(topic.topic, topic.topic_id, partition.partition)
            yield key, partition


def _update(session: FetchSession, request: m.FetchRequest) -> None:
    for key, partition in _requested(request):
        cached = session.partitions.get(key)
        if cached is None:
            session.partitions[key] = SessionPartition(partition)
        else:
            cached.request, cached.empty_read = partition, None
    for key in _forgotten(request):
        session.partitions.pop(key, None)


def _forgotten(request: m.FetchRequest) -> Iterable[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield PartitionKey(topic.topic, topic.topic_id, index)


def _digest(data: m.PartitionData) -> tuple[int, int, int, int]:
    return (
        data.error_code,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
    )


def _has_changed(cached: SessionPartition, data: m.PartitionData) -> bool:
    """Return whether a result has records, an error, or other offsets than the last.

    An error is always repeated, since the client acts on it.
    """
    if data.records or data.error_code != ErrorCode.NONE:
        return True
    return cached.response != _digest(data)
