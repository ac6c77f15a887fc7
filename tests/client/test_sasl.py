"""The client side of each SASL mechanism."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import pytest
from scramp import ScramMechanism

from coterie.client.oauth import FixedToken
from coterie.client.sasl import Conversation, Credentials, OAuthBearer, Plain, Scram
from coterie.client.secret import Secret
from coterie.errors import AuthenticationFailed, ClientError

SALT = b"salt of a user"


def begin(credentials: Credentials) -> Conversation:
    return asyncio.run(credentials.begin())


def bearer(token: str, extensions: Mapping[str, str] | None = None) -> OAuthBearer:
    return OAuthBearer(FixedToken(Secret(token)), extensions or {})


class ScramBroker:
    """Run the server side of SCRAM with scramp."""

    def __init__(self, mechanism: str, password: str) -> None:
        made = ScramMechanism(mechanism)
        info = made.make_auth_info(password, 4_096, SALT)
        self.name = ""

        def look_up(name: str) -> Any:
            self.name = name
            return info

        self.server: Any = made.make_server(look_up)

    def agree(self, conversation: Conversation) -> None:
        self.server.set_client_first(next(conversation).decode())
        said = conversation.send(self.server.get_server_first().encode())
        self.server.set_client_final(said.decode())
        with pytest.raises(StopIteration):
            conversation.send(self.server.get_server_final().encode())


def test_plain_sends_name_and_password_in_one_token() -> None:
    conversation = begin(Plain("alice", Secret("pässword")))
    assert next(conversation) == "\0alice\0pässword".encode()
    with pytest.raises(StopIteration):
        conversation.send(b"")


@pytest.mark.parametrize(("name", "password"), [("a\0b", "p"), ("a", "p\0q")])
def test_plain_cannot_send_zero_bytes(name: str, password: str) -> None:
    with pytest.raises(AuthenticationFailed, match="zero byte"):
        next(begin(Plain(name, Secret(password))))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_authenticates_both_sides(mechanism: str) -> None:
    broker = ScramBroker(mechanism, "secret")
    broker.agree(begin(Scram(mechanism, "a=l,ice", Secret("secret"))))
    assert broker.name == "a=l,ice"


@pytest.mark.parametrize("name", ["\ufb01", "a\u00adb", "\U0001f600", "=2C,"])
def test_scram_does_not_normalize_user_names(name: str) -> None:
    first = next(begin(Scram("SCRAM-SHA-256", name, Secret("secret")))).decode()
    said = first.partition(",n=")[2].partition(",r=")[0]
    assert said.replace("=2C", ",").replace("=3D", "=") == name


def test_scram_does_not_normalize_passwords() -> None:
    """Use a character that SASLprep (RFC 4013) replaces and Kafka does not."""
    conversation = begin(Scram("SCRAM-SHA-256", "alice", Secret("\ufb01")))
    first = next(conversation).decode().removeprefix("n,,")
    nonce = first.rpartition("r=")[2]
    said = f"r={nonce}more,s={b64encode(SALT).decode()},i=4096"
    final, _, proof = conversation.send(said.encode()).decode().rpartition(",p=")
    salted = hashlib.pbkdf2_hmac("sha256", "\ufb01".encode(), SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    signed = f"{first},{said},{final}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    assert b64decode(proof) == bytes(a ^ b for a, b in zip(key, signature, strict=True))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff",
        b"r=short,s=c2FsdA==,i=4096",
        b"e=other-error",
        b"r=%s,s=c2FsdCBvZiBhIHVzZXI=,i=1",
    ],
)
def test_a_violation_of_scram_fails_authentication(said: bytes) -> None:
    conversation = begin(Scram("SCRAM-SHA-256", "alice", Secret("secret")))
    nonce = next(conversation).rpartition(b"r=")[2]
    with pytest.raises(AuthenticationFailed, match="violates SCRAM-SHA-256"):
        conversation.send(said.replace(b"%s", nonce + b"more"))


def test_a_broker_without_the_credential_fails_authentication() -> None:
    broker = ScramBroker("SCRAM-SHA-256", "secret")
    conversation = begin(Scram("SCRAM-SHA-256", "alice", Secret("secret")))
    broker.server.set_client_first(next(conversation).decode())
    conversation.send(broker.server.get_server_first().encode())
    with pytest.raises(AuthenticationFailed, match="lacks this user"):
        conversation.send(b"v=bm90IHRoZSBzaWduYXR1cmU=")


def test_two_scram_mechanisms_are_supported() -> None:
    with pytest.raises(ClientError, match="use SCRAM-SHA-256 or SCRAM-SHA-512"):
        Scram("SCRAM-SHA-1", "alice", Secret("secret"))


def test_oauthbearer_sends_its_token_and_its_extensions() -> None:
    conversation = begin(bearer("t.o.k", {"tenant": "7"}))
    assert next(conversation) == b"n,,\x01auth=Bearer t.o.k\x01tenant=7\x01\x01"
    with pytest.raises(StopIteration):
        conversation.send(b"")


def test_oauthbearer_acknowledges_an_error_message() -> None:
    conversation = begin(bearer("t.o.k"))
    next(conversation)
    assert conversation.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        conversation.send(b"")
