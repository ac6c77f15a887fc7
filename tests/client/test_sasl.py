"""The words of each SASL mechanism."""

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
    """The other side of SCRAM, by the library."""

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


def test_plain_is_name_and_password_in_one_token() -> None:
    conversation = begin(Plain("alice", Secret("pässword")))
    assert next(conversation) == "\0alice\0pässword".encode()
    with pytest.raises(StopIteration):
        conversation.send(b"")


@pytest.mark.parametrize(("name", "password"), [("a\0b", "p"), ("a", "p\0q")])
def test_plain_cannot_send_zero_bytes(name: str, password: str) -> None:
    with pytest.raises(AuthenticationFailed, match="zero byte"):
        next(begin(Plain(name, Secret(password))))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_convinces_a_broker_and_is_convinced(mechanism: str) -> None:
    broker = ScramBroker(mechanism, "secret")
    broker.agree(begin(Scram(mechanism, "a=l,ice", Secret("secret"))))
    assert broker.name == "a=l,ice"


@pytest.mark.parametrize("name", ["\ufb01", "a\u00adb", "\U0001f600", "=2C,"])
def test_scram_sends_the_characters_of_a_name_as_they_are(name: str) -> None:
    first = next(begin(Scram("SCRAM-SHA-256", name, Secret("secret")))).decode()
    said = first.partition(",n=")[2].partition(",r=")[0]
    assert said.replace("=2C", ",").replace("=3D", "=") == name


def test_scram_hashes_the_bytes_of_a_password_as_they_are() -> None:
    """RFC 4013 would make two letters of this one; Kafka does not."""
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
def test_a_broker_that_does_not_keep_to_scram_is_not_believed(said: bytes) -> None:
    conversation = begin(Scram("SCRAM-SHA-256", "alice", Secret("secret")))
    nonce = next(conversation).rpartition(b"r=")[2]
    with pytest.raises(AuthenticationFailed, match="did not keep to SCRAM-SHA-256"):
        conversation.send(said.replace(b"%s", nonce + b"more"))


def test_a_broker_that_does_not_know_the_password_is_not_believed() -> None:
    broker = ScramBroker("SCRAM-SHA-256", "secret")
    conversation = begin(Scram("SCRAM-SHA-256", "alice", Secret("secret")))
    broker.server.set_client_first(next(conversation).decode())
    conversation.send(broker.server.get_server_first().encode())
    with pytest.raises(AuthenticationFailed, match="does not know the password"):
        conversation.send(b"v=bm90IHRoZSBzaWduYXR1cmU=")


def test_there_are_two_scrams() -> None:
    with pytest.raises(ClientError, match="there are SCRAM-SHA-256 and SCRAM-SHA-512"):
        Scram("SCRAM-SHA-1", "alice", Secret("secret"))


def test_a_bearer_shows_its_token_and_what_else_the_broker_is_told() -> None:
    conversation = begin(bearer("t.o.k", {"tenant": "7"}))
    assert next(conversation) == b"n,,\x01auth=Bearer t.o.k\x01tenant=7\x01\x01"
    with pytest.raises(StopIteration):
        conversation.send(b"")


def test_a_bearer_that_is_told_why_not_acknowledges_it() -> None:
    conversation = begin(bearer("t.o.k"))
    next(conversation)
    assert conversation.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        conversation.send(b"")
