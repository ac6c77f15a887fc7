"""The user that forwarded SASL frames authenticate."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from coterie.auth.acl import ANONYMOUS, Principal
from coterie.errors import MalformedFrame
from coterie.gateway.path.sasl import SaslExchange
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import (
    SIZE_BYTES,
    RequestHeaderV0,
    read_response,
    write_request,
    write_response,
)
from coterie.wire.schema import Message

ALICE = Principal("User", "alice")
SCRAM_FIRST = b"n,,n=alice,r=0aZ"
FAULT = b'{"status":"invalid_token"}'


def jwt(claims: object, *, signature: str = "c2ln") -> str:
    def part(value: object) -> str:
        text = json.dumps(value).encode()
        return base64.urlsafe_b64encode(text).decode().rstrip("=")

    return f"{part({'alg': 'RS256'})}.{part(claims)}.{signature}"


def oauth(token: str, *, head: str = "n,,", more: str = "") -> bytes:
    return f"{head}\x01auth=Bearer {token}\x01{more}\x01".encode()


class Client:
    """A client and its upstream. `now_ms` is the clock's time."""

    def __init__(self, *, version: int = 2, **options: Any) -> None:
        self.now_ms = 0
        self.exchange = SaslExchange(lambda: self.now_ms, **options)
        self.version = version
        self._ids = 0

    @property
    def principal(self) -> Principal | None:
        return self.exchange.principal

    def request(self, message: Message, version: int) -> Any:
        """Pass a request; return the decoded refusal, or None."""
        self._ids += 1
        flexible = version in message.FLEXIBLE
        header = RequestHeaderV0(message.API_KEY, version, self._ids)
        frame = write_request(header, "me", encode(message, version), flexible=flexible)
        refusal = self.exchange.request(frame[SIZE_BYTES:])
        if refusal is None:
            return None
        correlation_id, at = read_response(refusal[SIZE_BYTES:], tagged=flexible)
        assert correlation_id == self._ids
        kind: type[Message] = (
            m.SaslHandshakeResponse
            if isinstance(message, m.SaslHandshakeRequest)
            else m.SaslAuthenticateResponse
        )
        return decode(kind, version, refusal[SIZE_BYTES:], at)[0]

    def answer(self, message: Message, version: int) -> None:
        tagged = version in message.FLEXIBLE
        body = encode(message, version)
        frame = write_response(self._ids, body, tagged=tagged)
        self.exchange.answer(frame[SIZE_BYTES:])

    def greet(
        self, mechanism: str, *, version: int = 1, error: ErrorCode = ErrorCode.NONE
    ) -> Any:
        asked = m.SaslHandshakeRequest(mechanism=mechanism)
        refusal = self.request(asked, version)
        if refusal is None:
            self.answer(m.SaslHandshakeResponse(error_code=error), version)
        return refusal

    def send(self, token: bytes) -> Any:
        return self.request(m.SaslAuthenticateRequest(auth_bytes=token), self.version)

    def receive(
        self, token: bytes = b"", error: ErrorCode = ErrorCode.NONE, life_ms: int = 0
    ) -> None:
        response = m.SaslAuthenticateResponse(
            error_code=error, auth_bytes=token, session_lifetime_ms=life_ms
        )
        self.answer(response, self.version)

    def authenticate(self, mechanism: str, *steps: tuple[bytes, bytes]) -> None:
        assert self.greet(mechanism) is None
        for token, answer in steps:
            assert self.principal is None
            assert self.send(token) is None
            self.receive(answer)


# The user of each mechanism.


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_has_the_user_name(version: int) -> None:
    client = Client(version=version)
    client.authenticate("PLAIN", (b"\0alice\0secret", b""))
    assert client.principal == ALICE


