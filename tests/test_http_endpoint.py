"""The HTTP endpoint: paths, headers, and the bounds of its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry, Gauge

from coterie.broker.server.server_metrics import Exposition
from coterie.http_endpoint import (
    CONNECTIONS_MAX,
    REQUEST_BYTES_MAX,
    Body,
    Endpoint,
    Headers,
    Reply,
    is_loopback,
    json_reply,
)
from tests.broker.server.harness import WAIT_S

GET = b"GET /known HTTP/1.0\r\n\r\n"


async def known(_: Headers) -> Reply:
    return Reply("200 OK", b"content")


async def echo(headers: Headers) -> Reply:
    body = f"{headers['accept']}|{headers.get('absent')}".encode()
    return Reply("200 OK", body, headers={"X-Header": "value"})


LARGE = bytes(1_000_000)


async def large(_: Headers) -> Reply:
    return Reply("200 OK", Body.of(LARGE, b"end"))


async def broken(_: Headers) -> Reply:
    raise FileNotFoundError("the data directory was removed")


def run(
    work: Callable[[Callable[[bytes], Awaitable[bytes]], int], Awaitable[None]],
    timeout_s: float = WAIT_S,
) -> None:
    """Call `work` with a function that sends bytes and returns the response, and with
    the port of an endpoint."""

    async def main() -> None:
        endpoint = Endpoint(
            {b"/known": known, b"/broken": broken, b"/echo": echo, b"/large": large},
            timeout_s,
        )
        port = await endpoint.start("127.0.0.1", 0)

        async def exchange(request: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            try:
                return await asyncio.wait_for(reader.read(), WAIT_S)
            except ConnectionError:
                return b""
            finally:
                writer.close()

        await work(exchange, port)
        endpoint.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (GET, b"200 OK"),
        (b"GET /known?a=b HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK"),
        (b"GET /other HTTP/1.0\r\n\r\n", b"404 Not Found"),
        (b"POST /known HTTP/1.0\r\n\r\n", b"405 Method Not Allowed"),
        (b"\r\n\r\n", b"400 Bad Request"),
        (b"GET /broken HTTP/1.0\r\n\r\n", b"500 Internal Server Error"),
    ],
)
def test_a_request_gets_the_response_of_its_path(
    request_: bytes, status: bytes
) -> None:
    async def work(exchange: Callable[[bytes], Awaitable[bytes]], _: int) -> None:
        assert (await exchange(request_)).startswith(b"HTTP/1.1 " + status)

    run(work)


def test_a_route_gets_the_headers_and_may_add_some() -> None:
    async def work(exchange: Callable[[bytes], Awaitable[bytes]], _: int) -> None:
        response = await exchange(
            b"GET /echo HTTP/1.1\r\nAccept: a\r\nno header\r\nACCEPT:b\r\n\r\n"
        )
        assert b"\r\nX-Header: value\r\n" in response
        assert response.endswith(b"\r\n\r\na, b|None")

    run(work)


def test_a_large_body_is_sent_in_pieces() -> None:
    async def work(exchange: Callable[[bytes], Awaitable[bytes]], _: int) -> None:
        response = await exchange(b"GET /large HTTP/1.1\r\n\r\n")
        assert response.partition(b"\r\n\r\n")[2] == LARGE + b"end"

    run(work)


def test_a_connection_without_a_request_is_closed() -> None:
    async def work(exchange: Callable[[bytes], Awaitable[bytes]], _: int) -> None:
        assert await exchange(b"") == b""

    run(work, timeout_s=0)


def test_a_request_over_the_size_limit_is_closed_without_a_response() -> None:
    async def work(exchange: Callable[[bytes], Awaitable[bytes]], _: int) -> None:
        assert await exchange(b"x" * (REQUEST_BYTES_MAX * 4)) == b""

    run(work)


def test_idle_connections_do_not_keep_others_out() -> None:
    async def work(exchange: Callable[[bytes], Awaitable[bytes]], port: int) -> None:
        idle = [
            await asyncio.open_connection("127.0.0.1", port)
            for _ in range(CONNECTIONS_MAX + 1)
        ]
        assert (await exchange(GET)).endswith(b"content")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(idle[0][0].readexactly(1), WAIT_S)
        for _, writer in idle:
            writer.close()

    run(work)


def test_concurrent_scrapes_share_a_rendering() -> None:
    registry = CollectorRegistry()
    Gauge("known", "A gauge.", registry=registry)

    async def main() -> None:
        exposition = Exposition(registry)
        # As after a rendering: every request waits for the end of the pause, which
        # cannot pass before all have begun.
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        exposition._next_s = now_s + 0.01
        loop.time = lambda: now_s  # type: ignore[method-assign]
        requests = [asyncio.ensure_future(exposition.reply({})) for _ in range(100)]
        await asyncio.sleep(0)
        del loop.time
        replies = await asyncio.gather(*requests)
        assert {reply.status for reply in replies} == {"200 OK"}
        assert exposition.renderings == 1

    asyncio.run(main())


def test_a_failure_is_status_503_with_a_json_body() -> None:
    reply = json_reply({"status": "not ready"}, is_ok=False)
    assert reply.status.startswith("503")
    assert reply.body == b'{"status": "not ready"}\n'


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.7", False),
        ("localhost.example", False),
    ],
)
def test_a_host_is_loopback_when_only_this_machine_can_connect(
    host: str, loopback: bool
) -> None:
    assert is_loopback(host) is loopback
