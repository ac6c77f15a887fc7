"""Turns: one connection's requests do not delay those of others, its responses and
half requests do not fill the memory, and its requests are handled in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.protocol.connection import CONCURRENT, Request
from coterie.broker.server.call import Call, Handler, in_slices
from coterie.broker.server.client_connection import READ_AHEAD_BYTES
from coterie.broker.server.request_memory import (
    EXHAUSTED_TIMEOUT_S,
    PROGRESS_BYTES_PER_S,
    SMALL_BYTES,
)
from coterie.broker.server.turns import TURN_S
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from tests.broker.protocol.test_connection import (
    commit,
    heartbeat,
    metadata,
    produce,
    request_bytes,
)
from tests.broker.server.fake_loop import FakeClient, FakeServer


def respond(call: Call) -> None:
    call.respond(api_of(ApiKey(call.request.API_KEY)).response())


def slow_handler(server: list[FakeServer], cost_s: float, order: list[str]) -> Handler:
    """Return a handler that lets time pass and records the client's address."""

    def handle(call: Call) -> None:
        server[0].loop.now_s += cost_s
        order.append(call.client_host.removeprefix("/"))
        call.respond(m.MetadataResponse())

    return handle


def slow_server(cost_s: float) -> tuple[FakeServer, list[str]]:
    order: list[str] = []
    known: list[FakeServer] = []
    server = FakeServer(
        {
            ApiKey.METADATA: slow_handler(known, cost_s, order),
            ApiKey.HEARTBEAT: respond,
        }
    )
    known.append(server)
    return server, order


def test_expensive_requests_of_one_read_are_handled_one_in_an_iteration() -> None:
    server, order = slow_server(cost_s=TURN_S)
    hostile, other = server.client("hostile"), server.client("other")
    hostile.send(b"".join(metadata(at) for at in range(200)))
    assert len(order) == 1
    for handled in range(2, 10):
        other.send(heartbeat(handled))
        assert other.responses[-1] == handled, "answered before the next of the 200"
        server.loop.run_once()
        assert len(order) == handled
        assert hostile.responses == list(range(handled)), "each is sent at once"
    server.loop.run()
    assert hostile.responses == list(range(200))
    assert server.connections.turns.exhausted_count == 199
    assert server.connections.memory.used_bytes == 0


def test_connections_with_further_requests_take_turns() -> None:
    server, order = slow_server(cost_s=TURN_S)
    for name in ("a", "b", "c"):
        server.client(name).send(metadata(1) * 4)
    server.loop.run()
    assert order == ["a", "b", "c"] * 4


def test_turns_of_all_connections_share_the_time_of_an_iteration() -> None:
    server, order = slow_server(cost_s=TURN_S / 2)
    for name in "abcdefgh":
        server.client(name).send(metadata(1) * 10)
    order.clear()
    server.loop.run_once()
    assert order == ["a", "a"]
    server.loop.run_once()
    assert order == ["a", "a", "b", "b"]


def test_cheap_requests_of_one_read_are_handled_at_once() -> None:
    server, order = slow_server(cost_s=TURN_S / 1_000)
    client = server.client()
    client.send(metadata(1) * 100)
    assert len(order) == len(client.responses) == 100
    assert server.connections.turns.exhausted_count == 0


def test_a_bug_in_a_turn_does_not_end_the_turns_of_others() -> None:
    server, order = slow_server(cost_s=TURN_S)
    broken, other = server.client("broken"), server.client("other")
    broken.send(metadata(1) * 3)
    other.send(metadata(1) * 3)

    def fail(request: Request) -> bool:
        raise RuntimeError("test")

    broken.connection._handle = fail  # type: ignore[method-assign]
    server.loop.run()
    assert order == ["broken", "other", "other", "other"]
    assert broken.is_closed


# Slices of one request.


def large_metadata(correlation_id: int, topics: int = 2_000) -> bytes:
    named = [m.MetadataRequestTopic(name=f"topic-{at}") for at in range(topics)]
    return request_bytes(m.MetadataRequest(topics=named), 9, correlation_id)


