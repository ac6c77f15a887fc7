"""Quotas of requests on a connection: the throttle time in the response, and the time
for which the connection is muted. Clock, timer and event loop are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from coterie.auth.acl import Principal
from coterie.broker.catalog.client_quotas import QuotaKey
from coterie.broker.log.memory import MemoryLog
from coterie.broker.protocol.sasl import Authentication
from coterie.broker.runtime.quotas import Quotas
from coterie.broker.runtime.shards import Phase
from coterie.broker.server.assembly import Assembly
from coterie.broker.server.broker import Broker, Node
from coterie.broker.server.client_connection import ClientConnection
from coterie.broker.server.connections import Connections
from coterie.broker.server.dispatch import HANDLERS
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import RequestHeaderV0, read_response, write_request
from coterie.wire.record_batch import LogRecord, encode_batch
from coterie.wire.schema import Message
from tests.broker.runtime.test_quotas import configure
from tests.broker.server.test_heartbeat_memo import no_security

pytestmark = pytest.mark.asyncio

NOW = 1_700_000_000_000
SETTINGS = Settings(offsets_topic_num_partitions=1)
USER: dict[str, str | None] = {"user": "ANONYMOUS"}
WINDOW_S, WINDOW_MS = 10, 10_000
PRODUCE_VERSION, FETCH_VERSION, HEARTBEAT_VERSION = 9, 12, 4
FRAME_SIZE_BYTES = 4


class FakeTimer:
    """A scheduled callback of the fake loop."""

    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at, self.callback, self.is_cancelled = at, callback, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """An event loop whose time stands still, and whose timers the test runs."""

    def __init__(self) -> None:
        self.timers: list[FakeTimer] = []
        self.turns: list[Callable[[], None]] = []

    def time(self) -> float:
        return 0.0

    def call_at(self, at: float, callback: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(at, callback))
        return self.timers[-1]

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> FakeTimer:
        return self.call_at(delay_s, callback)

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        if arguments:
            self.turns.append(partial(callback, *arguments))
        else:
            callback()

    @property
    def pending(self) -> list[FakeTimer]:
        return [timer for timer in self.timers if not timer.is_cancelled]


class Transport(asyncio.Transport):
    """A transport that records the written bytes, and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 1)})
        self.written = b""
        self.is_paused = self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written += data

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        assert high

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Client:
    """A connection with fakes around it. `handler_ms` is the time of each handler."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.loop = FakeLoop()
        self.transport = Transport()
        self.now_ms = NOW
        self.handler_ms = 0
        self._timer_ns = 0
        broker.clock = lambda: self.now_ms
        connections = Connections(
            SETTINGS, HANDLERS, no_security(), seconds=lambda: 0.0
        )
        loop: Any = self.loop
        self.connection = ClientConnection(broker.nodes[0], connections, loop)
        self.connection._throttle._timer = self._time_ns
        self.connection.connection_made(self.transport)

    def _time_ns(self) -> int:
        self._timer_ns += self.handler_ms * 1_000_000
        return self._timer_ns

    @property
    def muted_ms(self) -> int:
        """The time for which the connection is muted; 0 while it is not."""
        times = [timer.at * 1_000 for timer in self.loop.pending]
        assert len(times) <= 1
        assert self.transport.is_paused == bool(times)
        return round(max(times, default=0))

    def unmute(self) -> None:
        """Let the muted time end."""
        [timer] = self.loop.pending
        self.loop.timers.clear()
        timer.callback()

    def send(self, request: Message, version: int, client_id: str = "c") -> int:
        """Send a request; return the size of its frame."""
        front = RequestHeaderV0(request.API_KEY, version, 1)
        flexible = version in request.FLEXIBLE
        body = encode(request, version)
        frame = write_request(front, client_id, body, flexible=flexible)
        self.transport.written = b""
        self.connection.data_received(frame)
        return len(frame) - FRAME_SIZE_BYTES

    def call(self, request: Message, version: int, client_id: str = "c") -> Any:
        """Send a request; return the response, after a flush if it needs one."""
        self.send(request, version, client_id)
        self.broker.flusher.flush()
        written = self.transport.written
        response = api_of(ApiKey(request.API_KEY)).response
        tagged = version in request.FLEXIBLE
        _, at = read_response(written[FRAME_SIZE_BYTES:], tagged=tagged)
        value, _ = decode(response, version, written, at + FRAME_SIZE_BYTES)
        return value


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    assembly = Assembly(SETTINGS, MemoryLog())
    broker = assembly.broker
    broker.nodes.append(Node(1, "localhost", 1, broker))
    assembly.start()
    while any(each.phase is not Phase.ACTIVE for each in broker.runtime.shards):
        assembly._loader.slices.run()
        broker.flusher.flush()
    client = Client(broker)
    topic = m.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    assert (
        client.call(m.CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
    )
    yield client
    assembly.stop()


def quota(client: Client, types: dict[str, str | None], **values: float | None) -> None:
    configure(client.broker.catalog.client_quotas, types, **values)


def throttled(client: Client) -> dict[str, tuple[int, int]]:
    """Return count and total ms of each kind of quota that throttled a client."""
    return {
        key: (each.count, each.total_ms)
        for key, each in client.broker.quotas.throttled.items()
        if each.count
    }


def batch(size: int) -> bytes:
    return encode_batch([LogRecord(0, -1, None, bytes(size))])


def produce(size: int, acks: int = -1) -> m.ProduceRequest:
    partition = m.PartitionProduceData(index=0, records=batch(size))
    topic = m.TopicProduceData(name="t", partition_data=[partition])
    return m.ProduceRequest(acks=acks, topic_data=[topic])


def fetch(session_id: int = 0, epoch: int = -1, max_bytes: int = 1 << 20) -> Message:
    partition = m.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20
    )
    topics = [m.FetchTopic(topic="t", partitions=[partition])]
    return m.FetchRequest(
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=epoch,
        topics=[] if epoch > 0 else topics,
    )


def heartbeat() -> m.HeartbeatRequest:
    return m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def expected_ms(size: int, bound: float) -> int:
    """Return Kafka's throttle time after `size` bytes in a new window."""
    observed = size / WINDOW_S
    return round((observed - bound) / bound * WINDOW_MS)


