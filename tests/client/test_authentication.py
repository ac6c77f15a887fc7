"""A connection says who calls: against a broker that is scripted."""

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
from coterie.wire.api import ApiKey
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from coterie.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.client.scripted import HANG_UP, SILENCE, ScriptedBroker, in_turn

pytestmark = pytest.mark.asyncio

ALICE = Plain("alice", Secret("hunter2"))
HOUR_MS = 3_600_000


def accepting(broker: ScriptedBroker, *answers: Any) -> None:
    """Have a broker take PLAIN, and answer tokens so."""
    broker.answers[ApiKey.SASL_HANDSHAKE] = in_turn(
        SaslHandshakeResponse(mechanisms=["PLAIN"])
    )
    broker.answers[ApiKey.SASL_AUTHENTICATE] = in_turn(
        *(answers or [SaslAuthenticateResponse()])
    )
    broker.answers[ApiKey.HEARTBEAT] = in_turn(HeartbeatResponse())


async def connect(
    broker: ScriptedBroker, credentials: Credentials = ALICE
) -> BrokerConnection:
    options = ClientOptions(sasl=credentials)
    return await BrokerConnection.open(Address("127.0.0.1", broker.port), options)


async def heartbeat(connection: BrokerConnection) -> int:
    answer = await connection.call(HeartbeatRequest(group_id="g"), HeartbeatResponse)
    return answer.error_code


def kinds(broker: ScriptedBroker) -> list[str]:
    """What a broker was asked, in short: h, a for SASL, - for heartbeats."""
    short = {"SaslHandshakeRequest": "h", "SaslAuthenticateRequest": "a"}
    return [short.get(type(each).__name__, "-") for each in broker.asked]


async def test_it_is_said_who_calls_before_anything_else() -> None:
    async with ScriptedBroker() as broker:
        accepting(broker)
        connection = await connect(broker)
        assert kinds(broker) == ["h", "a"]
        assert broker.asked[0].mechanism == "PLAIN"
        assert broker.asked[1].auth_bytes == b"\0alice\0hunter2"
        connection.close()


async def test_a_refusal_has_the_brokers_words_and_is_not_a_lost_connection() -> None:
    async with ScriptedBroker() as broker:
        said = SaslAuthenticateResponse(error_code=58, error_message="no such luck")
        accepting(broker, said)
        with pytest.raises(AuthenticationFailed, match="refuses PLAIN: no such luck"):
            await connect(broker)
        assert broker.connection_count == 1


async def test_a_refusal_without_words_has_its_code() -> None:
    async with ScriptedBroker() as broker:
        accepting(broker, SaslAuthenticateResponse(error_code=58))
        with pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED"):
            await connect(broker)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (33, "does not take PLAIN; it takes SCRAM-SHA-512, OAUTHBEARER"),
        (34, "does not ask who calls there"),
        (42, "refuses PLAIN: INVALID_REQUEST"),
    ],
)
async def test_a_mechanism_that_is_not_taken_is_told(code: int, why: str) -> None:
    async with ScriptedBroker() as broker:
        accepting(broker)
        broker.answers[ApiKey.SASL_HANDSHAKE] = in_turn(
            SaslHandshakeResponse(
                error_code=code, mechanisms=["SCRAM-SHA-512", "OAUTHBEARER"]
            )
        )
        with pytest.raises(AuthenticationFailed) as refused:
            await connect(broker)
        assert why in str(refused.value)


async def test_a_broker_that_hangs_up_meanwhile_may_do_better_next_time() -> None:
    async with ScriptedBroker() as broker:
        accepting(broker, HANG_UP)
        with pytest.raises(ConnectionLost):
            await connect(broker)


async def test_a_refused_bearer_is_told_in_json_and_acknowledges_it() -> None:
    said = SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')
    refused = SaslAuthenticateResponse(error_code=58, error_message="invalid_token")
    async with ScriptedBroker() as broker:
        accepting(broker, said, refused)
        with pytest.raises(AuthenticationFailed, match="OAUTHBEARER: invalid_token"):
            await connect(broker, OAuthBearer(FixedToken(Secret("t.o.k"))))
        assert broker.asked[2].auth_bytes == b"\x01"


# KIP-368.


async def renewable(broker: ScriptedBroker, *later: Any) -> BrokerConnection:
    """A connection whose session is about to end; `later` answers its next tokens."""
    lasting = SaslAuthenticateResponse(session_lifetime_ms=HOUR_MS)
    accepting(broker, lasting, *(later or [lasting]))
    connection = await connect(broker)
    connection._renew_at_s = 0.0
    broker.asked.clear()
    return connection


async def test_a_session_without_an_end_is_not_renewed() -> None:
    async with ScriptedBroker() as broker:
        accepting(broker)
        connection = await connect(broker)
        await heartbeat(connection)
        assert kinds(broker) == ["h", "a", "-"]
        connection.close()


async def test_a_session_is_renewed_before_it_ends_and_others_wait() -> None:
    async with ScriptedBroker() as broker:
        connection = await renewable(broker)
        await asyncio.gather(*(heartbeat(connection) for _ in range(3)))
        await heartbeat(connection)
        assert kinds(broker) == ["h", "a", "-", "-", "-", "-"]
        now_s = asyncio.get_running_loop().time()
        assert 0.8 * HOUR_MS < (connection._renew_at_s - now_s) * 1000 < 0.9 * HOUR_MS
        connection.close()


async def test_who_gives_up_waiting_does_not_stop_the_renewal() -> None:
    async with ScriptedBroker() as broker:
        connection = await renewable(broker)
        first = asyncio.create_task(heartbeat(connection))
        second = asyncio.create_task(heartbeat(connection))
        await broker.until(lambda: bool(broker.asked))
        first.cancel()
        assert await second == 0
        assert kinds(broker) == ["h", "a", "-"]
        connection.close()


async def test_a_renewal_that_is_refused_ends_the_connection_for_all() -> None:
    async with ScriptedBroker() as broker:
        refused = SaslAuthenticateResponse(error_code=58, error_message="not again")
        connection = await renewable(broker, refused)
        told = await asyncio.gather(
            heartbeat(connection), heartbeat(connection), return_exceptions=True
        )
        assert [type(each) for each in told] == [AuthenticationFailed] * 2
        assert not connection.is_open
        with pytest.raises(ConnectionLost, match="not again"):
            await heartbeat(connection)


async def test_a_renewal_nobody_waits_for_any_more_is_no_error_of_the_loop() -> None:
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
        assert connection._renewal is None
    assert failures == []
