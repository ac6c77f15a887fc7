"""A connection whose peer has to say first who it is: what is read of it, and when."""

from __future__ import annotations

import pytest

from coterie.protocol.connection import BARE, Connection, Request
from coterie.protocol.sasl import Authentication
from coterie.wire.api import ApiKey
from coterie.wire.framing import frame_of
from coterie.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.wire.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.protocol.test_connection import asked, heartbeat
from tests.protocol.test_sasl import Password

FRAME_BYTES_MAX = 10_000
TOKEN_BYTES_MAX = 200
VERSIONS = asked(ApiVersionsRequest(), 2, 1)


class Guarded:
    """A connection and its authentication, with the server's part done by hand."""

    def __init__(self, session_ms: int = 0) -> None:
        self.sasl = Authentication(
            {"ONE": Password}, session_ms=session_ms, frame_bytes_max=TOKEN_BYTES_MAX
        )
        self.connection = Connection(FRAME_BYTES_MAX, sasl=self.sasl)

    def one(self, data: bytes = b"") -> Request:
        (request,) = self.connection.receive_data(data)
        return request

    def shake(self, request: Request, now_ms: int = 0) -> None:
        self.sasl.handshake("ONE", request.api_version, now_ms)
        self.connection.answer(request, SaslHandshakeResponse())

    def let_in(self, request: Request) -> None:
        token = self.sasl.accept(self.sasl.respond(request.body.auth_bytes)(), 0).token
        self.connection.answer(request, SaslAuthenticateResponse(auth_bytes=token))

    def signed_in(self) -> Connection:
        self.shake(self.one(handshake(1)))
        self.let_in(self.one(token_request(b"me:secret")))
        self.connection.data_to_send()
        return self.connection


def handshake(version: int) -> bytes:
    return asked(SaslHandshakeRequest(mechanism="ONE"), version, 2)


def token_request(token: bytes) -> bytes:
    return asked(SaslAuthenticateRequest(auth_bytes=token), 2, 3)


def test_requests_come_one_by_one_until_it_is_known_who_calls() -> None:
    guarded = Guarded()
    peer = guarded.connection
    everything = (
        VERSIONS + handshake(1) + token_request(b"me:secret") + heartbeat(4) * 2
    )
    versions = guarded.one(everything)
    assert versions.api_key == ApiKey.API_VERSIONS
    assert not peer.is_holding, "the first has no answer yet"
    assert peer.receive_data(b"") == []
    peer.answer(versions, ApiVersionsResponse())
    assert peer.is_holding
    guarded.shake(guarded.one())
    guarded.let_in(guarded.one())
    rest = peer.receive_data(b"")
    assert [each.api_key for each in rest] == [ApiKey.HEARTBEAT] * 2
    assert not peer.is_holding


@pytest.mark.parametrize("before", [b"", VERSIONS])
def test_anything_else_ends_the_connection_unread(before: bytes) -> None:
    guarded = Guarded()
    peer = guarded.connection
    if before:
        peer.answer(guarded.one(before), ApiVersionsResponse())
    assert peer.receive_data(heartbeat(4)) == []
    assert "a request of key 12 before it said who it is" in str(peer.failure)
    assert not peer.is_holding


@pytest.mark.fact("G1-03")
def test_versions_from_the_future_are_answered_and_may_be_asked_again() -> None:
    guarded = Guarded()
    future = bytearray(asked(ApiVersionsRequest(), 4, 7))
    future[6:8] = b"\0\x63"
    assert guarded.connection.receive_data(bytes(future) + VERSIONS) != []
    answer = guarded.connection.data_to_send()
    assert answer[4:10] == b"\0\0\0\7\0\x23", "correlation id, UNSUPPORTED_VERSION"


def test_a_token_before_a_handshake_ends_the_connection() -> None:
    guarded = Guarded()
    assert guarded.connection.receive_data(token_request(b"me:secret")) == []
    assert guarded.connection.failure is not None


def test_tokens_of_old_clients_are_frames_of_their_own() -> None:
    guarded = Guarded()
    peer = guarded.connection
    guarded.shake(guarded.one(handshake(0)))
    peer.data_to_send()
    token = guarded.one(frame_of(b"me:secret"))
    assert (token.api_key, token.api_version) == (ApiKey.SASL_AUTHENTICATE, BARE)
    assert token.body == SaslAuthenticateRequest(auth_bytes=b"me:secret")
    guarded.let_in(token)
    assert peer.data_to_send() == frame_of(b"done")
    assert guarded.one(heartbeat(5)).api_key == ApiKey.HEARTBEAT


def test_a_bare_token_is_refused_without_a_word() -> None:
    guarded = Guarded()
    guarded.shake(guarded.one(handshake(0)))
    guarded.connection.data_to_send()
    token = guarded.one(frame_of(b"me:wrong"))
    refusal = SaslAuthenticateResponse(error_code=58, error_message="no")
    guarded.connection.answer(token, refusal)
    assert guarded.connection.data_to_send() == b""


def test_nobody_unknown_sends_much() -> None:
    guarded = Guarded()
    peer = guarded.connection
    assert peer.receive_data((TOKEN_BYTES_MAX + 1).to_bytes(4, "big")) == []
    assert "a frame of 201 bytes" in str(peer.failure)


def test_who_is_known_may_send_more() -> None:
    peer = Guarded().signed_in()
    long = asked(ApiVersionsRequest(), 2, 1, client_id="x" * TOKEN_BYTES_MAX)
    assert len(peer.receive_data(long)) == 1


def test_what_is_behind_a_later_handshake_waits_for_its_answer() -> None:
    guarded = Guarded(session_ms=60_000)
    peer = guarded.signed_in()
    both = peer.receive_data(heartbeat(1) + handshake(1) + token_request(b"me:secret"))
    assert [each.api_key for each in both] == [12, 17]
    assert peer.is_holding
    assert not peer.is_stuck
    guarded.shake(both[1], now_ms=5_000)
    assert not peer.is_holding, "the heartbeat has no answer yet"
    assert peer.is_stuck, "so whatever comes now would be held, too"
    assert peer.receive_data(b"") == []
    peer.answer(both[0], None)
    assert not peer.is_stuck
    assert guarded.one().api_key == ApiKey.SASL_AUTHENTICATE


def test_after_its_session_a_client_may_only_say_again_who_it_is() -> None:
    guarded = Guarded(session_ms=60_000)
    peer = guarded.signed_in()
    guarded.sasl.at(60_001)
    assert peer.receive_data(heartbeat(1)) == []
    assert "after its session had ended" in str(peer.failure)


def test_no_shortcut_is_taken_by_whoever_is_not_known() -> None:
    taken: list[bytes] = []

    def shortcut(frame: bytes) -> bytes:
        taken.append(frame)
        return b"short"

    sasl = Authentication({"ONE": Password}, session_ms=60_000, frame_bytes_max=200)
    peer = Connection(
        FRAME_BYTES_MAX, shortcut=shortcut, shortcut_fronts=(b"\0\x0c",), sasl=sasl
    )
    guarded = Guarded()
    guarded.sasl, guarded.connection = sasl, peer
    guarded.signed_in()
    assert peer.receive_data(heartbeat(1)) == []
    assert peer.data_to_send() == b"short"
    sasl.at(60_001)
    assert peer.receive_data(heartbeat(2)) == []
    assert peer.failure is not None
    assert len(taken) == 1