# Produce.


@pytest.mark.fact("G1-09")
async def test_a_response_over_the_quota_is_sent_at_once_and_mutes(
    client: Client,
) -> None:
    quota(client, USER, producer_byte_rate=50)
    assert client.call(produce(50), PRODUCE_VERSION).throttle_time_ms == 0
    assert client.muted_ms == 0
    client.now_ms += 60_000
    request = produce(5_000)
    response = client.call(request, PRODUCE_VERSION)
    size = client.send(produce(5_000, acks=0), PRODUCE_VERSION)
    assert response.throttle_time_ms == expected_ms(size, 50) > 0
    [partition] = response.responses[0].partition_responses
    assert partition.error_code == 0


@pytest.mark.fact("G1-09")
async def test_a_muted_connection_is_read_again_after_the_throttle_time(
    client: Client,
) -> None:
    quota(client, USER, producer_byte_rate=50)
    throttle_ms = client.call(produce(5_000), PRODUCE_VERSION).throttle_time_ms
    assert client.muted_ms == throttle_ms
    client.connection.resume_writing()
    assert client.muted_ms == throttle_ms, "muted until the timer ends"
    client.unmute()
    assert client.muted_ms == 0
    assert throttled(client) == {QuotaKey.PRODUCE: (1, throttle_ms)}


async def test_a_lost_connection_cancels_its_timer(client: Client) -> None:
    quota(client, USER, producer_byte_rate=50)
    client.call(produce(5_000), PRODUCE_VERSION)
    client.connection.connection_lost(None)
    assert client.loop.pending == []


async def test_the_longest_of_several_throttle_times_counts(client: Client) -> None:
    quota(client, USER, producer_byte_rate=50)
    client.send(produce(2_000), PRODUCE_VERSION)
    client.send(produce(2_000), PRODUCE_VERSION)
    client.broker.flusher.flush()
    first, second = client.loop.timers
    assert first.is_cancelled
    assert second.at > first.at
    assert client.muted_ms == round(second.at * 1_000)


async def test_a_muted_connection_handles_no_request(client: Client) -> None:
    quota(client, USER, producer_byte_rate=50)
    client.call(produce(2_000), PRODUCE_VERSION)
    client.send(heartbeat(), HEARTBEAT_VERSION)
    assert client.transport.written == b""
    client.unmute()
    assert client.loop.turns
    client.loop.turns.pop()()
    assert client.transport.written


async def test_without_acks_a_producer_is_muted_without_a_response(
    client: Client,
) -> None:
    quota(client, USER, producer_byte_rate=50, request_percentage=0.001)
    client.handler_ms = 500
    size = client.send(produce(5_000, acks=0), PRODUCE_VERSION)
    assert client.transport.written == b""
    assert client.muted_ms == expected_ms(size, 50)


async def test_another_user_and_client_are_not_throttled(client: Client) -> None:
    quota(client, {"user": "bob"}, producer_byte_rate=1)
    quota(client, {"client-id": "other"}, producer_byte_rate=1)
    assert client.call(produce(5_000), PRODUCE_VERSION).throttle_time_ms == 0
    assert client.call(produce(9), PRODUCE_VERSION, "other").throttle_time_ms > 0


# Fetch.


