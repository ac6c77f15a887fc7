"""One client connection: versions, pipelining, and closing."""

from __future__ import annotations

import asyncio
import errno
import struct
from typing import Any

import pytest

from coterie.client.connection import (
    ELEMENTS_MAX,
    Address,
    BrokerConnection,
    Read,
)
from coterie.client.connection_failures import open_failure
from coterie.client.options import ClientOptions
from coterie.errors import (
    ClientError,
    ConnectionLost,
    MalformedFrame,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import decode, encode
from coterie.wire.schema import Versions
from tests.client.scripted_broker import (
    HANG_UP,
    IMPATIENT,
    OPTIONS,
    SILENCE,
    WAIT_S,
    ScriptedBroker,
    in_turn,
)

pytestmark = pytest.mark.asyncio


async def connect(
    broker: ScriptedBroker, options: ClientOptions = OPTIONS
) -> BrokerConnection:
    return await BrokerConnection.open(Address("127.0.0.1", broker.port), options)


async def connect_with_short_timeouts(broker: ScriptedBroker) -> BrokerConnection:
    """Open a connection with short time-outs."""
    connection = await connect(broker)
    connection._options = IMPATIENT
    return connection


async def heartbeat(connection: BrokerConnection, generation: int = 0) -> int:
    request = m.HeartbeatRequest(group_id="g", generation_id=generation)
    answer = await connection.call(request, m.HeartbeatResponse)
    return answer.error_code


async def test_a_request_is_sent_in_the_highest_common_version() -> None:
    async with ScriptedBroker() as broker:
        broker.versions[ApiKey.HEARTBEAT] = Versions(0, 2)
        broker.versions[ApiKey.LIST_GROUPS] = Versions(2, 99)
        connection = await connect(broker)
        assert connection.version_of(m.HeartbeatRequest) == 2
        assert connection.version_of(m.ListGroupsRequest) == 5
        assert connection.version_of(m.ListGroupsRequest, Versions(0, 3)) == 3
        connection.close()


async def test_a_missing_common_version_is_reported_with_both_ranges() -> None:
    async with ScriptedBroker() as broker:
        broker.versions[ApiKey.HEARTBEAT] = Versions(7, 9)
        del broker.versions[ApiKey.LIST_GROUPS]
        connection = await connect(broker)
        with pytest.raises(UnsupportedByBroker, match="7 to 9; 0 to 4 is needed"):
            await heartbeat(connection)
        with pytest.raises(UnsupportedByBroker, match=r"ListGroups \(Kafka 0.11.0 or"):
            await connection.call(m.ListGroupsRequest(), m.ListGroupsResponse)
        connection.close()


@pytest.mark.fact("G1-03")
async def test_api_versions_falls_back_to_an_older_version() -> None:
    # The broker responds in version 0, which the client did not request.
    size_and_id = struct.pack(">ii", 4 + 2 + 4 + 6, 0)
    refusal = size_and_id + struct.pack(">hi3h", 35, 1, ApiKey.API_VERSIONS, 0, 2)
    async with ScriptedBroker() as broker:
        answer = broker.api_versions()
        broker.answers[ApiKey.API_VERSIONS] = in_turn(refusal, answer)
        connection = await connect(broker)
        assert connection.version_of(m.HeartbeatRequest) == 4
        connection.close()


async def test_a_rejected_api_versions_request_fails_the_connection() -> None:
    async with ScriptedBroker() as broker:
        answer = broker.api_versions()
        answer.error_code = 42
        broker.answers[ApiKey.API_VERSIONS] = in_turn(answer)
        with pytest.raises(UnsupportedByBroker, match="INVALID_REQUEST"):
            await connect(broker)


async def test_requests_are_pipelined_and_each_gets_its_own_response() -> None:
    def code_of(request: m.HeartbeatRequest) -> m.HeartbeatResponse:
        return m.HeartbeatResponse(error_code=request.generation_id)

    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = code_of
        connection = await connect(broker)
        calls = [heartbeat(connection, number) for number in range(50)]
        assert await asyncio.gather(*calls) == list(range(50))
        connection.close()


async def test_a_cancelled_caller_does_not_affect_other_responses() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = lambda request: m.HeartbeatResponse(
            error_code=request.generation_id
        )
        connection = await connect(broker)
        first = asyncio.create_task(heartbeat(connection, 1))
        second = asyncio.create_task(heartbeat(connection, 2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 2
        connection.close()


async def test_a_request_time_out_closes_the_connection() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(SILENCE)
        connection = await connect_with_short_timeouts(broker)
        with pytest.raises(RequestTimedOut, match="Heartbeat v4 in 500 ms"):
            await heartbeat(connection)
        with pytest.raises(ConnectionLost, match="Heartbeat v4"):
            await heartbeat(connection)
        assert not connection.is_open


def read_heartbeat(frame: bytes, at: int, version: int) -> m.HeartbeatResponse:
    return decode(m.HeartbeatResponse, version, frame, at)[0]


def post(
    connection: BrokerConnection, generation: int = -1, read: Read = read_heartbeat
) -> asyncio.Future[Any]:
    """Post a heartbeat; return the future of its outcome, which may be an error."""
    outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request = m.HeartbeatRequest(group_id="g", generation_id=generation)
    version = connection.version_of(m.HeartbeatRequest)
    body = encode(request, version)
    connection.post(m.HeartbeatRequest, version, body, read, outcome.set_result)
    return outcome


async def test_requests_are_sent_in_the_order_of_one_task() -> None:
    generations: list[int] = []

    def code_of(request: m.HeartbeatRequest) -> m.HeartbeatResponse:
        generations.append(request.generation_id)
        return m.HeartbeatResponse(error_code=request.generation_id)

    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = code_of
        connection = await connect(broker)
        assert connection.is_ready
        futures = [post(connection, number) for number in range(5)]
        assert generations == [], "no response was awaited"
        codes = [(await future).error_code for future in futures]
        assert codes == generations == list(range(5))
        connection.close()


async def test_a_sent_request_times_out_as_a_call_does() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(SILENCE, SILENCE)
        connection = await connect_with_short_timeouts(broker)
        errors = await asyncio.gather(post(connection), post(connection))
        assert [type(error) for error in errors] == [RequestTimedOut, ConnectionLost]
        assert "Heartbeat v4" in str(errors[0])
        assert not connection.is_ready
        with pytest.raises(ConnectionLost):
            await connection.wait_until_ready()


async def test_a_later_request_has_its_own_time() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(m.HeartbeatResponse(), SILENCE)
        connection = await connect_with_short_timeouts(broker)
        assert await post(connection) == m.HeartbeatResponse()
        assert isinstance(await post(connection), RequestTimedOut)


async def test_a_response_that_cannot_be_read_closes_the_connection() -> None:
    def read(*_: object) -> None:
        raise MalformedFrame("no")

    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(m.HeartbeatResponse())
        connection = await connect(broker)
        assert isinstance(await post(connection, read=read), MalformedFrame)
        assert not connection.is_open


async def test_requests_pending_at_a_time_out_fail_with_connection_lost() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(SILENCE)
        connection = await connect_with_short_timeouts(broker)
        told = await asyncio.gather(
            heartbeat(connection), heartbeat(connection), return_exceptions=True
        )
        assert {type(error) for error in told} <= {RequestTimedOut, ConnectionLost}
        assert RequestTimedOut in {type(error) for error in told}


async def test_a_closed_connection_fails_all_pending_requests() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(SILENCE, HANG_UP)
        connection = await connect(broker)
        told = await asyncio.gather(
            heartbeat(connection), heartbeat(connection), return_exceptions=True
        )
        assert [type(error) for error in told] == [ConnectionLost] * 2


@pytest.mark.parametrize(
    ("nonsense", "message"),
    [
        (b"\0\0\0\x02hi", "response header"),
        (b"\0\0\0\x06\0\0\0\x63\0\0", "a response to request 99"),
        (b"\xff\xff\xff\xff", "frame of -1 bytes"),
        (b"\0\0\0\x06\0\0\0\x01\0\0", "HeartbeatResponse"),
    ],
)
async def test_malformed_responses_close_the_connection(
    nonsense: bytes, message: str
) -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(nonsense)
        connection = await connect(broker)
        with pytest.raises(MalformedFrame, match=message):
            await heartbeat(connection)
        assert not connection.is_open


async def test_a_response_with_too_many_elements_closes_the_connection() -> None:
    async with ScriptedBroker() as broker:
        broker.versions[ApiKey.LIST_GROUPS] = Versions(0, 0)
        count = ELEMENTS_MAX + 1
        body = struct.pack(">ihi", 1, 0, count) + bytes(4 * count)
        broker.answers[ApiKey.LIST_GROUPS] = in_turn(
            struct.pack(">i", len(body)) + body
        )
        connection = await connect(broker)
        with pytest.raises(MalformedFrame, match=f"{count} elements; only"):
            await connection.call(m.ListGroupsRequest(), m.ListGroupsResponse)
        assert not connection.is_open


@pytest.mark.slow
async def test_large_responses_of_large_clusters_are_decoded() -> None:
    groups = [m.ListedGroup(group_id=f"group-{n}") for n in range(100_000)]
    partition = m.MetadataResponsePartition(
        replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
    )
    topic = m.MetadataResponseTopic(name="t", partitions=[partition] * 100)
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.LIST_GROUPS] = in_turn(
            m.ListGroupsResponse(groups=groups)
        )
        broker.answers[ApiKey.METADATA] = in_turn(
            m.MetadataResponse(topics=[topic] * 2_000)
        )
        connection = await connect(broker)
        listed = await connection.call(m.ListGroupsRequest(), m.ListGroupsResponse)
        assert listed.groups == groups
        metadata = await connection.call(m.MetadataRequest(), m.MetadataResponse)
        assert sum(len(one.partitions) for one in metadata.topics) == 200_000


async def test_an_unexpected_response_closes_the_connection() -> None:
    async with ScriptedBroker() as broker:
        said = m.HeartbeatResponse()
        broker.answers[ApiKey.HEARTBEAT] = in_turn(said)
        connection = await connect(broker)
        connection.data_received(b"\0\0\0\x04\0\0\0\x07")
        assert isinstance(connection.failure, MalformedFrame)
        with pytest.raises(ConnectionLost, match="a response to no request"):
            await heartbeat(connection)


async def test_a_closed_connection_raises() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(SILENCE)
        connection = await connect(broker)
        call = asyncio.create_task(heartbeat(connection))
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(ConnectionLost, match="was closed"):
            await call


async def test_an_unreachable_broker_is_reported_with_its_address() -> None:
    async with ScriptedBroker() as broker:
        pass
    with pytest.raises(
        ConnectionLost, match=rf"127.0.0.1:{broker.port} cannot"
    ) as lost:
        await connect(broker)
    assert str(lost.value).endswith("cannot be reached: connection refused")


@pytest.mark.parametrize("number", [f"[Errno {errno.ECONNREFUSED}]", "[WinError 1225]"])
async def test_a_refused_connection_is_recognised_on_every_system(number: str) -> None:
    error = OSError(f"Multiple exceptions: {number} a, {number} b")
    failure = await open_failure(Address("broker", 9092), ClientOptions(), error)
    assert str(failure) == "broker:9092 cannot be reached: connection refused"


async def test_a_missing_api_versions_response_times_out() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.API_VERSIONS] = in_turn(SILENCE)
        with pytest.raises(ConnectionLost, match="cannot be reached"):
            await connect(broker, IMPATIENT)


async def test_a_throttled_client_delays_its_next_request() -> None:
    """Delay the next request by the throttle time of the previous response
    (KIP-219)."""
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(
            m.HeartbeatResponse(throttle_time_ms=600_000), m.HeartbeatResponse()
        )
        connection = await connect(broker)
        assert await heartbeat(connection) == 0
        connection._options = IMPATIENT
        with pytest.raises(RequestTimedOut):
            await heartbeat(connection)
        assert len(broker.asked) == 1


async def test_backpressure_delays_requests() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(m.HeartbeatResponse())
        connection = await connect(broker)
        connection.pause_writing()
        call = asyncio.create_task(heartbeat(connection))
        for _ in range(3):
            await asyncio.sleep(0)
        assert broker.asked == []
        connection.resume_writing()
        async with asyncio.timeout(WAIT_S):
            assert await call == 0
        connection.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker:9092", Address("broker", 9092)),
        (" [::1]:1 ", Address("::1", 1)),
    ],
)
async def test_an_address_is_parsed_and_formatted(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text.strip()


async def test_a_listener_protocol_in_an_address_is_ignored() -> None:
    assert Address.parse("SASL_SSL://broker:9092") == Address("broker", 9092)


@pytest.mark.parametrize(
    "text",
    ["broker", ":9092", "broker:", "broker:x", "broker:65536", "broker:\u0663", "x://"],
)
async def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ClientError, match="write HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP;"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it speaks SSH;"),
        (b"220 mail.example\r\n", r"it sent b'220 mail.example"),
    ],
)
async def test_a_port_of_another_protocol_is_named_with_what_it_speaks(
    sent: bytes, found: str
) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        address = Address("127.0.0.1", port)
        with pytest.raises(MalformedFrame) as refused:
            await BrokerConnection.open(address, OPTIONS)
    assert f"127.0.0.1:{port} is not a Kafka listener" in str(refused.value)
    assert found in str(refused.value)
