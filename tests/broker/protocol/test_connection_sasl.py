"""A connection with SASL: the requests that are decoded in each state."""

from __future__ import annotations

import pytest

from coterie.broker.protocol.connection import RAW_TOKEN, Connection, Request
from coterie.broker.protocol.sasl import Authentication
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.framing import frame_of
from tests.broker.protocol.test_connection import heartbeat, received, request_bytes
from tests.broker.protocol.test_sasl import Password

FRAME_BYTES_MAX = 10_000
TOKEN_BYTES_MAX = 200
VERSIONS = request_bytes(m.ApiVersionsRequest(), 2, 1)


class Guarded:
    """A connection and its authentication; the test takes the server's role."""

    def __init__(self, session_ms: int = 0) -> None:
        self.sasl = Authentication(
            {"ONE": Password}, session_ms=session_ms, frame_bytes_max=TOKEN_BYTES_MAX
        )
        self.connection = Connection(FRAME_BYTES_MAX, sasl=self.sasl)

    def one(self, data: bytes = b"") -> Request:
        (request,) = received(self.connection, data)
        return request

    def shake(self, request: Request, now_ms: int = 0) -> None:
        self.sasl.handshake("ONE", request.api_version, now_ms)
        self.connection.respond(request, m.SaslHandshakeResponse())

    def authenticate(self, request: Request) -> None:
        token = self.sasl.accept(self.sasl.respond(request.body.auth_bytes)(), 0).token
        self.connection.respond(request, m.SaslAuthenticateResponse(auth_bytes=token))

    def signed_in(self) -> Connection:
        self.shake(self.one(handshake(1)))
        self.authenticate(self.one(token_request(b"me:secret")))
        self.connection.data_to_send()
        return self.connection


def handshake(version: int) -> bytes:
    return request_bytes(m.SaslHandshakeRequest(mechanism="ONE"), version, 2)


def token_request(token: bytes) -> bytes:
    return request_bytes(m.SaslAuthenticateRequest(auth_bytes=token), 2, 3)


def test_requests_are_read_one_by_one_until_authentication() -> None:
    guarded = Guarded()
    peer = guarded.connection
    everything = (
        VERSIONS + handshake(1) + token_request(b"me:secret") + heartbeat(4) * 2
    )
    versions = guarded.one(everything)
    assert versions.api_key == ApiKey.API_VERSIONS
    assert not peer.has_request(), "the first has no answer yet"
    assert received(peer, b"") == []
    peer.respond(versions, m.ApiVersionsResponse())
    assert peer.has_request()
    guarded.shake(guarded.one())
    guarded.authenticate(guarded.one())
    rest = received(peer, b"")
    assert [each.api_key for each in rest] == [ApiKey.HEARTBEAT] * 2
    assert not peer.has_request()


@pytest.mark.parametrize("before", [b"", VERSIONS])
def test_another_request_before_authentication_closes_the_connection(
    before: bytes,
) -> None:
    guarded = Guarded()
    peer = guarded.connection
    if before:
        peer.respond(guarded.one(before), m.ApiVersionsResponse())
    assert received(peer, heartbeat(4)) == []
    assert "a request with API key 12 before authentication" in str(peer.failure)
    assert not peer.has_request()


@pytest.mark.fact("G1-03")
def test_an_unknown_api_versions_version_does_not_end_the_connection() -> None:
    guarded = Guarded()
    future = bytearray(request_bytes(m.ApiVersionsRequest(), 4, 7))
    future[6:8] = b"\0\x63"
    assert received(guarded.connection, bytes(future) + VERSIONS) != []
    answer = guarded.connection.data_to_send()
    assert answer[4:10] == b"\0\0\0\7\0\x23", "correlation id, UNSUPPORTED_VERSION"


def test_a_token_before_the_handshake_closes_the_connection() -> None:
    guarded = Guarded()
    assert received(guarded.connection, token_request(b"me:secret")) == []
    assert guarded.connection.failure is not None


def test_tokens_after_handshake_v0_are_frames() -> None:
    guarded = Guarded()
    peer = guarded.connection
    guarded.shake(guarded.one(handshake(0)))
    peer.data_to_send()
    token = guarded.one(frame_of(b"me:secret"))
    assert (token.api_key, token.api_version) == (ApiKey.SASL_AUTHENTICATE, RAW_TOKEN)
    assert token.body == m.SaslAuthenticateRequest(auth_bytes=b"me:secret")
    guarded.authenticate(token)
    assert peer.data_to_send() == frame_of(b"done")
    assert guarded.one(heartbeat(5)).api_key == ApiKey.HEARTBEAT


def test_an_invalid_raw_token_closes_the_connection_without_a_response() -> None:
    guarded = Guarded()
    guarded.shake(guarded.one(handshake(0)))
    guarded.connection.data_to_send()
    token = guarded.one(frame_of(b"me:wrong"))
    refusal = m.SaslAuthenticateResponse(error_code=58, error_message="no")
    guarded.connection.respond(token, refusal)
    assert guarded.connection.data_to_send() == b""


def test_an_unauthenticated_client_may_send_only_small_frames() -> None:
    guarded = Guarded()
    peer = guarded.connection
    assert received(peer, (TOKEN_BYTES_MAX + 1).to_bytes(4, "big")) == []
    assert "frame of 201 bytes" in str(peer.failure)


def test_an_authenticated_client_may_send_large_frames() -> None:
    peer = Guarded().signed_in()
    long = request_bytes(m.ApiVersionsRequest(), 2, 1, client_id="x" * TOKEN_BYTES_MAX)
    assert len(received(peer, long)) == 1


def test_requests_after_a_reauthentication_handshake_wait_for_its_response() -> None:
    guarded = Guarded(session_ms=60_000)
    peer = guarded.signed_in()
    first = guarded.one(heartbeat(1) + handshake(1) + token_request(b"me:secret"))
    assert first.api_key == ApiKey.HEARTBEAT
    assert peer.is_blocked
    peer.respond(first, None)
    assert peer.has_request()
    handshaken = guarded.one()
    assert received(peer) == []
    assert peer.is_blocked, "the response determines the decoding of the token"
    guarded.shake(handshaken, now_ms=5_000)
    assert not peer.is_blocked
    assert guarded.one().api_key == ApiKey.SASL_AUTHENTICATE


def test_an_expired_session_accepts_only_reauthentication() -> None:
    guarded = Guarded(session_ms=60_000)
    peer = guarded.signed_in()
    guarded.sasl.expire_session(60_001)
    assert received(peer, heartbeat(1)) == []
    assert "after the session expired" in str(peer.failure)


def test_the_heartbeat_memo_is_not_used_before_authentication() -> None:
    taken: list[bytes] = []

    def fast_path(frame: bytes) -> bytes:
        taken.append(frame)
        return b"short"

    sasl = Authentication({"ONE": Password}, session_ms=60_000, frame_bytes_max=200)
    peer = Connection(
        FRAME_BYTES_MAX, fast_path=fast_path, fast_path_prefixes=(b"\0\x0c",), sasl=sasl
    )
    guarded = Guarded()
    guarded.sasl, guarded.connection = sasl, peer
    guarded.signed_in()
    assert received(peer, heartbeat(1)) == []
    assert peer.data_to_send() == b"short"
    sasl.expire_session(60_001)
    assert received(peer, heartbeat(2)) == []
    assert peer.failure is not None
    assert len(taken) == 1