async def test_a_fetch_over_the_quota_is_empty_and_does_not_count(
    client: Client,
) -> None:
    for _ in range(4):
        client.call(produce(400), PRODUCE_VERSION)
    full = client.call(fetch(), FETCH_VERSION)
    [partition] = full.responses[0].partitions
    one = len(batch(400))
    assert len(partition.records) == 4 * one
    # Two batches and the rest of the response are within ten seconds' worth of bytes.
    quota(client, USER, consumer_byte_rate=2.5 * one // WINDOW_S)
    first = client.call(fetch(), FETCH_VERSION)
    assert len(first.responses[0].partitions[0].records) == 2 * one
    assert first.throttle_time_ms == client.muted_ms == 0
    refused = client.call(fetch(), FETCH_VERSION)
    assert refused.responses == []
    assert refused.throttle_time_ms == client.muted_ms > 0
    client.unmute()
    again = client.call(fetch(), FETCH_VERSION)
    assert again.throttle_time_ms == refused.throttle_time_ms, "nothing was added"
    assert throttled(client) == {QuotaKey.FETCH: (2, 2 * again.throttle_time_ms)}
    client.now_ms += 11_000
    client.unmute()
    later = client.call(fetch(), FETCH_VERSION)
    assert len(later.responses[0].partitions[0].records) == 2 * one


async def test_a_throttled_fetch_changes_no_session(client: Client) -> None:
    client.call(produce(2_000), PRODUCE_VERSION)
    sessions = client.broker.fetch_sessions
    quota(client, USER, consumer_byte_rate=1)
    created = client.call(fetch(epoch=0), FETCH_VERSION)
    assert (created.session_id, created.responses, len(sessions)) == (0, [], 0)
    client.unmute()
    quota(client, USER, consumer_byte_rate=None)
    created = client.call(fetch(epoch=0), FETCH_VERSION)
    assert created.session_id
    assert len(created.responses) == 1
    quota(client, USER, consumer_byte_rate=1)
    refused = client.call(fetch(created.session_id, 1), FETCH_VERSION)
    assert refused.session_id == created.session_id
    assert (refused.error_code, refused.responses) == (0, [])
    client.unmute()
    quota(client, USER, consumer_byte_rate=None)
    later = client.call(fetch(created.session_id, 2), FETCH_VERSION)
    assert len(later.responses[0].partitions[0].records) > 2_000


# Request time.


async def test_the_time_of_handlers_is_limited(client: Client) -> None:
    quota(client, USER, request_percentage=1)
    client.handler_ms = 10
    times = [
        client.call(heartbeat(), HEARTBEAT_VERSION).throttle_time_ms for _ in range(6)
    ]
    # 10 ms until the response and 10 ms after it are 2 % of a second; the sixth
    # response comes after 110 ms, where 1 % of the window is 100 ms.
    assert times == [0, 0, 0, 0, 0, 1_000]
    assert client.muted_ms == 1_000
    assert throttled(client) == {QuotaKey.REQUEST: (1, 1_000)}


async def test_old_versions_are_muted_without_a_throttle_time(client: Client) -> None:
    quota(client, USER, request_percentage=0.01)
    client.handler_ms = 500
    assert client.call(heartbeat(), 0).error_code
    assert client.muted_ms == 1_000


async def test_a_fetch_over_the_request_quota_is_empty(client: Client) -> None:
    client.call(produce(10), PRODUCE_VERSION)
    quota(client, USER, request_percentage=0.01)
    client.handler_ms = 500
    response = client.call(fetch(), FETCH_VERSION)
    assert (response.throttle_time_ms, response.responses) == (1_000, [])
    assert throttled(client) == {QuotaKey.REQUEST: (1, 1_000)}


async def test_a_connection_follows_changes_of_users_quotas_and_sweeps(
    client: Client,
) -> None:
    quota(client, {"user": None}, producer_byte_rate=1_000_000)
    quotas = client.broker.quotas

    def recorded(user: str, size: int) -> bool:
        """Return whether the request counts for the user."""
        client.send(produce(size, acks=0), PRODUCE_VERSION)
        limit = quotas.limits(user, "c", client.now_ms).produce
        assert limit is not None
        return limit.rate.measure(client.now_ms)[0] * WINDOW_S > size

    assert recorded("ANONYMOUS", 100)
    client.connection.principal = Principal("User", "alice")
    assert recorded("alice", 100)
    client.now_ms += 60_000
    for number in range(3_000):
        quotas.limits(f"u{number}", "c", client.now_ms)
    assert recorded("alice", 100)
    assert quotas.sweeps > 0


async def test_without_client_quotas_nothing_is_measured(client: Client) -> None:
    quota(client, {"ip": "127.0.0.1"}, connection_creation_rate=1)

    def fail() -> int:
        raise AssertionError("measured")

    client.connection._throttle._timer = fail
    assert client.call(heartbeat(), HEARTBEAT_VERSION).throttle_time_ms == 0
    assert len(client.broker.quotas._meters) == 0


async def test_requests_before_authentication_have_no_quota(client: Client) -> None:
    quota(client, {"user": None}, request_percentage=0.01)
    client.handler_ms = 500
    client.connection.sasl = Authentication({}, session_ms=0, frame_bytes_max=1_000)
    assert client.call(heartbeat(), HEARTBEAT_VERSION).throttle_time_ms == 0
    assert client.muted_ms == 0


# Connections.


async def test_a_connection_above_the_rate_of_its_address_is_closed_later(
    client: Client,
) -> None:
    quota(client, {"ip": "10.0.0.1"}, connection_creation_rate=1)
    clients = [Client(client.broker) for _ in range(11)]
    assert [each.muted_ms for each in clients] == [0] * 10 + [1_000]
    refused = clients[-1]
    refused.send(heartbeat(), HEARTBEAT_VERSION)
    assert refused.transport.written == b""
    assert not refused.transport.is_aborted
    refused.unmute()
    assert refused.transport.is_aborted
    assert clients[0].call(heartbeat(), HEARTBEAT_VERSION).error_code
    assert throttled(client) == {QuotaKey.CONNECTION: (1, 1_000)}


async def test_connections_above_the_rate_of_the_server_are_served_later(
    client: Client,
) -> None:
    settings = Settings(max_connection_creation_rate=1)
    broker = client.broker
    broker.quotas = Quotas(settings, broker.catalog.client_quotas)
    clients = [Client(broker) for _ in range(60)]
    assert [each.muted_ms for each in clients[:12]] == [0] * 10 + [1_000, 2_000]
    waiting = clients[10]
    waiting.send(heartbeat(), HEARTBEAT_VERSION)
    assert waiting.transport.written == b""
    waiting.unmute()
    [turn] = waiting.loop.turns
    turn()
    assert waiting.transport.written
    # Those that would wait longer than clients do are closed at once.
    assert clients[-1].muted_ms == 0
    clients[-1].loop.pending[0].callback()
    assert clients[-1].transport.is_aborted


# Controller mutations.

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def create(*names: str, partitions: int = 1) -> m.CreateTopicsRequest:
    return m.CreateTopicsRequest(
        topics=[
            m.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name in names
        ]
    )


def delete(*names: str) -> m.DeleteTopicsRequest:
    return m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name=name) for name in names]
    )


