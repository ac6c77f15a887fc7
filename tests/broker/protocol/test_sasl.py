"""The SASL states of a connection, request by request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.broker.protocol.sasl import Authentication, SaslState, TokenResponse
from coterie.errors import ApiError, MalformedFrame
from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.error_codes import ErrorCode

HELLO = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE})


class Password:
    """A mechanism of two tokens, of which the second is NAME:SECRET."""

    is_slow = False

    def __init__(self) -> None:
        self.user: str | None = None
        self.claimed_user = ""

    def respond(self, token: bytes) -> Callable[[], bytes]:
        name, _, secret = token.decode().partition(":")
        if not secret:
            return lambda: b"go on"
        if secret != "secret":
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED)
        self.user = name
        return lambda: b"done"


def fresh(session_ms: int = 0) -> Authentication:
    made = {"ONE": Password, "TWO": Password}
    return Authentication(made, session_ms=session_ms, frame_bytes_max=1_000)


def signed_in(session_ms: int = 0, user: str = "me") -> Authentication:
    sasl = fresh(session_ms)
    sasl.handshake("ONE", 1, now_ms=0)
    send_token(sasl, f"{user}:secret".encode())
    return sasl


def send_token(sasl: Authentication, token: bytes, now_ms: int = 0) -> TokenResponse:
    return sasl.accept(sasl.respond(token)(), now_ms)


def code_of(sasl: Authentication, mechanism: str, now_ms: int = 0) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        sasl.handshake(mechanism, 1, now_ms)
    return refused.value.code


def admitted(sasl: Authentication) -> set[ApiKey]:
    found = set()
    for key in ADVERTISED:
        try:
            sasl.admit(key)
        except MalformedFrame:
            continue
        found.add(key)
    return found


# Authentication.


def test_only_api_versions_and_sasl_handshake_are_served_before_the_handshake() -> None:
    assert admitted(fresh()) == HELLO


def test_tokens_are_exchanged_until_the_user_is_authenticated() -> None:
    sasl = fresh()
    assert sasl.mechanisms == ["ONE", "TWO"]
    sasl.handshake("ONE", 1, now_ms=0)
    assert sasl.expects_token
    assert admitted(sasl) == HELLO | {ApiKey.SASL_AUTHENTICATE}
    assert send_token(sasl, b"hello") == TokenResponse(b"go on", 0)
    assert sasl.user is None
    assert send_token(sasl, b"me:secret") == TokenResponse(b"done", 0)
    assert sasl.user == "me"
    assert sasl.is_complete
    assert admitted(sasl) == set(ADVERTISED)


def test_after_handshake_v0_tokens_are_raw_frames() -> None:
    sasl = fresh()
    sasl.handshake("ONE", 0, now_ms=0)
    assert sasl.state is SaslState.RAW_AUTHENTICATE
    assert admitted(sasl) == set()
    send_token(sasl, b"me:secret")
    assert sasl.is_complete


def test_a_disabled_mechanism_fails_the_handshake() -> None:
    sasl = fresh()
    assert code_of(sasl, "THREE") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sasl.state is SaslState.FAILED
    assert admitted(sasl) == set()


def test_a_second_handshake_is_an_illegal_sasl_state() -> None:
    sasl = fresh()
    sasl.handshake("ONE", 1, now_ms=0)
    assert code_of(sasl, "ONE") is ErrorCode.ILLEGAL_SASL_STATE
    assert sasl.state is SaslState.FAILED


@pytest.mark.parametrize(
    ("begin", "word"), [(fresh, "authentication"), (signed_in, "re-authentication")]
)
def test_an_error_without_a_message_gets_the_default_message(
    begin: Callable[[int], Authentication], word: str
) -> None:
    sasl = begin(60_000)
    sasl.handshake("ONE", 1, now_ms=5_000)
    with pytest.raises(ApiError) as refused:
        sasl.respond(b"me:wrong")
    refusal = sasl.refuse(refused.value)
    assert refusal.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refusal.message == (
        f"Authentication failed during {word} due to invalid credentials with SASL "
        "mechanism ONE"
    )
    assert sasl.state is SaslState.FAILED


def test_an_error_with_a_message_is_returned_unchanged() -> None:
    sasl = fresh()
    sasl.handshake("ONE", 1, now_ms=0)
    error = ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "no")
    assert sasl.refuse(error) is error


# Re-authentication (KIP-368).


def test_sessions_without_a_lifetime_cannot_be_re_authenticated() -> None:
    sasl = signed_in()
    assert code_of(sasl, "ONE", now_ms=10**12) is ErrorCode.ILLEGAL_SASL_STATE
    assert sasl.is_complete


def test_a_session_expires_without_re_authentication() -> None:
    sasl = fresh(session_ms=60_000)
    sasl.handshake("ONE", 1, now_ms=500)
    assert send_token(sasl, b"me:secret", now_ms=1_000).lifetime_ms == 60_000
    sasl.expire_session(61_000)
    assert sasl.is_complete
    sasl.expire_session(61_001)
    assert not sasl.is_complete
    assert admitted(sasl) == {ApiKey.SASL_HANDSHAKE}
    sasl.handshake("ONE", 1, now_ms=61_002)
    send_token(sasl, b"me:secret", now_ms=61_003)
    sasl.expire_session(121_003)
    assert sasl.is_complete


def test_a_second_reauthentication_within_one_second_is_refused() -> None:
    sasl = signed_in(60_000)
    sasl.handshake("ONE", 1, now_ms=5_000)
    send_token(sasl, b"me:secret", now_ms=5_000)
    assert code_of(sasl, "ONE", now_ms=5_999) is ErrorCode.ILLEGAL_SASL_STATE
    assert sasl.is_complete
    sasl.handshake("ONE", 1, now_ms=6_000)
    assert sasl.expects_token


def test_reauthentication_cannot_change_the_principal() -> None:
    sasl = signed_in(60_000)
    sasl.handshake("ONE", 1, now_ms=5_000)
    with pytest.raises(ApiError) as refused:
        send_token(sasl, b"you:secret")
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.value.message == (
        "Cannot change principals during re-authentication from User.me: User.you"
    )
    assert sasl.user == "me"


def test_reauthentication_cannot_change_the_mechanism() -> None:
    sasl = signed_in(60_000)
    sasl.handshake("TWO", 1, now_ms=5_000)
    with pytest.raises(ApiError) as refused:
        sasl.respond(b"me:secret")
    assert refused.value.message == (
        "SASL mechanism 'TWO' requested by client is not supported for "
        "re-authentication of mechanism 'ONE'"
    )


def test_a_disabled_mechanism_fails_re_authentication() -> None:
    sasl = signed_in(60_000)
    assert code_of(sasl, "THREE", 5_000) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sasl.state is SaslState.FAILED
