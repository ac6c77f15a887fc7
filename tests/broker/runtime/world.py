"""A runtime without a server: a loop that tests run step by step, a log in memory."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.broker.coordinator.assignors.registry import configured
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.broker.coordinator.result import CoordinatorEnvironment, TopicView
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.loader import Loader
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.shards import CoordinatorPartition, Phase
from coterie.broker.runtime.snapshots import Snapshots
from coterie.broker.runtime.system import (
    Timekeeping,
    random_member_suffix,
    random_uuid,
)
from coterie.errors import LogError
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.commit import CommitResponse, as_received
from tests.broker.coordinator.driver import Topics, fetched_group

TOPIC_ID = b"offsets-topic-id"


@dataclass
class Alarm:
    at_ms: int
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """An event loop with a clock in ms that runs only in `turn`, `settle` and
    `advance`."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000_000
        self._soon: deque[Callable[[], object]] = deque()
        self._later: list[tuple[int, int, Alarm]] = []
        self._order = count()

    def clock(self) -> int:
        return self.now_ms

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._soon.append(lambda: callback(*args))

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any
    ) -> Alarm:
        at_ms = self.now_ms + round(delay * 1000)
        alarm = Alarm(at_ms, lambda: (callback(*args), None)[1])
        heapq.heappush(self._later, (at_ms, next(self._order), alarm))
        return alarm

    def turn(self) -> None:
        """Run the callbacks that are ready now, not those they schedule."""
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def settle(self) -> None:
        """Run callbacks until none is ready."""
        for _ in range(10_000):
            if not self._soon:
                return
            self.turn()
        raise AssertionError("the loop never comes to rest")

    def advance(self, seconds: float) -> None:
        """Advance the clock, and run timers in order."""
        self.settle()
        until_ms = self.now_ms + round(seconds * 1000)
        while self._later and self._later[0][0] <= until_ms:
            at_ms, _, alarm = heapq.heappop(self._later)
            self.now_ms = max(self.now_ms, at_ms)
            if not alarm.is_cancelled:
                alarm.callback()
                self.settle()
        self.now_ms = until_ms

    @property
    def alarms(self) -> int:
        return sum(not alarm.is_cancelled for _, _, alarm in self._later)


class Caller(NamedTuple):
    api_version: int = 8
    client_id: str = "client"
    client_host: str = "/127.0.0.1"

    def may_describe(self, topic: str) -> bool:
        return True


@dataclass
class World:
    """A runtime over a log in memory; writes raise `disk_fails` if it is set."""

    log: MemoryLog = field(default_factory=MemoryLog)
    shard_count: int = 4
    loop: Loop = field(default_factory=Loop)
    settings: Settings = field(default_factory=Settings)
    topics: TopicView = field(default_factory=lambda: Topics({"t": 10}))
    disk_fails: LogError | None = None
    grown: list[tuple[LogPartition, int]] = field(default_factory=list)
    starts: bool = True

    def __post_init__(self) -> None:
        self.log.before_write = self._before_write
        self.writes = 0
        self.clock = self.loop.clock
        self.flusher = Flusher(self.log, self.loop, threaded=False)
        self.snapshots = Snapshots(self.log)
        self.loader = Loader(self.log, self.flusher, self.snapshots, self.loop)
        self.runtime = Runtime(
            CoordinatorEnvironment(
                self.settings,
                topics=self.topics,
                configs=GroupConfigs(self.settings),
                assignors=configured(self.settings.group_consumer_assignors),
                new_id=random_member_suffix,
                new_uuid=random_uuid,
            ),
            scheduler=self.loop,
            timekeeping=Timekeeping(self.clock, self.clock, self.loop, self.loop),
        )
        self.runtime.make_shard = self.make_shard
        self.runtime.on_growth(lambda *grown: self.grown.append(grown))
        if self.starts:
            self.start()
            self.loop.settle()

    def start(self) -> None:
        for index in range(self.shard_count):
            log_partition = LogPartition(TOPIC_ID, index)
            if log_partition not in self.log.partitions():
                self.log.create(log_partition)
        self.flusher.flush()
        self.runtime.start(self.shard_count)
        for index in range(self.shard_count):
            self.runtime.assign(index, self.loader.store(LogPartition(TOPIC_ID, index)))

    def reopened(self, **changes: Any) -> World:
        """Return a new world with the flushed data only, as after SIGKILL."""
        return World(
            log=self.log.reopen(),
            loop=self.loop,
            shard_count=self.shard_count,
            settings=self.settings,
            **changes,
        )

    def make_shard(self) -> Shard:
        return Shard(self.settings)

    def _before_write(self) -> None:
        self.writes += 1
        if self.disk_fails is not None:
            raise self.disk_fails

    # Requests of tests.

    def submit(self, request: Any, group_id: str, version: int = 8) -> list[Any]:
        """Submit a request to the group's shard; return the list of its responses.

        A commit is submitted as the connection decodes it.
        """
        answers: list[Any] = []
        shard = self.runtime.shard_of(group_id)
        request = as_received(request, version)

        def respond(answer: Any) -> None:
            if isinstance(answer, CommitResponse):
                answer = answer.message()
            elif isinstance(answer, m.OffsetFetchResponseGroup):
                answer = fetched_group(answer)
            answers.append(answer)

        self.runtime.submit(shard, request, Caller(version), respond)
        return answers

    def call(self, request: Any, group_id: str, version: int = 8) -> Any:
        """Submit a request, settle the loop and return the response."""
        answers = self.submit(request, group_id, version)
        self.loop.settle()
        (answer,) = answers
        return answer

    def partition(self, group_id: str) -> CoordinatorPartition:
        return self.runtime.shards[self.runtime.shard_of(group_id)]

    @property
    def phases(self) -> set[Phase]:
        return {partition.phase for partition in self.runtime.shards}

    def offset(self, group_id: str, partition: int = 0) -> int:
        """Fetch the committed offset of a group as a client does."""
        answer = self.call(fetch_request(group_id, partition), group_id, 5)
        assert answer.error_code == 0, answer
        committed: int = answer.topics[0].partitions[0].committed_offset
        return committed


def commit_request(
    group_id: str, offset: int, partition: int = 0, metadata: str = ""
) -> m.OffsetCommitRequest:
    part = m.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[part])
    return m.OffsetCommitRequest(group_id=group_id, topics=[topic])


def txn_commit_request(
    group_id: str, offset: int, producer_id: int = 7
) -> m.TxnOffsetCommitRequest:
    part = m.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = m.TxnOffsetCommitRequestTopic(name="t", partitions=[part])
    return m.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=0,
        topics=[topic],
    )


def fetch_request(group_id: str, partition: int = 0) -> FetchOffsets:
    topic = m.OffsetFetchRequestTopics(name="t", partition_indexes=[partition])
    return FetchOffsets(m.OffsetFetchRequestGroup(group_id=group_id, topics=[topic]))


def heartbeat_request(group_id: str, member_id: str = "m") -> m.HeartbeatRequest:
    return m.HeartbeatRequest(group_id=group_id, generation_id=1, member_id=member_id)


def commit_error(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code


def join_request(group_id: str) -> m.JoinGroupRequest:
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")
    return m.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


def consumer_join(
    member_id: str, group_id: str = "g"
) -> m.ConsumerGroupHeartbeatRequest:
    return m.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