class SlicedServer(FakeServer):
    """A server whose clock ends each turn after one slice."""

    def __init__(self, handler: Handler, **settings: int) -> None:
        handlers: dict[int, Handler] = {
            ApiKey.METADATA: handler,
            ApiKey.HEARTBEAT: respond,
        }
        super().__init__(handlers, **settings)

        def seconds() -> float:
            self.loop.now_s += TURN_S
            return self.loop.now_s

        self.connections.turns.seconds = seconds
        self.loop.time = seconds  # type: ignore[method-assign]


def sliced_handler(steps: list[int], count: int) -> Handler:
    """Return a handler of `count` items, which it notes in `steps`."""

    @in_slices
    def handle(call: Call) -> Iterator[None]:
        for at in range(count):
            steps.append(at)
            yield
        topics = [m.MetadataResponseTopic(name="t")] * count
        call.respond(m.MetadataResponse(topics=topics))

    return handle


def test_others_are_served_while_a_request_is_decoded_handled_and_encoded() -> None:
    steps: list[int] = []
    server = SlicedServer(sliced_handler(steps, 1_000))
    hostile, other = server.client("hostile"), server.client("other")
    hostile.send(large_metadata(1) + heartbeat(2))
    served_before: list[int] = []
    while not hostile.responses:
        other.send(heartbeat(len(served_before)))
        served_before.append(len(steps))
        assert other.responses == [*range(len(served_before))]
        server.loop.run_once()
    decoding = served_before.count(0)
    encoding = served_before.count(1_000)
    assert decoding > 10
    assert encoding > 5
    assert len(served_before) - decoding - encoding > 900
    server.loop.run()
    assert hostile.responses == [1, 2], "the later request waited"
    assert server.connections.memory.used_bytes == 0
    assert not server.connections.turns


def test_a_disconnect_ends_the_slices_of_a_request() -> None:
    steps: list[int] = []
    server = SlicedServer(sliced_handler(steps, 1_000))
    client = server.client()
    client.send(metadata(1))
    server.loop.run_once()
    client.transport.abort()
    server.loop.run()
    assert len(steps) < 10
    assert not server.connections.turns
    assert len(server.connections) == server.connections.memory.used_bytes == 0


def test_a_disconnect_ends_the_decoding_of_a_request() -> None:
    calls: list[Call] = []
    server = SlicedServer(calls.append)
    client = server.client()
    client.send(large_metadata(1) + metadata(2))
    server.loop.run_once()
    assert server.connections.turns
    client.transport.abort()
    server.loop.run()
    assert not calls
    assert not server.connections.turns
    assert len(server.connections) == server.connections.memory.used_bytes == 0


def test_a_large_produce_request_before_a_disconnect_is_handled() -> None:
    calls: list[Call] = []
    server = SlicedServer(calls.append)
    server.connections.handlers = {ApiKey.PRODUCE: calls.append}
    client = server.client()
    part = m.PartitionProduceData(index=0, records=b"")
    topic = m.TopicProduceData(name="t", partition_data=[part] * 2_000)
    client.send(request_bytes(m.ProduceRequest(topic_data=[topic]), 9, 1))
    client.transport.abort()
    server.loop.run()
    assert [len(call.request.topic_data[0].partition_data) for call in calls] == [2_000]


def test_the_bytes_of_a_request_that_is_decoded_are_counted() -> None:
    calls: list[Call] = []
    server = SlicedServer(calls.append)
    client = server.client()
    data = large_metadata(1)
    client.send(data)
    assert server.connections.turns
    assert client.held_bytes == len(data) - 4
    server.loop.run()
    assert len(calls) == 1
    respond(calls[0])
    server.loop.run()
    assert client.held_bytes == 0


def test_a_malformed_request_that_is_decoded_in_slices_closes_the_connection() -> None:
    server = SlicedServer(respond)
    client = server.client()
    data = bytearray(large_metadata(1))
    data[-40:-20] = b"\xff" * 20
    client.send(bytes(data) + heartbeat(2))
    server.loop.run()
    assert client.is_closed
    assert client.responses == []


