"""A data plane without a server: memory for a disk, a clock that is told the time.

`World.call` plays the server for one request: it runs the API's module and gives back
what it answered, or None while it waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from types import ModuleType
from typing import Any

from coterie.auth.authorizer import ANONYMOUS, AllowAll, Caller, Principal
from coterie.catalog.catalog import Catalog
from coterie.catalog.topics import NewTopic
from coterie.errors import LogFull
from coterie.log.memory import MemoryLog
from coterie.runtime.data import DataPlane
from coterie.runtime.fetch_sessions import FetchSessions
from coterie.runtime.flusher import Flusher
from coterie.runtime.transactions import TransactionPlane
from coterie.settings import Settings
from coterie.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from coterie.wire.record_batch import LogRecord, encode_batch


@dataclass
class FakeTimer:
    at: float
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class FakeScheduler:
    """Time in seconds, which only `advance` moves."""

    end_turn: Callable[[], None]
    now: float = 1_000_000.0
    _heap: list[tuple[float, int, FakeTimer]] = field(default_factory=list)
    _order: count[int] = field(default_factory=count)

    def call_later(self, delay: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.now + delay, callback)
        heapq.heappush(self._heap, (timer.at, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            at, _, timer = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            if not timer.is_cancelled:
                timer.callback()
                self.end_turn()
        self.now = until

    @property
    def waiting(self) -> int:
        return sum(not timer.is_cancelled for _, _, timer in self._heap)


class FakeLoop:
    """Keeps what the flusher asks for until the turn is over, or while `holds`."""

    def __init__(self) -> None:
        self.holds = False
        self._held: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._held.append(lambda: callback(*args))

    call_soon_threadsafe = call_soon

    def end_turn(self) -> None:
        if not self.holds:
            self.release()

    def release(self) -> None:
        while self._held:
            self._held.pop(0)()


class FakeGroups:
    """Remembers what shards were given, and answers `response` to requests."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, int, int, bool]] = []
        self.submitted: list[tuple[int, Any]] = []
        self.response: Any = None

    def submit(
        self, index: int, request: Any, caller: Any, answer: Callable[[Any], None]
    ) -> None:
        self.submitted.append((index, request))
        answer(self.response)

    def end_transaction(
        self, shard: int, producer_id: int, producer_epoch: int, commit: bool
    ) -> None:
        self.ended.append((shard, producer_id, producer_epoch, commit))


@dataclass
class FakeNode:
    node_id: int
    broker: Any
    host: str = "127.0.0.1"
    port: int = 9092
    rack: str | None = None
    protocol: str = "PLAINTEXT"


@dataclass
class FakeCall:
    request: Any
    api_version: int
    node: FakeNode
    principal: Principal = ANONYMOUS
    client_id: str = "test"
    client_host: str = "/127.0.0.1"
    answers: list[Any] = field(default_factory=list)
    is_closed: bool = False

    def may(self, operation: Any, resource_type: Any, name: str) -> bool:
        caller = Caller(self.principal, "127.0.0.1")
        authorizer = self.node.broker.authorizer
        return bool(authorizer.authorize(caller, operation, resource_type, name))

    def may_some(self, operation: Any, resource_type: Any) -> bool:
        return self.may(operation, resource_type, "*")

    def answer(self, response: Any) -> None:
        assert not self.answers, "answered twice"
        self.answers.append(response)

    def close(self) -> None:
        self.is_closed = True

    @property
    def response(self) -> Any:
        return self.answers[0] if self.answers else None


class World:
    """One broker's data plane; `restart` loads it again from the same log."""

    def __init__(self, *, nodes: int = 1, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.log = MemoryLog()
        self.loop = FakeLoop()
        self.scheduler = FakeScheduler(self.loop.end_turn)
        self.authorizer: Any = AllowAll()
        self.cluster_id = "test-cluster"
        self.nodes = [FakeNode(node_id, self) for node_id in range(1, nodes + 1)]
        self._topic_ids = count(1)
        self._session_ids = count(1)
        self.start()

    def start(self) -> None:
        node_ids = [node.node_id for node in self.nodes]
        self.flusher = Flusher(self.log, self.loop, threaded=False)
        self.groups = FakeGroups()
        self.catalog = Catalog(self.settings, node_ids)
        self.data = DataPlane(
            self.log,
            self.flusher,
            self.catalog,
            clock=self.clock,
            scheduler=self.scheduler,
        )
        self.data.load()
        self.flusher.on_failure(lambda _: self.data.reload())
        self.transactions = TransactionPlane(self.data, self.groups)
        self.transactions.start()
        self.fetch_sessions = FetchSessions(
            self.settings.max_incremental_fetch_session_cache_slots,
            lambda: next(self._session_ids),
        )

    def restart(self) -> None:
        """Come up again on what is flushed."""
        self.log = self.log.reopen()
        self.loop = FakeLoop()
        self.scheduler = FakeScheduler(self.loop.end_turn, self.scheduler.now)
        self.start()

    def fail_next_write(self) -> None:
        """Let the disk fail once."""

        def fail() -> None:
            self.log.before_write = None
            raise LogFull("no room")

        self.log.before_write = fail

    def clock(self) -> int:
        return int(self.scheduler.now * 1_000)

    @property
    def runtime(self) -> FakeGroups:
        return self.groups

    def shard_node(self, shard: int) -> FakeNode:
        return self.nodes[shard % len(self.nodes)]

    def transaction_coordinator(self, transactional_id: str) -> FakeNode:
        return self.nodes[0]

    def shard_of(self, group_id: str) -> int:
        return len(group_id)

    def create(self, name: str = "a", **asked: Any) -> bytes:
        topic_id = (next(self._topic_ids) + 1).to_bytes(16, "big")
        entry = self.catalog.create_topic(NewTopic(name=name, **asked), topic_id)
        self.data.stage([entry])
        self.log.flush()
        return topic_id

    def start_call(
        self, api: ModuleType, request: Any, version: int, *, node: int = 0
    ) -> FakeCall:
        """Begin a request that may wait."""
        call = FakeCall(request, version, self.nodes[node])
        api.handle(call)
        self.loop.end_turn()
        return call

    def call(
        self, api: ModuleType, request: Any, version: int, *, node: int = 0
    ) -> Any:
        """What a request is answered with at once."""
        return self.start_call(api, request, version, node=node).response


def batch_of(
    *values: bytes,
    timestamp_ms: int = -1,
    keyless: bool = False,
    **options: Any,
) -> bytes:
    """A batch as a producer sends it, from offset 0; a value is also its key."""
    records = [
        LogRecord(at, timestamp_ms, None if keyless else value, value)
        for at, value in enumerate(values)
    ]
    return encode_batch(records, **options)


def produce_request(
    *batches: bytes | None,
    topic: str = "a",
    topic_id: bytes = bytes(16),
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A request with a batch for partition 0 and so on."""
    parts = [
        PartitionProduceData(index=index, records=batch)
        for index, batch in enumerate(batches)
        if batch is not None
    ]
    data = TopicProduceData(name=topic, topic_id=topic_id, partition_data=parts)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1_000,
        transactional_id=transactional_id,
        topic_data=[data],
    )