@pytest.mark.parametrize(
    ("first", "user"),
    [
        (b"n,,n=alice,r=abc", "alice"),
        (b"n,a=alice,n=alice,r=abc", "alice"),
        (b"n,,n=a=2Cb=3Dc,r=abc", "a,b=c"),
        (b"n,,n=alice,r=abc,x=unknown", "alice"),
    ],
)
def test_scram_has_the_user_name_without_escapes(first: bytes, user: str) -> None:
    client = Client()
    client.authenticate("SCRAM-SHA-512", (first, b"r=abc,s=QQ==,i=4096"))
    assert client.principal is None
    client.send(b"c=biws,r=abcdef,p=AAAA")
    client.receive(b"v=AAAA")
    assert client.principal == Principal("User", user)


def test_oauthbearer_has_the_subject_of_the_token() -> None:
    client = Client()
    client.authenticate("OAUTHBEARER", (oauth(jwt({"sub": "alice"})), b""))
    assert client.principal == ALICE


# Upstream decides.


def test_a_refused_token_authenticates_nobody() -> None:
    client = Client()
    client.greet("PLAIN")
    client.send(b"\0alice\0wrong")
    client.receive(error=ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert client.principal is None


def test_the_first_token_of_scram_authenticates_nobody() -> None:
    client = Client()
    client.authenticate("SCRAM-SHA-256", (SCRAM_FIRST, b"v=first"))
    assert client.principal is None


def test_a_fault_of_scram_without_an_error_code_authenticates_nobody() -> None:
    client = Client()
    steps = (SCRAM_FIRST, b"r=1"), (b"c=biws", b"e=invalid-proof")
    client.authenticate("SCRAM-SHA-256", *steps)
    assert client.principal is None


def test_a_fault_of_oauthbearer_authenticates_nobody() -> None:
    client = Client()
    client.authenticate("OAUTHBEARER", (oauth(jwt({"sub": "alice"})), FAULT))
    assert client.principal is None
    client.send(b"\x01")
    with pytest.raises(MalformedFrame, match="without a user"):
        client.receive(b"")


def test_another_token_after_a_fault_has_its_own_user() -> None:
    """Send an expired token of alice, and then a valid one of mallory."""
    client = Client()
    client.authenticate(
        "OAUTHBEARER",
        (oauth(jwt({"sub": "alice"})), FAULT),
        (oauth(jwt({"sub": "mallory"})), b""),
    )
    assert client.principal == Principal("User", "mallory")


def test_a_refused_handshake_begins_nothing() -> None:
    client = Client()
    client.greet("PLAIN", error=ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    with pytest.raises(MalformedFrame, match="without a handshake"):
        client.send(b"\0alice\0secret")


def test_requests_may_not_overtake_responses() -> None:
    client = Client()
    client.greet("PLAIN")
    client.send(b"\0mallory\0secret")
    with pytest.raises(MalformedFrame, match="before the response"):
        client.send(b"\0alice\0secret")


# Tokens that are refused.


@pytest.mark.parametrize(
    ("mechanism", "token", "words"),
    [
        ("PLAIN", b"alice\0secret", "2 parts"),
        ("PLAIN", b"\0alice\0mallory\0secret", "4 parts"),
        ("PLAIN", b"alice\0mallory\0secret", "authorization id"),
        ("PLAIN", b"\0\0secret", "authorization id"),
        ("PLAIN", b"\0\xff\0secret", "utf-8"),
        ("SCRAM-SHA-256", b"n,,n=alice", "client-first-message"),
        ("SCRAM-SHA-256", b"n,,n=mallory,n=alice,r=abc", "client-first-message"),
        ("SCRAM-SHA-256", b"n,a=alice,n=mallory,r=abc", "authorization id"),
        ("SCRAM-SHA-256", b"n,,n=id,r=abc,tokenauth=true", "delegation token"),
        ("OAUTHBEARER", b"n,,\x01\x01", "no single bearer"),
        ("OAUTHBEARER", b"garbage", "first response"),
        ("OAUTHBEARER", oauth("opaque"), "JSON Web Token"),
        ("OAUTHBEARER", oauth(jwt({})), "claim 'sub'"),
        ("OAUTHBEARER", oauth(jwt({"sub": 7})), "claim 'sub'"),
        ("OAUTHBEARER", oauth(jwt({"sub": " alice"})), "claim 'sub'"),
        ("OAUTHBEARER", oauth(jwt(["sub"])), "claim 'sub'"),
        ("OAUTHBEARER", oauth("a.b.c"), "OAUTHBEARER token"),
        (
            "OAUTHBEARER",
            oauth(jwt({"sub": "a"}), more=f"auth=Bearer {jwt({'sub': 'b'})}\x01"),
            "no single bearer",
        ),
        (
            "OAUTHBEARER",
            oauth(jwt({"sub": "mallory"}), head="n,a=alice,"),
            "authorization id",
        ),
    ],
)
def test_an_unclear_token_is_refused(mechanism: str, token: bytes, words: str) -> None:
    client = Client()
    client.greet(mechanism)
    refusal = client.send(token)
    assert refusal.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert words in refusal.error_message
    assert client.principal is None


def test_a_mechanism_without_readable_users_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusal = Client().greet("GSSAPI")
    assert refusal.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "PLAIN" in refusal.mechanisms
    assert "cannot read who its clients are" in caplog.text


def test_without_rights_a_client_of_any_mechanism_is_anonymous() -> None:
    client = Client(needs_principal=False)
    client.authenticate("GSSAPI", (b"ticket", b"reply"), (b"", b"wrap"), (b"qop", b""))
    assert client.principal == ANONYMOUS
    client = Client(needs_principal=False)
    client.authenticate("OAUTHBEARER", (oauth("opaque"), b""))
    assert client.principal == ANONYMOUS


# Tokens without headers.


def test_tokens_follow_a_first_handshake_as_bare_frames() -> None:
    client = Client()
    client.greet("SCRAM-SHA-256", version=0)
    exchange = client.exchange
    assert exchange.expects_token
    assert exchange.request(SCRAM_FIRST) is None
    exchange.answer(b"r=abcdef,s=QQ==,i=4096")
    assert exchange.expects_token
    assert exchange.request(b"c=biws,r=abcdef,p=AAAA") is None
    exchange.answer(b"v=AAAA")
    assert not exchange.expects_token
    assert client.principal == ALICE


def test_an_unclear_bare_token_closes_the_connection() -> None:
    client = Client()
    client.greet("PLAIN", version=0)
    with pytest.raises(MalformedFrame, match="cannot read"):
        client.exchange.request(b"alice\0mallory\0secret")


# Sessions.


def authenticated(life_ms: int) -> Client:
    client = Client()
    client.greet("PLAIN")
    client.send(b"\0alice\0secret")
    client.receive(life_ms=life_ms)
    assert client.principal == ALICE
    return client


def test_a_session_ends_with_its_lifetime() -> None:
    client = authenticated(1_000)
    client.now_ms = 1_000
    assert client.principal == ALICE
    client.now_ms = 1_001
    assert client.principal is None


def test_re_authentication_begins_another_session() -> None:
    client = authenticated(1_000)
    client.now_ms = 900
    client.authenticate("PLAIN", (b"\0alice\0newer", b""))
    client.now_ms = 100_000
    assert client.principal == ALICE


def test_re_authentication_that_fails_ends_the_session() -> None:
    client = authenticated(0)
    client.greet("PLAIN")
    client.send(b"\0alice\0wrong")
    client.receive(error=ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert client.principal is None


def test_re_authentication_keeps_the_user() -> None:
    client = authenticated(0)
    client.greet("PLAIN")
    client.send(b"\0mallory\0secret")
    with pytest.raises(MalformedFrame, match="changes User:alice to User:mallory"):
        client.receive()


@pytest.mark.parametrize("frame", [b"", bytes(10), b"\0\x11\0\7" + bytes(6)])
def test_another_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        Client().exchange.request(frame)