def test_a_bug_in_a_later_slice_closes_the_connection() -> None:
    @in_slices
    def fail_later(call: Call) -> Iterator[None]:
        yield
        yield
        yield
        raise AssertionError("a bug")

    server = SlicedServer(fail_later)
    client, other = server.client(), server.client("other")
    client.send(metadata(1))
    other.send(heartbeat(1))
    server.loop.run()
    assert client.is_closed
    assert other.responses == [1]


def test_responses_of_many_connections_are_written_by_one_callback() -> None:
    server, calls = waiting_server()
    clients = [server.client(f"10.0.0.{number}") for number in range(50)]
    for client in clients:
        client.send(metadata(7))
    assert not server.loop.ready
    for call in calls:
        call.respond(m.MetadataResponse())
    assert len(server.loop.ready) == 1
    assert not any(client.responses for client in clients), "not within a callback"
    server.loop.run_once()
    assert [client.responses for client in clients] == [[7]] * 50
    assert not server.loop.ready


def test_a_bug_in_one_write_does_not_stop_the_others() -> None:
    server, calls = waiting_server()
    clients = [server.client(f"10.0.0.{number}") for number in range(3)]
    for client in clients:
        client.send(metadata(7))
    clients[1].transport.write = fail  # type: ignore[assignment, method-assign]
    for call in calls:
        call.respond(m.MetadataResponse())
    server.loop.run()
    assert [client.responses for client in clients] == [[7], [], [7]]
    assert [client.is_closed for client in clients] == [False, True, False]


def test_a_response_during_the_writes_is_written_in_the_next_iteration() -> None:
    server, calls = waiting_server()
    first, second = server.client("10.0.0.1"), server.client("10.0.0.2")
    first.send(metadata(1))
    second.send(metadata(2) + metadata(3))
    for call in list(calls):
        call.respond(m.MetadataResponse())
    server.loop.run_once()
    assert second.responses == [2]
    calls[-1].respond(m.MetadataResponse())
    assert len(server.loop.ready) == 1
    server.loop.run_once()
    assert second.responses == [2, 3]


# Reading ahead.


def fail(*_: object) -> None:
    raise RuntimeError("a bug")


def waiting_server(**settings: int) -> tuple[FakeServer, list[Call]]:
    """Return a server that responds to nothing; the test responds to its calls."""
    calls: list[Call] = []
    return FakeServer(dict.fromkeys(map(int, ApiKey), calls.append), **settings), calls


