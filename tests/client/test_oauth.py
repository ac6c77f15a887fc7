"""Providers of bearer tokens."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import trustme

from coterie.client.oauth import (
    ClientCredentials,
    FixedToken,
    Grant,
    TokenFile,
    UnsecuredToken,
)
from coterie.client.sasl import TokenProvider
from coterie.client.secret import Secret
from coterie.client.tls import TlsOptions, make_context
from coterie.errors import AuthenticationFailed, ClientError, ConnectionLost


class Authority:
    """A scripted authorization server on loopback."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, list[str]]]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.said: bytes = json.dumps(
            {"access_token": "t.o.k", "expires_in": 100}
        ).encode()
        authority = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                form = parse_qs(self.rfile.read(size).decode())
                authority.asked.append((self.path, dict(self.headers), form))
                self.send_response(authority.status)
                for name, value in authority.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(authority.said)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"


@pytest.fixture
def authority() -> Iterator[Authority]:
    made = Authority()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def get(provider: TokenProvider) -> str:
    async def once() -> str:
        return (await provider()).reveal()

    return asyncio.run(once())


def grant(url: str, **more: Any) -> Grant:
    return Grant(url=url, client_id="us", client_secret=Secret("hunter2"), **more)


def claims_of(token: str) -> tuple[Any, Any, str]:
    def read(part: str) -> Any:
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))

    header, claims, signature = token.split(".")
    return read(header), read(claims), signature


def test_a_fixed_token_is_returned() -> None:
    assert get(FixedToken(Secret("t.o.k"))) == "t.o.k"


def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert get(TokenFile(file)) == token


def test_a_token_file_without_a_token_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed, match="cannot read a token from"):
        get(TokenFile(tmp_path / "none"))
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(AuthenticationFailed, match="is empty"):
        get(TokenFile(tmp_path / "empty"))


def test_an_unsecured_token_has_no_signature_and_is_created_each_time() -> None:
    times = iter([1_000.0, 2_000.0])
    provider = UnsecuredToken(
        "alice", ("read", "write"), 60, {"team": "x"}, now_s=lambda: next(times)
    )
    header, claims, signature = claims_of(get(provider))
    assert (header, signature) == ({"alg": "none"}, "")
    assert claims == {
        "sub": "alice",
        "iat": 1_000.0,
        "exp": 1_060.0,
        "team": "x",
        "scope": ["read", "write"],
    }
    assert claims_of(get(provider))[1]["exp"] == 2_060.0


def test_client_credentials_are_sent_to_the_token_endpoint_only(
    authority: Authority,
) -> None:
    asked = grant(authority.url, scope="kafka", parameters={"audience": "a b"})
    assert get(ClientCredentials(asked)) == "t.o.k"
    [(path, headers, form)] = authority.asked
    assert path == "/token"
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == (
        b"us:hunter2"
    )
    assert form == {
        "grant_type": ["client_credentials"],
        "scope": ["kafka"],
        "audience": ["a b"],
    }


def test_plain_http_uses_no_proxy(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert get(ClientCredentials(grant(authority.url))) == "t.o.k"


def test_a_token_is_cached_for_four_fifths_of_its_lifetime(
    authority: Authority,
) -> None:
    now_s = 0.0
    provider = ClientCredentials(grant(authority.url), clock_s=lambda: now_s)

    async def at(moment_s: float) -> int:
        nonlocal now_s
        now_s = moment_s
        await asyncio.gather(provider(), provider())
        return len(authority.asked)

    async def story() -> list[int]:
        return [await at(0), await at(79), await at(80), await at(159)]

    assert asyncio.run(story()) == [1, 1, 2, 2]


@pytest.mark.parametrize("status", [500, 503, 408, 429])
def test_a_token_endpoint_with_a_server_error_is_retriable(
    status: int, authority: Authority
) -> None:
    authority.status = status
    with pytest.raises(ConnectionLost, match=f"HTTP {status}"):
        get(ClientCredentials(grant(authority.url)))


def test_a_rejected_token_request_has_the_endpoints_message(
    authority: Authority,
) -> None:
    authority.status = 401
    authority.said = b'{"error": "invalid_client", "error_description": "who?"}'
    with pytest.raises(AuthenticationFailed) as refused:
        get(ClientCredentials(grant(authority.url)))
    assert str(refused.value).endswith("HTTP 401 (invalid_client: who?)")


@pytest.mark.parametrize("said", [b"", b"<html>", b"[]", b'"error"', b"{}"])
def test_an_http_error_without_a_message_is_an_authentication_error(
    said: bytes, authority: Authority
) -> None:
    authority.status, authority.said = 400, said
    with pytest.raises(AuthenticationFailed, match=r"HTTP 400$"):
        get(ClientCredentials(grant(authority.url)))


def test_secrets_are_not_sent_to_a_redirect_target(authority: Authority) -> None:
    authority.status = 307
    authority.headers = {"Location": authority.url + "/elsewhere"}
    with pytest.raises(AuthenticationFailed, match="HTTP 307"):
        get(ClientCredentials(grant(authority.url)))
    assert len(authority.asked) == 1


@pytest.mark.parametrize(
    "said",
    [
        b"<html>hunter2</html>",
        b"[]",
        b"{}",
        b'{"access_token": ""}',
        b'{"access_token": 7}',
        b'{"access_token": "t", "expires_in": "soon"}',
    ],
)
def test_a_response_without_a_token_is_reported_but_not_printed(
    said: bytes, authority: Authority
) -> None:
    authority.said = said
    with pytest.raises(AuthenticationFailed, match="has no access_token") as refused:
        get(ClientCredentials(grant(authority.url)))
    assert "hunter2" not in str(refused.value)


def test_an_unreachable_token_endpoint_is_retriable(authority: Authority) -> None:
    url = "http://127.0.0.1:9/token"
    with pytest.raises(ConnectionLost, match=f"no token from {url}"):
        get(ClientCredentials(grant(url)))


def test_a_token_endpoint_with_a_trusted_certificate_is_used(
    authority: Authority,
) -> None:
    signer = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    signer.issue_cert("127.0.0.1").configure_cert(tls)
    authority.server.socket = tls.wrap_socket(authority.server.socket, server_side=True)
    url = authority.url.replace("http:", "https:")
    trust = make_context(TlsOptions(trust=signer.cert_pem.bytes().decode()))
    assert get(ClientCredentials(grant(url, ssl=trust))) == "t.o.k"
    with pytest.raises(AuthenticationFailed, match="its certificate is not trusted"):
        get(ClientCredentials(grant(url)))
    assert len(authority.asked) == 1


@pytest.mark.parametrize(
    "url", ["http://kafka.example/token", "ftp://localhost/x", "https://", "token"]
)
def test_secrets_are_sent_over_tls_only(url: str) -> None:
    with pytest.raises(ClientError, match="use an https:// address"):
        grant(url)


def test_a_password_in_the_endpoint_address_is_refused_and_not_printed() -> None:
    with pytest.raises(ClientError, match="at idp has a name or pass") as refused:
        grant("https://me:hunter2@idp/token")
    assert "hunter2" not in str(refused.value)
