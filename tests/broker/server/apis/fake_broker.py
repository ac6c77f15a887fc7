"""A broker's data plane without a server: a log in memory, a clock that tests advance.

`FakeBroker.call` handles one request and returns its response, or None while it waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

from coterie.auth.acl import ANONYMOUS, Operation, Principal
from coterie.auth.authorizer import AllowAll
from coterie.broker.catalog.catalog import Catalog
from coterie.broker.catalog.topics import NewTopic
from coterie.broker.coordinator.offsets.commit import CommitDivision
from coterie.broker.coordinator.result import TopicView
from coterie.broker.log.memory import MemoryLog
from coterie.broker.protocol.sasl import Authentication
from coterie.broker.runtime.data import DataPlane
from coterie.broker.runtime.fetch_sessions import FetchSessions
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.share_partitions import SharePartitions
from coterie.broker.runtime.share_sessions import ShareSessions
from coterie.broker.runtime.share_state import ShareStates
from coterie.broker.runtime.slices import Slices
from coterie.broker.runtime.system import Timekeeping
from coterie.broker.runtime.transactions import TransactionPlane
from coterie.broker.server.broker import Broker, Counts, Node
from coterie.broker.server.call import Call
from coterie.broker.server.dispatch import HANDLERS
from coterie.errors import LogFull
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.commit import Commit, Response, as_received
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch
from coterie.wire.schema import Struct


@dataclass
class FakeTimer:
    at: float
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class FakeScheduler:
    """A clock in seconds that only `advance` moves."""

    loop: FakeLoop
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
                self.loop.end_turn()
        self.now = until

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.loop.call_soon(callback, *args)

    @property
    def waiting(self) -> int:
        return sum(not timer.is_cancelled for _, _, timer in self._heap)


class FakeLoop:
    """An event loop that runs callbacks at `end_turn`, unless `holds` is set."""

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


class FakeRuntime:
    """A runtime that records submitted commits and accepts all of their partitions that
    exist."""

    def __init__(self, topics: Callable[[], TopicView]) -> None:
        self._topics = topics
        self.ended: list[tuple[int, int, int, bool]] = []
        self.submitted: list[tuple[int, Any]] = []

    def submit(
        self, index: int, request: Commit, caller: Any, answer: Callable[[Any], None]
    ) -> None:
        self.submitted.append((index, request))
        answer(CommitDivision(request, self._topics()).refuse_all(ErrorCode.NONE))

    def end_transaction(
        self, shard: int, producer_id: int, producer_epoch: int, commit: bool
    ) -> None:
        self.ended.append((shard, producer_id, producer_epoch, commit))


class FakePeer:
    """A client connection with one request; `responses` are those sent to it."""

    sasl: Authentication | None = None
    client_host = "/127.0.0.1"
    principal = ANONYMOUS

    def __init__(self, node: Node) -> None:
        self.node = node
        self.responses: list[Any] = []
        self.is_closed = False
        self.is_held = False

    @property
    def response(self) -> Any:
        return self.responses[0] if self.responses else None

    def send_response(self, token: Any, response: Response | None) -> None:
        assert not self.responses, "a request has one response"
        self.responses.append(response)

    def hold_requests(self) -> None:
        self.is_held = True

    def run_in_slices(self, token: Any, slices: Iterator[None]) -> None:
        for _ in slices:
            pass

    def fetch_throttle_ms(self, client_id: str, size: int) -> int:
        raise AssertionError("there are no quotas")

    def close(self) -> None:
        self.is_closed = True

    def fail_authentication(self, token: Any, response: Struct, reason: str) -> None:
        raise AssertionError("there is no authentication")

    def set_principal(self, principal: Principal) -> None:
        raise AssertionError("there is no authentication")

    def check_password(self, work: Any, done: Any) -> None:
        raise AssertionError("there is no authentication")


class RuleAuthorizer:
    """An authorizer that decides by the names of an operation and a resource."""

    version = 0

    def __init__(self, rule: Callable[[str, str], bool]) -> None:
        self._rule = rule

    def authorize(
        self, context: object, operation: Operation, resource_type: object, name: str
    ) -> bool:
        return self._rule(operation.name, name)

    def authorize_by_resource_type(
        self, context: object, operation: Operation, resource_type: object
    ) -> bool:
        return self._rule(operation.name, "*")


def allow_only(*allowed: tuple[str, str]) -> RuleAuthorizer:
    """Return an authorizer that allows only these operations on these resources."""
    return RuleAuthorizer(lambda operation, name: (operation, name) in allowed)


def allow_except(denied: tuple[str, str | None]) -> RuleAuthorizer:
    """Return an authorizer that denies one operation, on one resource or on all."""
    return RuleAuthorizer(
        lambda operation, name: operation != denied[0] or denied[1] not in {None, name}
    )


class FakeWorker:
    """A worker thread whose work is done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))

    def work(self) -> None:
        """Do the oldest work."""
        work, done = self.waiting.pop(0)
        done(work)