def test_reading_pauses_while_many_bytes_wait_for_a_response() -> None:
    server, calls = waiting_server()
    client = server.client()
    count = READ_AHEAD_BYTES // len(metadata(1)) + 2
    client.send(metadata(0))
    client.send(metadata(1) * (count // 2))
    assert client.transport.is_reading_now
    client.send(metadata(1) * (count // 2 + 1))
    assert not client.transport.is_reading_now
    assert len(calls) == 1
    for handled in range(1, count):
        respond(calls[-1])
        server.loop.run()
        assert len(calls) == handled + 1
    assert client.transport.is_reading_now


def test_a_large_request_is_read_while_it_is_incomplete() -> None:
    server, calls = waiting_server()
    client = server.client()
    size = 4 * READ_AHEAD_BYTES
    for part in (size.to_bytes(4, "big") + b"\0\0\0\x09", *[bytes(size // 4)] * 3):
        client.send(part)
        assert client.transport.is_reading_now
    assert (
        client.held_bytes == server.connections.memory.used_bytes == 3 * (size // 4) + 8
    )
    assert calls == []
    client.transport.abort()
    server.loop.run()
    assert server.connections.memory.used_bytes == 0


def test_no_more_requests_are_handled_than_may_be_in_flight() -> None:
    server, calls = waiting_server(max_in_flight_requests_per_connection=3)
    client = server.client()
    client.send(heartbeat(1) * 5)
    client.send(heartbeat(1) * 5)
    assert len(calls) == 3
    for at in range(10):
        respond(calls[at])
        server.loop.run()
        assert len(calls) == min(at + 4, 10)
    assert len(client.responses) == 10


def test_a_client_that_reads_no_responses_gets_a_bounded_number() -> None:
    server = FakeServer(
        {ApiKey.METADATA: respond}, connection_write_buffer_max_bytes=65_536
    )
    client = server.client()
    client.transport.window = 0
    client.send(metadata(1))
    size = len(client.transport.written)
    while client.transport.is_reading_now:
        client.send(metadata(1) * 100)
        server.loop.run()
    assert len(client.transport.written) <= 2 * 65_536 + size
    assert client.held_bytes < 2 * 65_536 + size + READ_AHEAD_BYTES + 100 * size
    sent = len(client.responses)
    client.transport.consume(1 << 40)
    server.loop.run()
    assert len(client.responses) > sent
    assert client.transport.is_reading_now
    assert server.connections.memory.used_bytes == 0


def test_stored_heartbeats_are_not_handled_while_the_client_reads_no_responses() -> (
    None
):
    server = FakeServer({ApiKey.METADATA: respond})
    client = server.client()
    client.transport.window = 0
    client.connection._connection._fast_path = lambda _: b"short"
    client.send(heartbeat(1) * 3)
    assert client.transport.written == b"short" * 3
    client.connection.pause_writing()
    client.send(heartbeat(1) * 3)
    assert client.transport.written == b"short" * 3
    client.connection.resume_writing()
    server.loop.run()
    assert client.transport.written == b"short" * 6


# The order of requests.


@pytest.mark.parametrize("later", [metadata, commit, heartbeat, produce])
def test_no_request_is_handled_before_the_response_to_a_waiting_one(
    later: Callable[[int], bytes],
) -> None:
    server, calls = waiting_server()
    client = server.client()
    client.send(metadata(1) + later(2))
    client.send(later(3))
    server.loop.run()
    assert len(calls) == 1
    respond(calls[0])
    server.loop.run()
    assert len(calls) == 2 + (later is not metadata)


def test_concurrent_requests_are_those_with_immediate_effects() -> None:
    assert {0, 8, 12, 68} == CONCURRENT


def test_a_disconnect_drops_the_requests_that_wait() -> None:
    server, calls = waiting_server()
    client = server.client()
    client.send(metadata(1) * 5)
    client.transport.abort()
    server.loop.run()
    respond(calls[0])
    server.loop.run()
    assert len(calls) == 1
    assert client.responses == []
    assert len(server.connections) == server.connections.memory.used_bytes == 0


def test_produce_requests_received_before_a_disconnect_are_handled() -> None:
    # With acks=0 a client may send and disconnect.
    server, calls = waiting_server(max_in_flight_requests_per_connection=2)
    client = server.client()
    client.send(produce(1) * 7 + metadata(2) + produce(3))
    client.transport.abort()
    server.loop.run()
    for at in range(7):
        calls[at].respond(None)
        server.loop.run()
    assert [call.request.API_KEY for call in calls] == [ApiKey.PRODUCE] * 7
    server.loop.run()
    assert not server.loop.ready


def test_only_idle_connections_are_closed() -> None:
    server, calls = waiting_server()
    idle, waiting, held = server.client(), server.client(), server.client()
    waiting.send(metadata(1))
    held.send(metadata(1) * 2)
    for _ in range(20):
        for client in (idle, waiting, held):
            client.connection.idle_sweeps += 1
            client.connection.close_idle()
        server.loop.run()
    assert (idle.is_closed, waiting.is_closed, held.is_closed) == (True, False, False)
    assert len(calls) == 2


# Connections without progress.


def check_progress(server: FakeServer, times: int) -> None:
    for _ in range(times):
        server.connections.check_progress()
        server.loop.run()


def test_an_incomplete_request_without_progress_closes_its_connection() -> None:
    server, _ = waiting_server(connection_request_timeout_ms=30_000)
    client, other = server.client(), server.client()
    client.send((1_000).to_bytes(4, "big"))
    check_progress(server, 29)
    assert not client.is_closed
    check_progress(server, 1)
    assert client.is_closed
    assert not other.is_closed
    assert server.node.broker.counts.connections_closed == {"no progress": 1}
    assert server.connections.memory.used_bytes == 0


def test_a_large_request_over_a_slow_link_is_read() -> None:
    server, calls = waiting_server(connection_request_timeout_ms=5_000)
    client = server.client()
    client.send((PROGRESS_BYTES_PER_S * 50).to_bytes(4, "big") + b"\0\0\0\x09")
    body = bytes(PROGRESS_BYTES_PER_S)
    for _ in range(49):
        client.send(body)
        check_progress(server, 5)  # a pause in every 5 s
    assert not client.is_closed
    client.send((body * 2)[8:])
    check_progress(server, 10)
    assert client.is_closed
    assert calls == []


def test_requests_that_wait_for_the_server_do_not_time_out() -> None:
    server, _ = waiting_server()
    client = server.client()
    client.send(metadata(1) * 2 + metadata(1)[:-1])
    check_progress(server, 100)
    assert not client.is_closed


def test_a_client_that_never_reads_is_closed_when_it_is_idle() -> None:
    server = FakeServer({ApiKey.METADATA: respond})
    client = server.client()
    client.transport.window = 0
    client.send(metadata(1) * 200)
    check_progress(server, 31)
    assert not client.is_closed, "it may be a consumer that is paused"
    client.connection.close_idle()
    server.loop.run()
    client.connection.close_idle()
    server.loop.run()
    assert client.is_closed
    assert server.connections.memory.used_bytes == 0


# The memory of all connections.

HALF = 300_000


def large_request(size: int) -> bytes:
    data = m.PartitionProduceData(index=0, records=bytes(size))
    topic = m.TopicProduceData(name="t", partition_data=[data])
    return request_bytes(m.ProduceRequest(topic_data=[topic]), 9, 1)


def test_large_requests_wait_while_the_memory_is_exhausted() -> None:
    server, calls = waiting_server(queued_max_request_bytes=1_000_000)
    clients = [server.client() for _ in range(4)]
    small = server.client()
    for client in clients:
        client.send(large_request(900_000)[:HALF])
    reading = [client for client in clients if client.transport.is_reading_now]
    assert len(reading) == 1, "one large request can complete"
    assert server.connections.memory.paused_count == 3
    assert server.connections.memory.used_bytes == 4 * HALF
    small.send(metadata(1))
    respond(calls[0])
    server.loop.run()
    assert small.responses == [1], "small requests go on"
    reading[0].transport.abort()
    server.loop.run()
    assert server.connections.memory.paused_count == 2
    check_progress(server, 2)
    assert server.connections.memory.paused_count == 0
    assert all(c.transport.is_reading_now for c in clients if c not in reading)


@pytest.mark.slow
def test_responses_consumed_meanwhile_are_not_counted_at_the_limit() -> None:
    server = FakeServer({ApiKey.METADATA: respond}, queued_max_request_bytes=1_000_000)
    clients = [server.client() for _ in range(5)]
    for client in clients:
        client.transport.window = 0
        client.send(metadata(1) * 20_000)
        server.loop.run()
        assert client.held_bytes > 300_000
        client.transport.unsent = 0  # the event loop reports only large changes
    assert server.connections.memory.paused_count == 0
    assert server.connections.memory.used_bytes < 1_000_000


def test_large_requests_complete_one_after_another() -> None:
    server, calls = waiting_server(queued_max_request_bytes=1_000_000)
    request = large_request(900_000)
    rest = {server.client(): request for _ in range(5)}
    for client in rest:
        client.send(request[:HALF])
        rest[client] = request[HALF:]
    peak = 0
    while any(rest.values()):
        for client, data in rest.items():
            if client.transport.is_reading_now and data:
                client.send(data[:50_000])
                rest[client] = data[50_000:]
        peak = max(peak, server.connections.memory.used_bytes)
        while calls:
            respond(calls.pop())
        check_progress(server, 1)
    assert all(client.responses == [1] for client in rest)
    assert peak < 5 * HALF + len(request)
    assert (
        server.connections.memory.used_bytes
        == server.connections.memory.paused_count
        == 0
    )


def test_the_memory_of_hostile_half_requests_is_freed() -> None:
    server, calls = waiting_server(queued_max_request_bytes=1_000_000)
    hostile = [server.client() for _ in range(10)]
    for client in hostile:
        client.send(large_request(900_000)[:HALF])
    good = server.client()
    request = large_request(HALF + 1_000_000)
    good.send(request[:HALF])
    for _ in range(len(hostile) * int(EXHAUSTED_TIMEOUT_S)):
        check_progress(server, 1)
        if good.transport.is_reading_now and not calls:
            good.send(request[HALF:])
    assert len(calls) == 1
    assert not good.is_closed
    assert sum(not client.is_closed for client in hostile) <= 3
    for client in (*hostile, good):
        client.transport.abort()
    server.loop.run()
    assert (
        server.connections.memory.used_bytes
        == server.connections.memory.paused_count
        == 0
    )


def test_half_requests_stalled_for_long_are_closed_together_on_exhaustion() -> None:
    server, _ = waiting_server(queued_max_request_bytes=1_000_000)
    hostile = [server.client() for _ in range(3)]
    for client in hostile:
        client.send(large_request(900_000)[:HALF])
    check_progress(server, int(EXHAUSTED_TIMEOUT_S) + 1)
    assert not any(client.is_closed for client in hostile)
    good = server.client()
    good.send(large_request(900_000)[:HALF])
    check_progress(server, 1)
    assert sum(client.is_closed for client in hostile) >= 1
    assert server.connections.memory.used_bytes < 1_000_000
    check_progress(server, 2)
    assert good.transport.is_reading_now


class Play:
    """Four clients of a server with little memory; actions that change what is held."""

    def __init__(self) -> None:
        self.server, self.calls = waiting_server(
            queued_max_request_bytes=500_000, connection_write_buffer_max_bytes=65_536
        )
        self.clients = [self.server.client() for _ in range(4)]
        for client in self.clients:
            client.transport.window = 100
        self.unsent = dict.fromkeys(self.clients, large_request(200_000) * 3)

    def tick(self, _: FakeClient, size: int) -> None:
        check_progress(self.server, size % 5)

    def answer(self, _: FakeClient, size: int) -> None:
        if self.calls:
            respond(self.calls.pop(size % len(self.calls)))

    def close(self, client: FakeClient, _: int) -> None:
        client.transport.abort()

    def consume(self, client: FakeClient, size: int) -> None:
        if not client.is_closed:
            client.transport.consume(size % 300)

    def send(self, client: FakeClient, size: int) -> None:
        if client.transport.is_reading_now and not client.is_closed:
            client.send(self.unsent[client][:size])
            self.unsent[client] = self.unsent[client][size:]

    def check(self) -> None:
        self.server.loop.run()
        memory = self.server.connections.memory
        assert memory.used_bytes == sum(client.held_bytes for client in self.clients)
        if memory.is_exhausted:
            large = [each for each in self.clients if each.held_bytes > SMALL_BYTES]
            assert sum(not each.connection.share.is_paused for each in large) <= 1

    def end(self) -> None:
        for client in self.clients:
            client.transport.abort()
        self.server.loop.run()
        while self.calls:
            respond(self.calls.pop())
        self.server.loop.run()


ACTIONS = (Play.tick, Play.answer, Play.close, Play.consume, Play.send, Play.send)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3), st.integers(1, 400_000)),
        max_size=30,
    )
)
def test_every_byte_counted_is_returned(
    steps: list[tuple[Callable[[Play, FakeClient, int], None], int, int]],
) -> None:
    play = Play()
    for action, at, size in steps:
        action(play, play.clients[at], size)
        play.check()
    play.end()
    listener = play.server.connections
    assert listener.memory.used_bytes == listener.memory.paused_count == 0
    assert listener.memory.holding == set()
    assert not listener.turns
