"""The HTTP server of the control API: its checks and bounds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any

import pytest

from coterie import http_endpoint
from coterie.testing.control import http as control_http
from coterie.testing.control.http import ControlRequest, ControlServer, Route
from tests.testing.control.http_client import HttpClient

JSON = {"Content-Type": "application/json"}


def echo(request: ControlRequest) -> Any:
    if request.names["name"] == "bug":
        raise AssertionError("a bug")
    return {"name": request.names["name"], **request.query, **request.body}


ROUTES = [
    Route("GET", "/v1/{name}", "Echo", echo),
    Route("POST", "/v1/{name}", "Echo", echo, HTTPStatus.CREATED),
]


@pytest.fixture
def http() -> Iterator[HttpClient]:
    server = ControlServer(ROUTES, "127.0.0.1", 0)
    server.start()
    yield HttpClient(server.address)
    server.close()


@pytest.fixture
def guarded() -> Iterator[HttpClient]:
    server = ControlServer(ROUTES, "127.0.0.1", 0, token="secret")
    server.start()
    yield HttpClient(server.address)
    server.close()


def test_a_route_gets_names_query_and_body(http: HttpClient) -> None:
    body = http.post("/v1/a%2Fb?x=1&y=", {"z": [2]}, status=201)
    assert body == {"name": "a/b", "x": "1", "y": "", "z": [2]}


def test_unknown_routes_and_methods_are_refused(http: HttpClient) -> None:
    assert "GET /v1 lists" in http.error("GET", "/v2/a", 404)["fix"]
    assert http.error("DELETE", "/v1/a", 405)["fix"] == "use GET or POST"
    http.error("PATCH", "/v1/a", 405)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", JSON, 400),
        (b"[]", JSON, 400),
        (b"\xff", JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {}, 415),
        (b"{}", {**JSON, "Content-Length": "-1"}, 411),
        (None, {"Transfer-Encoding": "chunked"}, 411),
        (b" " * (control_http.BODY_BYTES_MAX + 1), JSON, 413),
    ],
)
def test_wrong_bodies_are_refused(
    http: HttpClient, body: bytes | None, headers: dict[str, str], status: int
) -> None:
    assert http.raw("POST", "/v1/a", body, headers)[0] == status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "attacker.example"},
        {"Host": ""},
    ],
)
def test_requests_of_web_pages_are_refused(
    http: HttpClient, headers: dict[str, str]
) -> None:
    assert http.raw("GET", "/v1/a", None, headers)[0] == 403


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9095"])
def test_requests_to_this_machine_are_accepted(http: HttpClient, host: str) -> None:
    assert http.raw("GET", "/v1/a", None, {"Host": host})[0] == 200


@pytest.mark.parametrize("sent", [None, "Bearer wrong", "Basic secret", "Bearer ü"])
def test_a_token_is_required(guarded: HttpClient, sent: str | None) -> None:
    headers = {} if sent is None else {"Authorization": sent}
    assert guarded.raw("GET", "/v1/a", None, headers)[0] == 401


def test_a_token_allows_other_hosts(guarded: HttpClient) -> None:
    headers = {"Authorization": "Bearer secret", "Host": "mapped.example:3"}
    assert guarded.raw("GET", "/v1/a", None, headers)[0] == 200


def test_a_bug_is_a_response(http: HttpClient) -> None:
    assert http.error("GET", "/v1/bug", 500)["error"] == "internal error"


def test_bytes_that_are_not_http_are_refused(http: HttpClient) -> None:
    host, _, port = http.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET\x00 / nothing at all\r\n\r\n")
        assert b"400" in connection.recv(65_536)


def connect(http: HttpClient) -> socket.socket:
    host, _, port = http.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_a_right_token_works_after_many_wrong_ones(guarded: HttpClient) -> None:
    for number in range(100):
        headers = {"Authorization": f"Bearer {number}"}
        assert guarded.raw("GET", "/v1/a", None, headers)[0] == 401
    headers = {"Authorization": "Bearer secret"}
    assert guarded.raw("GET", "/v1/a", None, headers)[0] == 200


def test_a_right_token_works_beside_connections_without_one(
    guarded: HttpClient,
) -> None:
    with ExitStack() as stack:
        for number in range(http_endpoint.CONNECTIONS_MAX + 10):
            other = stack.enter_context(connect(guarded))
            other.sendall(b"POST /v1/a HTTP/1.1\r\n" if number % 2 else b"")
        headers = {"Authorization": "Bearer secret"}
        assert guarded.raw("GET", "/v1/a", None, headers)[0] == 200


def test_connections_without_a_token_end_no_request_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_endpoint, "CONNECTIONS_MAX", 1)
    is_begun, is_over = threading.Event(), threading.Event()

    def wait(request: ControlRequest) -> Any:
        is_begun.set()
        return {"over": is_over.wait(60)}

    routes = [Route("GET", "/v1/wait", "Wait", wait)]
    server = ControlServer(routes, "127.0.0.1", 0, token="secret")
    server.start()
    http = HttpClient(server.address)
    with connect(http) as right:
        line = "GET /v1/wait HTTP/1.1"
        right.sendall(f"{line}\r\nAuthorization: Bearer secret\r\n\r\n".encode())
        assert is_begun.wait(60)
        with connect(http) as silent:
            for _ in range(3):
                assert http.raw("GET", "/v1/wait", None, {})[0] == 401
            assert silent.recv(1) == b""
        is_over.set()
        assert right.recv(15).startswith(b"HTTP/1.1 200")
    server.close()


def test_connections_are_limited(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_endpoint, "CONNECTIONS_MAX", 1)
    with connect(http) as first, connect(http) as second:
        assert first.recv(1) == b""  # a new connection replaces the oldest
        second.sendall(b"GET /v1/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert second.recv(15).startswith(b"HTTP/1.1 200")


def test_requests_at_the_same_time_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "CONNECTIONS_MAX", 1)
    is_begun, is_over = threading.Event(), threading.Event()

    def wait(request: ControlRequest) -> Any:
        is_begun.set()
        return {"over": is_over.wait(60)}

    server = ControlServer([*ROUTES, Route("PUT", "/v1/a", "W", wait)], "127.0.0.1", 0)
    server.start()
    http = HttpClient(server.address)
    waiting = threading.Thread(target=http.send, args=("PUT", "/v1/a"))
    waiting.start()
    assert is_begun.wait(60)
    assert "too many requests" in http.error("GET", "/v1/a", 503)["error"]
    is_over.set()
    waiting.join(60)
    server.close()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_token_may_have_letters_beyond_ascii(encoding: str) -> None:
    server = ControlServer(ROUTES, "127.0.0.1", 0, token="schl\u00fcssel")
    server.start()
    with connect(HttpClient(server.address)) as connection:
        head = "GET /v1/a HTTP/1.1\r\nAuthorization: Bearer schl\u00fcssel\r\n\r\n"
        connection.sendall(head.encode(encoding))
        assert connection.recv(15).startswith(b"HTTP/1.1 200")
    server.close()


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_http, "READ_S", 0.01)
    server = ControlServer(ROUTES, "127.0.0.1", 0)
    server.start()
    with connect(HttpClient(server.address)) as connection:
        assert connection.recv(1) == b""
    server.close()


def test_a_client_may_wait_for_permission_to_send_a_body(http: HttpClient) -> None:
    head = (
        "POST /v1/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    )
    with connect(http) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert connection.recv(15).startswith(b"HTTP/1.1 201")


def test_close_ends_connections_and_threads() -> None:
    before = set(threading.enumerate())
    server = ControlServer(ROUTES, "127.0.0.1", 0)
    server.start()
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET /v1/a HTTP/1.1\r\n")
        HttpClient(server.address).get("/v1/b")
        server.close()
        server.close()
        assert connection.recv(1) == b""
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), timeout=30)
