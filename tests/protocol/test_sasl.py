"""How far a connection gets with saying who it is, request by request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.errors import ApiError, MalformedFrame
from coterie.protocol.sasl import Accepted, Authentication, Stage
from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.error_codes import ErrorCode

HELLO = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE})


class Password:
    """A mechanism: whoever sends NAME:SECRET is NAME, after a token that begins it."""

    is_slow = False

    def __init__(self) -> None:
        self.user: str | None = None

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
    say(sasl, f"{user}:secret".encode())
    return sasl


def say(sasl: Authentication, token: bytes, now_ms: int = 0) -> Accepted:
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


# The first time.


def test_before_a_handshake_only_versions_and_the_handshake_are_served() -> None:
    assert admitted(fresh()) == HELLO


def test_tokens_go_on_until_the_user_is_known() -> None:
    sasl = fresh()
    assert sasl.mechanisms == ["ONE", "TWO"]
    sasl.handshake("ONE", 1, now_ms=0)
    assert sasl.takes_tokens
    assert admitted(sasl) == HELLO | {ApiKey.SASL_AUTHENTICATE}
    assert say(sasl, b"hello") == Accepted(b"go on", 0)
    assert sasl.user is None
    assert say(sasl, b"me:secret") == Accepted(b"done", 0)
    assert sasl.user == "me"
    assert sasl.is_open
    assert admitted(sasl) == set(ADVERTISED)


def test_after_an_old_handshake_tokens_come_bare() -> None:
    sasl = fresh()
    sasl.handshake("ONE", 0, now_ms=0)
    assert sasl.stage is Stage.BARE_TOKENS
    assert admitted(sasl) == set()
    say(sasl, b"me:secret")
    assert sasl.is_open


def test_a_mechanism_that_is_not_enabled_ends_it() -> None:
    sasl = fresh()
    assert code_of(sasl, "THREE") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sasl.stage is Stage.REFUSED
    assert admitted(sasl) == set()


def test_a_second_handshake_is_out_of_turn() -> None:
    sasl = fresh()
    sasl.handshake("ONE", 1, now_ms=0)
    assert code_of(sasl, "ONE") is ErrorCode.ILLEGAL_SASL_STATE
    assert sasl.stage is Stage.REFUSED


@pytest.mark.parametrize(
    ("begin", "word"), [(fresh, "authentication"), (signed_in, "re-authentication")]
)
def test_a_refusal_without_words_gets_those_of_all(
    begin: Callable[[int], Authentication], word: str
) -> None:
    sasl = begin(60_000)
    sasl.handshake("ONE", 1, now_ms=5_000)
    with pytest.raises(ApiError) as refused:
        sasl.respond(b"me:wrong")
    told = sasl.refuse(refused.value)
    assert told.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert told.message == (
        f"Authentication failed during {word} due to invalid credentials with SASL "
        "mechanism ONE"
    )
    assert sasl.stage is Stage.REFUSED


def test_a_refusal_with_words_keeps_them() -> None:
    sasl = fresh()
    sasl.handshake("ONE", 1, now_ms=0)
    error = ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "no")
    assert sasl.refuse(error) is error


# Again (KIP-368).


def test_sessions_that_never_end_are_not_begun_again() -> None:
    sasl = signed_in()
    assert code_of(sasl, "ONE", now_ms=10**12) is ErrorCode.ILLEGAL_SASL_STATE
    assert sasl.is_open


def test_a_session_ends_unless_it_is_begun_again() -> None:
    sasl = fresh(session_ms=60_000)
    sasl.handshake("ONE", 1, now_ms=500)
    assert say(sasl, b"me:secret", now_ms=1_000).lifetime_ms == 60_000
    sasl.at(61_000)
    assert sasl.is_open
    sasl.at(61_001)
    assert not sasl.is_open
    assert admitted(sasl) == {ApiKey.SASL_HANDSHAKE}
    sasl.handshake("ONE", 1, now_ms=61_002)
    say(sasl, b"me:secret", now_ms=61_003)
    sasl.at(121_003)
    assert sasl.is_open


def test_nobody_begins_again_twice_in_a_second() -> None:
    sasl = signed_in(60_000)
    sasl.handshake("ONE", 1, now_ms=5_000)
    say(sasl, b"me:secret", now_ms=5_000)
    assert code_of(sasl, "ONE", now_ms=5_999) is ErrorCode.ILLEGAL_SASL_STATE
    assert sasl.is_open
    sasl.handshake("ONE", 1, now_ms=6_000)
    assert sasl.takes_tokens


def test_nobody_becomes_somebody_else() -> None:
    sasl = signed_in(60_000)
    sasl.handshake("ONE", 1, now_ms=5_000)
    with pytest.raises(ApiError) as refused:
        say(sasl, b"you:secret")
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.value.message == (
        "Cannot change principals during re-authentication from User.me: User.you"
    )
    assert sasl.user == "me"


def test_nobody_comes_again_by_another_mechanism() -> None:
    sasl = signed_in(60_000)
    sasl.handshake("TWO", 1, now_ms=5_000)
    with pytest.raises(ApiError) as refused:
        sasl.respond(b"me:secret")
    assert refused.value.message == (
        "SASL mechanism 'TWO' requested by client is not supported for "
        "re-authentication of mechanism 'ONE'"
    )


def test_a_mechanism_that_is_not_enabled_ends_it_the_second_time_too() -> None:
    sasl = signed_in(60_000)
    assert code_of(sasl, "THREE", 5_000) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sasl.stage is Stage.REFUSED
