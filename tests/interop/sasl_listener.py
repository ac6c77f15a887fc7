"""A listener with SASL and ACLs, of Coterie and of Apache Kafka.

The user "admin" is a super user; all others need ACL bindings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.server_process import ServerProcess, start_server

from .node import PASSWORDS

MECHANISM = "PLAIN"


@dataclass(frozen=True)
class SaslListener:
    """The address of a listener with SASL, HOST:PORT."""

    kind: str
    address: str

    def settings(self, user: str) -> dict[str, str]:
        """Return librdkafka's settings to authenticate as the user."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }

    def options(self, user: str) -> dict[str, object]:
        """Return kafka-python's options to authenticate as the user."""
        return {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": user,
            "sasl_plain_password": PASSWORDS[user],
        }

    def client(self, user: str, client_id: str = "test") -> WireClient:
        """Open a connection and authenticate as the user."""
        host, _, port = self.address.rpartition(":")
        client = WireClient(host, int(port), client_id=client_id)
        handshake = client.call(m.SaslHandshakeRequest(mechanism=MECHANISM), 1)
        assert handshake.error_code == 0, handshake
        token = f"\0{user}\0{PASSWORDS[user]}".encode()
        authenticated = client.call(m.SaslAuthenticateRequest(auth_bytes=token), 0)
        assert authenticated.error_code == 0, authenticated
        return client


def start_with_sasl(
    directory: Path, *settings: str, data: Path | None = None
) -> ServerProcess:
    """Start Coterie with a SASL listener and ACLs; it stores `data` there, if given."""
    users = directory / "users.toml"
    lines = [f'{name} = "{password}"' for name, password in PASSWORDS.items()]
    directory.mkdir(parents=True, exist_ok=True)
    users.write_text("\n".join(["[users]", *lines]), encoding="utf-8")
    users.chmod(0o600)
    configured = [
        "authorizer=acl",
        "super.users=User:admin",
        f"sasl.users.file={users}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.failure.backoff.ms=0",  # failures of one test must not delay others
        *settings,
    ]
    words = [word for setting in configured for word in ("--set", setting)]
    listener = "SASL_PLAINTEXT://127.0.0.1:0"
    return start_server(*words, data=data, listen=listener)
