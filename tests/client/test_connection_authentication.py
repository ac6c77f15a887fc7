"""Authentication of a connection, on a scripted broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client.connection import Address, BrokerConnection
from coterie.client.oauth import FixedToken
from coterie.client.options import ClientOptions
from coterie.client.sasl import Credentials, OAuthBearer, Plain
from coterie.client.secret import Secret
from coterie.errors import AuthenticationFailed, ConnectionLost
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from tests.client.scripted_broker import HANG_UP, SILENCE, ScriptedBroker, in_turn

pytestmark = pytest.mark.asyncio

ALICE = Plain("alice", Secret("hunter2"))
HOUR_MS = 3_600_000


def accepting(broker: ScriptedBroker, *answers: Any) -> None:
    """Make a broker accept PLAIN and send the given responses to tokens."""
    broker.answers[ApiKey.SASL_HANDSHAKE] = in_turn(
        m.SaslHandshakeResponse(mechanisms=["PLAIN"])
    )
    broker.answers[ApiKey.SASL_AUTHENTICATE] = in_turn(
        *(answers or [m.SaslAuthenticateResponse()])
    )
    broker.answers[ApiKey.HEARTBEAT] = in_turn(m.HeartbeatResponse())


async def connect(
    broker: ScriptedBroker, credentials: Credentials = ALICE
) -> BrokerConnection:
    options = ClientOptions(sasl=credentials)
    return await BrokerConnection.open(Address("127.0.0.1", broker.port), options)


async def heartbeat(connection: BrokerConnection) -> int:
    answer = await connection.call(
        m.HeartbeatRequest(group_id="g"), m.HeartbeatResponse
    )
    return answer.error_code


def kinds(broker: ScriptedBroker) -> list[str]:
    """Return the received requests as letters: h for SaslHandshake, a for
    SaslAuthenticate, - for heartbeats."""
    short = {"SaslHandshakeRequest": "h", "SaslAuthenticateRequest": "a"}
    return [short.get(type(each).__name__, "-") for each in broker.asked]


async def test_authentication_precedes_other_requests() -> None:
    async with ScriptedBroker() as broker:
        accepting(broker)
        connection = await connect(broker)
        assert kinds(broker) == ["h", "a"]
        assert broker.asked[0].mechanism == "PLAIN"
        assert broker.asked[1].auth_bytes == b"\0alice\0hunter2"
        connection.close()


async def test_a_rejected_authentication_has_the_brokers_message() -> None:
    async with ScriptedBroker() as broker:
        said = m.SaslAuthenticateResponse(error_code=58, error_message="no such luck")
        accepting(broker, said)
        with pytest.raises(AuthenticationFailed, match="rejects PLAIN: no such luck"):
            await connect(broker)
        assert broker.connection_count == 1


async def test_a_rejected_authentication_without_a_message_has_its_code() -> None:
    async with ScriptedBroker() as broker:
        accepting(broker, m.SaslAuthenticateResponse(error_code=58))
        with pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED"):
            await connect(broker)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (33, "does not support PLAIN; it supports SCRAM-SHA-512, OAUTHBEARER"),
        (34, "is a listener without SASL"),
        (42, "rejects PLAIN: INVALID_REQUEST"),
    ],
)
async def test_an_unsupported_mechanism_is_reported(code: int, why: str) -> None:
    async with ScriptedBroker() as broker:
        accepting(broker)
        broker.answers[ApiKey.SASL_HANDSHAKE] = in_turn(
            m.SaslHandshakeResponse(
                error_code=code, mechanisms=["SCRAM-SHA-512", "OAUTHBEARER"]
            )
        )
        with pytest.raises(AuthenticationFailed) as refused:
            await connect(broker)
        assert why in str(refused.value)


async def test_a_connection_lost_during_authentication_is_retriable() -> None:
    async with ScriptedBroker() as broker:
        accepting(broker, HANG_UP)
        with pytest.raises(ConnectionLost):
            await connect(broker)


async def test_a_rejected_token_is_reported_with_the_brokers_json() -> None:
    said = m.SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')
    refused = m.SaslAuthenticateResponse(error_code=58, error_message="invalid_token")
    async with ScriptedBroker() as broker:
        accepting(broker, said, refused)
        with pytest.raises(AuthenticationFailed, match="OAUTHBEARER: invalid_token"):
            await connect(broker, OAuthBearer(FixedToken(Secret("t.o.k"))))
        assert broker.asked[2].auth_bytes == b"\x01"


# KIP-368.


async def renewable(broker: ScriptedBroker, *later: Any) -> BrokerConnection:
    """Open a connection whose session is about to expire; `later` are the next
    responses."""
    lasting = m.SaslAuthenticateResponse(session_lifetime_ms=HOUR_MS)
    accepting(broker, lasting, *(later or [lasting]))
    connection = await connect(broker)
    connection._reauthenticate_at_s = 0.0
    broker.asked.clear()
    return connection


async def test_a_session_without_a_lifetime_is_not_reauthenticated() -> None:
    async with ScriptedBroker() as broker:
        accepting(broker)
        connection = await connect(broker)
        await heartbeat(connection)
        assert kinds(broker) == ["h", "a", "-"]
        connection.close()


async def test_reauthentication_precedes_the_end_of_the_session() -> None:
    async with ScriptedBroker() as broker:
        connection = await renewable(broker)
        await asyncio.gather(*(heartbeat(connection) for _ in range(3)))
        await heartbeat(connection)
        assert kinds(broker) == ["h", "a", "-", "-", "-", "-"]
        now_s = asyncio.get_running_loop().time()
        assert (
            0.8 * HOUR_MS
            < (connection._reauthenticate_at_s - now_s) * 1000
            < 0.9 * HOUR_MS
        )
        connection.close()


async def test_a_cancelled_request_does_not_stop_the_reauthentication() -> None:
    async with ScriptedBroker() as broker:
        connection = await renewable(broker)
        first = asyncio.create_task(heartbeat(connection))
        second = asyncio.create_task(heartbeat(connection))
        await broker.until(lambda: bool(broker.asked))
        first.cancel()
        assert await second == 0
        assert kinds(broker) == ["h", "a", "-"]
        connection.close()


async def test_a_rejected_reauthentication_closes_the_connection() -> None:
    async with ScriptedBroker() as broker:
        refused = m.SaslAuthenticateResponse(error_code=58, error_message="not again")
        connection = await renewable(broker, refused)
        told = await asyncio.gather(
            heartbeat(connection), heartbeat(connection), return_exceptions=True
        )
        assert [type(each) for each in told] == [AuthenticationFailed] * 2
        assert not connection.is_open
        with pytest.raises(ConnectionLost, match="not again"):
            await heartbeat(connection)


async def test_a_failed_reauthentication_without_requests_logs_no_asyncio_error() -> (
    None
):
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context)
    )
    async with ScriptedBroker() as broker:
        connection = await renewable(broker, SILENCE)
        waiting = asyncio.create_task(heartbeat(connection))
        await broker.until(lambda: kinds(broker) == ["h", "a"])
        waiting.cancel()
        connection.close()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert connection._reauthentication is None
    assert failures == []