class FakeBroker:
    """A broker with a real data plane and transactions, and a fake coordinator."""

    def __init__(self, *, nodes: int = 1, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.log = MemoryLog()
        self.loop = FakeLoop()
        self.scheduler = FakeScheduler(self.loop)
        self.wall_ahead_ms = 0
        """The change of the system time since the start."""
        self.authorizer: Any = AllowAll()
        self.counts = Counts()
        self.cluster_id = "test-cluster"
        self.nodes = [
            Node(node_id, "127.0.0.1", 9092, cast(Broker, self))
            for node_id in range(1, nodes + 1)
        ]
        self._topic_ids = count(1)
        self._session_ids = count(1)
        self.start()

    def start(self) -> None:
        node_ids = [node.node_id for node in self.nodes]
        self.flusher = Flusher(self.log, self.loop, threaded=False)
        self.groups = cast(Any, FakeRuntime(lambda: self.catalog))
        self.catalog = Catalog(self.settings, node_ids)
        self.data = DataPlane(
            self.log,
            self.flusher,
            self.catalog,
            timekeeping=Timekeeping(
                self.clock, self.wall_clock, self.scheduler, self.scheduler
            ),
            scheduler=self.scheduler,
        )
        self.data.load()
        self.flusher.on_failure(lambda _: self.data.reload())
        self.transactions = TransactionPlane(self.data, self.groups)
        self.transactions.start()
        self.fetch_sessions = FetchSessions(
            self.settings.max_incremental_fetch_session_cache_slots,
            self.settings.max_incremental_fetch_session_cache_partitions,
            lambda: next(self._session_ids),
        )
        self.share_states = ShareStates(self.data, Slices(self.loop))
        self.share_partitions = SharePartitions(self.data, self.share_states)
        self.share_sessions = ShareSessions(
            self.share_partitions,
            self.settings.group_share_max_share_sessions,
            self.settings.max_incremental_fetch_session_cache_partitions,
        )

    def restart(self) -> None:
        """Restart with the flushed data only."""
        self.log = self.log.reopen()
        self.loop = FakeLoop()
        self.scheduler = FakeScheduler(self.loop, self.scheduler.now)
        self.start()

    def fail_next_write(self) -> None:
        """Make the next write fail."""

        def fail() -> None:
            self.log.before_write = None
            raise LogFull("no room")

        self.log.before_write = fail

    def clock(self) -> int:
        return int(self.scheduler.now * 1_000)

    def wall_clock(self) -> int:
        return self.clock() + self.wall_ahead_ms

    @property
    def runtime(self) -> Any:
        return self.groups

    def shard_node(self, shard: int) -> Node:
        return self.nodes[shard % len(self.nodes)]

    def transaction_coordinator(self, transactional_id: str) -> Node:
        return self.nodes[0]

    def shard_of(self, group_id: str) -> int:
        return len(group_id)

    def create(self, name: str = "a", **options: Any) -> bytes:
        topic_id = (next(self._topic_ids) + 1).to_bytes(16, "big")
        entry = self.catalog.create_topic(NewTopic(name=name, **options), topic_id)
        self.data.stage([entry])
        self.log.flush()
        return topic_id

    def start_call(self, request: Any, version: int, *, node: int = 0) -> FakePeer:
        """Handle a request that may wait for its response."""
        peer = FakePeer(self.nodes[node])
        received = as_received(request, version)
        HANDLERS[request.API_KEY](Call(received, version, "test", peer, None))
        self.loop.end_turn()
        return peer

    def call(self, request: Any, version: int, *, node: int = 0) -> Any:
        """Handle a request; return its response, None while it waits."""
        return self.start_call(request, version, node=node).response


def batch_of(
    *values: bytes,
    timestamp_ms: int = -1,
    keyless: bool = False,
    **options: Any,
) -> bytes:
    """Return a producer's batch from offset 0; a value is also its key."""
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
) -> m.ProduceRequest:
    """Return a Produce request: the first batch is for partition 0, and so on."""
    parts = [
        m.PartitionProduceData(index=index, records=batch)
        for index, batch in enumerate(batches)
        if batch is not None
    ]
    data = m.TopicProduceData(name=topic, topic_id=topic_id, partition_data=parts)
    return m.ProduceRequest(
        acks=acks,
        timeout_ms=1_000,
        transactional_id=transactional_id,
        topic_data=[data],
    )
