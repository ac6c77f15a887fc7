"""The exporter's service: polls, scrapes and health."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from coterie.client.admin.groups import ClusterDescription
from coterie.errors import ConnectionLost
from coterie.http_endpoint import Body, Reply
from coterie.operations.exporter.exposition import Style
from coterie.operations.exporter.poll import Poller
from coterie.operations.exporter.service import (
    STALE_INTERVALS,
    Exporter,
    poll_forever,
    serve,
)
from coterie.operations.selection import Selection
from tests.operations.fake_admin import group
from tests.support.waiting import eventually

from .exported import ExportedAdmin, Samples, options, small_cluster

LAG = "kafka_consumergroup_group_lag"
UP = "coterie_exporter_up"
INTERVAL_S = 30.0


def content(body: bytes | Body) -> bytes:
    assert isinstance(body, Body)
    return b"".join(body.parts())


class World:
    """A cluster with its exporter, and a clock that tests move."""

    def __init__(self) -> None:
        self.admin = small_cluster()
        self.now_s = 1_000.0
        self.exporter = Exporter(Style(), INTERVAL_S, clock=lambda: self.now_s)
        self.poller = Poller(self.admin, options())

    def poll(self) -> bool:
        asyncio.run(self.exporter.poll_and_log(self.poller))
        return self.exporter.error is None

    def samples(self) -> Samples:
        return Samples.read(content(self.exporter.body()))

    def scrape(self, **headers: str) -> Reply:
        wanted = {name.replace("_", "-"): value for name, value in headers.items()}
        return asyncio.run(self.exporter.scrape(wanted))

    def health(self) -> tuple[str, Any]:
        reply = asyncio.run(self.exporter.health({}))
        assert isinstance(reply.body, bytes)
        return reply.status[:3], json.loads(reply.body)


@pytest.fixture
def world() -> World:
    return World()


def test_before_the_first_poll_the_exporter_is_not_ready(world: World) -> None:
    status, content = world.health()
    assert (status, content["status"]) == ("503", "starting")
    samples = world.samples()
    assert samples.of(UP) == 0
    assert LAG not in samples


def test_a_scrape_returns_the_last_poll_without_a_request(world: World) -> None:
    assert world.poll()
    requests = len(world.admin.calls)
    samples = world.samples()
    assert samples.of(LAG, group="orders") == 60
    assert samples.of("coterie_exporter_groups") == 2
    assert len(world.admin.calls) == requests
    status, content = world.health()
    assert (status, content["status"], content["groups"]) == ("200", "ok", 2)


def test_a_group_that_went_away_has_no_series_after_the_next_poll(
    world: World,
) -> None:
    world.poll()
    del world.admin.known_groups["billing"]
    world.poll()
    samples = world.samples()
    assert {dict(each)["group"] for each in samples[LAG]} == {"orders"}


def test_an_outage_is_reported_and_ends(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.poll()
    world.admin.outage = ConnectionLost("broker:9092 refused the connection")
    world.now_s += INTERVAL_S
    assert not world.poll()
    assert not world.poll()
    samples = world.samples()
    assert samples.of(UP) == 0
    assert samples.of("coterie_exporter_poll_failures_total") == 2
    assert samples.of("coterie_exporter_last_error_info", error="ConnectionLost") == 1
    assert samples.of(LAG, group="orders") == 60  # of the last complete poll
    status, content = world.health()
    assert (status, content["last_error"]) == (
        "200",
        "broker:9092 refused the connection",
    )
    world.admin.outage = None
    assert world.poll()
    samples = world.samples()
    assert samples.of(UP) == 1
    assert "coterie_exporter_last_error_info" not in samples
    assert world.health()[1]["last_error"] is None
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1  # one for the outage, not one for each poll


def test_a_named_group_that_does_not_exist_is_logged_once_until_it_exists(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    selection = Selection(ids=("orders", "ordres"))
    world.poller = Poller(world.admin, options(selection=selection))
    world.poll()
    world.poll()
    assert [each.getMessage() for each in caplog.records] == [
        "there is no group 'ordres'"
    ]
    world.admin.known_groups["ordres"] = group("ordres")
    world.poll()
    assert world.exporter.missing_groups == ()


def test_metrics_that_are_too_old_are_left_out(world: World) -> None:
    world.poll()
    world.admin.outage = ConnectionLost("down")
    world.now_s += STALE_INTERVALS * INTERVAL_S + 60
    world.poll()
    status, content = world.health()
    assert (status, content["status"]) == ("503", "stale")
    assert LAG not in world.samples()
    assert "coterie_exporter_last_success_timestamp_seconds" in world.samples()


def test_a_bug_in_a_poll_is_a_failed_poll(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> ClusterDescription:
        raise KeyError("bug")

    monkeypatch.setattr(world.admin, "describe_cluster", broken)
    assert not world.poll()
    labels = {"error": "KeyError"}
    assert world.samples().of("coterie_exporter_last_error_info", **labels) == 1
    assert "a bug in a poll" in caplog.text


def test_the_format_is_negotiated(world: World) -> None:
    world.poll()
    plain = world.scrape(accept="text/plain;version=0.0.4")
    assert plain.content_type.startswith("text/plain")
    assert b"# EOF" not in content(plain.body)
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    modern = world.scrape(accept=accept)
    assert modern.content_type.startswith("application/openmetrics-text")
    assert (
        Samples.read(content(modern.body), openmetrics=True).of(LAG, group="orders")
        == 60
    )


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text"])
def test_responses_are_compressed_for_scrapers_that_accept_it(
    world: World, accept: str
) -> None:
    world.poll()
    reply = world.scrape(accept=accept, accept_encoding="deflate, gzip")
    assert reply.headers["Content-Encoding"] == "gzip"
    assert isinstance(reply.body, Body)
    packed = content(reply.body)
    assert len(packed) == reply.body.size
    samples = Samples.read(gzip.decompress(packed), openmetrics=bool(accept))
    assert samples.of(LAG, group="orders") == 60


def test_the_process_is_left_out_for_the_textfile_collector(world: World) -> None:
    world.poll()
    assert "process_cpu_seconds_total" in world.samples()
    text = content(world.exporter.body(with_process=False))
    assert "process_cpu_seconds_total" not in Samples.read(text)


class SlowAdmin(ExportedAdmin):
    """A cluster whose polls tests count and hold."""

    def __init__(self) -> None:
        super().__init__()
        self.add(group("g"))
        self.running = 0
        self.running_max = 0
        self.polls = 0
        self.has_polled = asyncio.Event()

    async def describe_cluster(self) -> ClusterDescription:
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        self.polls += 1
        if self.polls == 5:
            self.has_polled.set()
        await asyncio.sleep(0)
        self.running -= 1
        return await super().describe_cluster()


def test_polls_follow_each_other_without_overlap() -> None:
    admin = SlowAdmin()

    async def main() -> None:
        exporter = Exporter(Style(), 0.001)
        wanted = options(interval_ms=1)
        polling = asyncio.ensure_future(poll_forever(lambda: admin, wanted, exporter))
        await admin.has_polled.wait()
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling

    asyncio.run(asyncio.wait_for(main(), 60))
    assert admin.running_max == 1
    assert admin.calls[-1] == "close"


async def get(address: str, path: str) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    response = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return response


def test_scrapes_are_served_while_a_poll_runs_and_polling_ends_with_the_service() -> (
    None
):
    polled = threading.Event()
    hold = threading.Event()
    ended: list[Callable[[], bool]] = []

    async def polling() -> None:
        polled.set()
        assert hold.wait(60)  # as a poll that takes its whole thread
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(hold.is_set)

    async def main() -> None:
        addresses: list[str] = []
        exporter = Exporter(Style(), INTERVAL_S)
        listen = ("127.0.0.1", 0)
        serving = asyncio.ensure_future(
            serve(exporter, polling, listen, addresses.append)
        )
        await asyncio.to_thread(polled.wait, 60)
        assert UP.encode() in await get(addresses[0], "/metrics")
        assert (await get(addresses[0], "/health")).startswith(b"HTTP/1.1 503")
        assert b"/metrics" in await get(addresses[0], "/")
        assert (await get(addresses[0], "/other")).startswith(b"HTTP/1.1 404")
        hold.set()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(asyncio.wait_for(main(), 60))
    eventually(lambda: ended, expected="the end of polling")


def test_the_service_ends_with_the_error_of_its_polling() -> None:
    async def polling() -> None:
        raise ValueError("bug")

    async def main() -> None:
        exporter = Exporter(Style(), INTERVAL_S)
        await serve(exporter, polling, ("127.0.0.1", 0), lambda _: None)

    with pytest.raises(ValueError, match="bug"):
        asyncio.run(asyncio.wait_for(main(), 60))
