"""Incremental fetch sessions (KIP-227): a consumer names its partitions once.

A session remembers what each partition was last answered with, and an answer holds only
what changed. The cache is bounded: when it is full and nobody has been idle for long, a
client gets session id 0 and goes on naming everything, as in Kafka.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coterie.errors import ApiError
from coterie.runtime.partitions import Partition
from coterie.types import TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
IDLE_BEFORE_EVICTION_MS: Final = 120_000
"""Kafka's default of `min.incremental.fetch.session.eviction.ms`."""
_EPOCH_MAX: Final = 2**31 - 1
_TOPIC_IDS_SINCE: Final = 13


class PartitionKey(NamedTuple):
    """A partition as the client names it: by topic name before v13, by id since."""

    topic: TopicName
    topic_id: TopicId
    partition: int


class Quiet(NamedTuple):
    """A partition that had nothing more for the client when it was looked at, by the
    rules of who may read it that held then."""

    partition: Partition
    version: int
    committed: bool
    rules: int

    def holds(self, committed: bool, rules: int) -> bool:
        """Whether nothing has happened to it since, and to the rules."""
        return (
            self.version == self.partition.version
            and committed == self.committed
            and rules == self.rules
        )


@dataclass(slots=True)
class Asked:
    """What the client asked of a partition and what it was last told.

    While `quiet` holds there is no need to look at the partition: a session of
    thousands of partitions costs what the few of them cost where something happens.
    """

    wanted: FetchPartition
    told: tuple[int, int, int, int] | None = None
    quiet: Quiet | None = None


@dataclass(slots=True)
class FetchSession:
    """One client's session. Partitions that returned records move to the end, so that
    each gets its turn when an answer is full."""

    session_id: int
    uses_ids: bool
    used_ms: int
    epoch: int = INITIAL_EPOCH + 1
    partitions: dict[PartitionKey, Asked] = field(default_factory=dict)


@dataclass(slots=True)
class FetchPlan:
    """What one request wants, in order. Without a session everything is answered."""

    wanted: list[tuple[PartitionKey, Asked]]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        """The session id of the answer."""
        return NO_SESSION if self.session is None else self.session.session_id

    def shows(self, key: PartitionKey, data: PartitionData) -> bool:
        """Whether a partition's result has to be in the answer."""
        if self.session is None:
            return True
        cached = self.session.partitions.get(key)
        assert self.session.session_id != NO_SESSION
        if cached is None:  # forgotten by a later request while this one waited
            return True
        return not self.is_incremental or _is_news(cached, data)

    def answered(self, results: Iterable[tuple[PartitionKey, PartitionData]]) -> None:
        """The session remembers what the answer says."""
        if self.session is None:
            return
        partitions = self.session.partitions
        for key, data in results:
            cached = partitions.get(key)
            if cached is None:
                continue
            cached.told = _digest(data)
            if data.records:
                del partitions[key]
                partitions[key] = cached


class FetchSessions:
    """The sessions of one process, least recently used first."""

    def __init__(self, slots: int, fresh_id: Callable[[], int]) -> None:
        assert slots >= 0
        self._slots = slots
        self._fresh_id = fresh_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, api_version: int, now_ms: int) -> FetchPlan:
        """What a request wants, by its session if it has one.

        Raises ApiError FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            if request.session_id != NO_SESSION:
                self._sessions.pop(request.session_id, None)
            return self._plan_full(request, api_version, now_ms)
        return self._plan_incremental(request, api_version, now_ms)

    def _plan_full(
        self, request: FetchRequest, api_version: int, now_ms: int
    ) -> FetchPlan:
        wanted = [(key, Asked(partition)) for key, partition in _named(request)]
        if request.session_epoch == FINAL_EPOCH or not wanted:
            return FetchPlan(wanted)
        if not self._has_room(now_ms):
            return FetchPlan(wanted)
        session_id = self._fresh_id()
        while session_id <= NO_SESSION or session_id in self._sessions:
            session_id = self._fresh_id()
        session = FetchSession(session_id, api_version >= _TOPIC_IDS_SINCE, now_ms)
        session.partitions = dict(wanted)
        self._sessions[session_id] = session
        assert len(self._sessions) <= self._slots
        return FetchPlan(wanted, session)

    def _plan_incremental(
        self, request: FetchRequest, api_version: int, now_ms: int
    ) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != (api_version >= _TOPIC_IDS_SINCE):
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        _update(session, request)
        assert session.epoch > INITIAL_EPOCH
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        wanted = list(session.partitions.items())
        assert session.epoch != INITIAL_EPOCH
        if not wanted:
            del self._sessions[session.session_id]
            return FetchPlan(wanted)
        return FetchPlan(wanted, session, is_incremental=True)

    def _has_room(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        assert len(self._sessions) == self._slots
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms < IDLE_BEFORE_EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
        return True


def _named(request: FetchRequest) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            key = PartitionKey(topic.topic, topic.topic_id, partition.partition)
            yield key, partition


def _update(session: FetchSession, request: FetchRequest) -> None:
    for key, partition in _named(request):
        cached = session.partitions.get(key)
        if cached is None:
            session.partitions[key] = Asked(partition)
        else:
            cached.wanted, cached.quiet = partition, None
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            key = PartitionKey(forgotten.topic, forgotten.topic_id, index)
            session.partitions.pop(key, None)


def _digest(data: PartitionData) -> tuple[int, int, int, int]:
    return (
        data.error_code,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
    )


def _is_news(cached: Asked, data: PartitionData) -> bool:
    """Records, an error, or offsets that moved. An error is always told again, since
    the client's next step depends on it."""
    if data.records or data.error_code != ErrorCode.NONE:
        return True
    return cached.told != _digest(data)
