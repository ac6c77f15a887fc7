"""Helpers for servers with TLS and SASL: certificates, users and authentication."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from scramp import ScramClient

from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import frame_of
from tests.broker.server.harness import WireClient

USERS = {"alice": "alice's secret", "bob": "bob's, = secret ü"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class Certificates:
    """PEM files of a certificate authority, a local server and the client Alice."""

    authority: Path
    server: Path
    alice: Path

    def client(self, *, certificate: Path | None = None) -> ssl.SSLContext:
        """Return the TLS context of a client."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


def make_certificates(directory: Path) -> Certificates:
    """Create a certificate authority, and the certificates that it signs."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Certificates(
        *(directory / f"{name}.pem" for name in ("authority", "server", "alice"))
    )
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(made.authority))
    server = authority.issue_cert("localhost", "127.0.0.1")
    server.private_key_and_cert_chain_pem.write_to_path(str(made.server))
    alice = authority.issue_cert(
        "alice@example.com",
        common_name="alice",
        organization_name="Example, Inc.",
        organization_unit_name="Tests",
    )
    alice.private_key_and_cert_chain_pem.write_to_path(str(made.alice))
    return made


def users_file(directory: Path, users: dict[str, str] = USERS) -> Path:
    """Create a users file for `sasl.users.file`."""
    path = directory / "users.toml"
    lines = [f'{name} = "{password}"' for name, password in users.items()]
    path.write_text("\n".join(["[users]", *lines, ""]), encoding="utf-8")
    path.chmod(0o600)
    return path


def handshake(client: WireClient, mechanism: str, version: int = 1) -> Any:
    """Select a mechanism; return the response."""
    return client.call(m.SaslHandshakeRequest(mechanism=mechanism), version)


def send_token(client: WireClient, token: bytes, version: int = 2) -> Any:
    """Send a token; return the response."""
    return client.call(m.SaslAuthenticateRequest(auth_bytes=token), version)


def plain_token(user: str, password: str) -> bytes:
    """Return the token of PLAIN."""
    return f"\0{user}\0{password}".encode()


def sign_in(
    client: WireClient, user: str = "alice", *, mechanism: str = "SCRAM-SHA-256"
) -> Any:
    """Authenticate; return the last response."""
    assert handshake(client, mechanism).error_code == ErrorCode.NONE
    if mechanism == "PLAIN":
        return send_token(client, plain_token(user, USERS[user]))
    talk = ScramClient([mechanism], user, USERS[user])
    first = send_token(client, talk.get_client_first().encode())
    assert first.error_code == ErrorCode.NONE
    talk.set_server_first(first.auth_bytes.decode())
    last = send_token(client, talk.get_client_final().encode())
    talk.set_server_final(last.auth_bytes.decode())
    return last


def send_bare(client: WireClient, token: bytes) -> bytes:
    """Send a token without request header, as old clients do; return the response."""
    client.socket.sendall(frame_of(token))
    return client.receive_frame()