def extend(name: str, count: int) -> m.CreatePartitionsRequest:
    return m.CreatePartitionsRequest(
        topics=[m.CreatePartitionsTopic(name=name, count=count, assignments=None)]
    )


async def test_topics_above_the_mutation_quota_are_refused(client: Client) -> None:
    # A burst of 11 partitions and one a second.
    quota(client, USER, controller_mutation_rate=1)
    response = client.call(create("a", "b", partitions=13), 7)
    assert [each.error_code for each in response.topics] == [0, EXCEEDED]
    assert response.topics[1].error_message is None, "as in Kafka"
    assert response.throttle_time_ms == client.muted_ms == 2_000
    assert throttled(client) == {QuotaKey.CONTROLLER_MUTATION: (1, 2_000)}
    assert "b" not in client.broker.catalog.topics
    client.now_ms += 500
    client.unmute()
    deleted = client.call(delete("t"), 6)
    assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (
        EXCEEDED,
        1_500,
    )
    client.unmute()
    extended = client.call(extend("t", 2), 3)
    assert (extended.results[0].error_code, extended.throttle_time_ms) == (
        EXCEEDED,
        1_500,
    )
    assert client.broker.catalog.topics["t"].partition_count == 1
    client.now_ms += 1_500
    client.unmute()
    assert client.call(extend("t", 2), 3).results[0].error_code == 0


@pytest.mark.parametrize(
    ("request_", "version"), [(create("b"), 5), (delete("t"), 4), (extend("t", 2), 2)]
)
async def test_old_versions_are_throttled_and_not_refused(
    client: Client, request_: Message, version: int
) -> None:
    quota(client, USER, controller_mutation_rate=1)
    client.call(create("a", partitions=11), 7)
    if isinstance(request_, m.DeleteTopicsRequest):
        request_ = m.DeleteTopicsRequest(topic_names=["t"])
    response = client.call(request_, version)
    [result] = next(
        getattr(response, name)
        for name in ("topics", "responses", "results")
        if hasattr(response, name)
    )
    assert result.error_code == 0
    assert response.throttle_time_ms == client.muted_ms == 1_000


async def test_topics_are_not_created_automatically_above_the_quota(
    client: Client,
) -> None:
    quota(client, USER, controller_mutation_rate=1)
    client.call(create("a", partitions=12), 7)
    request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name="auto")])
    [topic] = client.call(request, 12).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.now_ms += 1_000
    [topic] = client.call(request, 12).topics
    assert topic.error_code == 0
