"""The door where clients say who they are, of Coterie and of Apache Kafka alike.

Behind it access control lists count: the admin may do everything, others what they are
allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coterie.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.clients.process import ServerProcess
from tests.server.harness import WireClient

from .node import PASSWORDS

MECHANISM = "PLAIN"


@dataclass(frozen=True)
class Door:
    """HOST:PORT of a listener with SASL."""

    kind: str
    address: str

    def settings(self, user: str) -> dict[str, str]:
        """How librdkafka comes in as that user."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }

    def options(self, user: str) -> dict[str, object]:
        """How kafka-python comes in as that user."""
        return {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": user,
            "sasl_plain_password": PASSWORDS[user],
        }

    def client(self, user: str) -> WireClient:
        """A connection of that user's."""
        host, _, port = self.address.rpartition(":")
        client = WireClient(host, int(port))
        shaken = client.call(SaslHandshakeRequest(mechanism=MECHANISM), 1)
        assert shaken.error_code == 0, shaken
        token = f"\0{user}\0{PASSWORDS[user]}".encode()
        known = client.call(SaslAuthenticateRequest(auth_bytes=token), 0)
        assert known.error_code == 0, known
        return client


def open_door(directory: Path, *settings: str) -> ServerProcess:
    """Start Coterie behind such a door."""
    users = directory / "users.toml"
    lines = [f'{name} = "{password}"' for name, password in PASSWORDS.items()]
    directory.mkdir(parents=True, exist_ok=True)
    users.write_text("\n".join(["[users]", *lines]), encoding="utf-8")
    users.chmod(0o600)
    said = [
        "authorizer=acl",
        "super.users=User:admin",
        f"sasl.users.file={users}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        *settings,
    ]
    words = [word for setting in said for word in ("--set", setting)]
    where = "SASL_PLAINTEXT://127.0.0.1:0"
    return ServerProcess(directory, "--memory", *words, listen=where)
