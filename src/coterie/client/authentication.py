"""Carries SASL tokens over a connection that has just been made, or whose session is
about to end: SaslHandshake, then SaslAuthenticate until both sides agree (KIP-43,
KIP-152)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie.errors import AuthenticationFailed, ConnectionLost
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.wire.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coterie.wire.schema import Versions

if TYPE_CHECKING:
    from coterie.client.connection import BrokerConnection
    from coterie.client.sasl import Credentials

_BARE_TOKENS: Final = Versions(0, 0)
_TOKENS_BY_REQUEST: Final = Versions(1, 1)


async def authenticate(connection: BrokerConnection, credentials: Credentials) -> int:
    """Say who we are; how long the broker believes it, in ms, 0 for ever (KIP-368).

    Raises AuthenticationFailed, and what `BrokerConnection.call` does.
    """
    if not connection.serves(SaslAuthenticateRequest):
        await _agree_on_mechanism(connection, credentials.mechanism, _BARE_TOKENS)
        return await _send_bare_tokens(connection, credentials)
    await _agree_on_mechanism(connection, credentials.mechanism, _TOKENS_BY_REQUEST)
    return await _send_tokens(connection, credentials)


async def _send_tokens(connection: BrokerConnection, credentials: Credentials) -> int:
    conversation = await credentials.begin()
    token = next(conversation)
    while True:
        answer = await connection.call(
            SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse
        )
        if answer.error_code:
            raise _refused(connection, credentials, answer)
        try:
            token = conversation.send(answer.auth_bytes)
        except StopIteration:
            return answer.session_lifetime_ms


async def _send_bare_tokens(
    connection: BrokerConnection, credentials: Credentials
) -> int:
    """As brokers before 1.0 expect it. One that does not believe us hangs up."""
    conversation = await credentials.begin()
    token = next(conversation)
    while True:
        try:
            token = conversation.send(await connection.exchange_bare(token))
        except StopIteration:
            return 0
        except ConnectionLost as error:
            raise AuthenticationFailed(
                f"{connection.address} hung up when it was told who calls, by "
                f"{credentials.mechanism}: most likely it does not believe it"
            ) from error


async def _agree_on_mechanism(
    connection: BrokerConnection, mechanism: str, version: Versions
) -> None:
    answer = await connection.call(
        SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, wanted=version
    )
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        takes = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationFailed(
            f"{connection.address} does not take {mechanism}; it takes {takes}"
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed(
            f"{connection.address} does not ask who calls there: its listener has no "
            "SASL; use another port, or no SASL"
        )
    if answer.error_code:
        code = ErrorCode.read(answer.error_code).name
        raise AuthenticationFailed(f"{connection.address} refuses {mechanism}: {code}")


def _refused(
    connection: BrokerConnection,
    credentials: Credentials,
    answer: SaslAuthenticateResponse,
) -> AuthenticationFailed:
    words = answer.error_message or ErrorCode.read(answer.error_code).name
    return AuthenticationFailed(
        f"{connection.address} refuses {credentials.mechanism}: {words}"
    )
