"""Liveness, readiness and the delay of the event loop."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.shards import Phase
from coterie.broker.server.health import (
    INTERVAL_S,
    LONG_TURN_S,
    RETRY_S,
    STALL_S,
    Health,
    LoopMonitor,
)
from coterie.errors import LogFull
from tests.broker.server.harness import ThreadServer


class FakeLoop:
    """A loop whose time is set by the test."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        self.calls.append((when, callback))
        return None

    def turn(self, late_s: float = 0.0) -> None:
        """Call the scheduled callback, so much after it was due."""
        when, callback = self.calls.pop()
        self.now_s = when + late_s
        callback()


def monitor(loop: FakeLoop) -> tuple[LoopMonitor, list[float]]:
    delays: list[float] = []
    made = LoopMonitor(loop, delays.append, lambda now_s: None)
    made.start()
    return made, delays


def test_the_delay_of_each_callback_is_observed() -> None:
    loop = FakeLoop()
    measured, delays = monitor(loop)
    for late_s in (0.0, 0.125, LONG_TURN_S):
        loop.turn(late_s)
    assert delays == pytest.approx([0.0, 0.125, LONG_TURN_S])
    assert measured.long_turns == 1
    assert measured.largest_delay_s == pytest.approx(LONG_TURN_S)


def test_a_delay_counts_while_the_callback_is_overdue() -> None:
    loop = FakeLoop()
    measured, _ = monitor(loop)
    loop.now_s += INTERVAL_S + 3
    assert measured.delay_s == pytest.approx(3)


def test_the_largest_delay_is_dropped_after_two_minutes() -> None:
    loop = FakeLoop()
    measured, _ = monitor(loop)
    loop.turn(5)
    for _ in range(int(121 / INTERVAL_S)):
        loop.turn()
    assert measured.largest_delay_s < 1


# A running server.


class DiskFull:
    """A function that a log calls before each write."""

    def __init__(self) -> None:
        self.is_full = False

    def __call__(self) -> None:
        if self.is_full:
            raise LogFull("no space left")


@pytest.fixture
def disk() -> DiskFull:
    return DiskFull()


@pytest.fixture
def server(disk: DiskFull) -> Iterator[ThreadServer]:
    with ThreadServer(metrics_port=0, log=MemoryLog(disk)) as server:
        yield server


def get(server: ThreadServer, path: str) -> tuple[int, dict[str, Any]]:
    url = f"http://127.0.0.1:{server.server.metrics_port}{path}"
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def health(server: ThreadServer) -> Health:
    found = server.server._monitoring
    assert found is not None
    return found.health


def write(server: ThreadServer) -> None:
    """Make something durable, or try to."""

    async def work() -> None:
        broker = server.server.assembly.broker
        broker.log.put("test", b"key", b"value")
        broker.flusher.when_durable(lambda error: None)

    server.run(work())
    server.run(_turn())


async def _turn() -> None:
    """Let the loop turn once."""


def test_a_running_server_is_live_and_ready(server: ThreadServer) -> None:
    status, live = get(server, "/health")
    assert (status, live["status"]) == (200, "ok")
    assert live["event_loop_delay_ms"] >= 0
    status, ready = get(server, "/ready")
    assert (status, ready["status"], ready["missing"]) == (200, "ready", [])
    assert ready["shards"] == {"loading": 0, "active": 50, "stopped": 0}


def test_a_shard_that_is_not_loaded_is_missing(server: ThreadServer) -> None:
    server.server.assembly.broker.runtime.shards[3].phase = Phase.STOPPED
    status, ready = get(server, "/ready")
    assert status == 503
    assert ready["missing"] == ["49 of 50 shards are loaded"]


def test_a_catalog_that_is_not_loaded_is_missing(server: ThreadServer) -> None:
    server.server.assembly.broker.data.is_loaded = False
    assert get(server, "/ready")[1]["missing"] == ["the catalog is not loaded"]


def test_a_failed_flush_is_repeated_until_it_succeeds(
    server: ThreadServer, disk: DiskFull
) -> None:
    async def stop_timer() -> None:
        health(server).monitor.stop()  # it probes, too, when a second has passed

    server.run(stop_timer())
    disk.is_full = True
    write(server)
    status, ready = get(server, "/ready")
    assert status == 503
    assert ready["missing"] == ["the last flush failed: see the server's log"]
    assert ready["flush_failures"] == 1

    async def probe(now_s: float) -> None:
        health(server)._check_flush(now_s)

    later_s = health(server)._loop.time() + 10 * RETRY_S
    server.run(probe(later_s))
    server.run(_turn())
    server.run(probe(later_s + RETRY_S / 2))  # too early for another
    server.run(_turn())
    assert get(server, "/ready")[1]["flush_failures"] == 2
    disk.is_full = False
    server.run(probe(later_s + RETRY_S))
    server.run(_turn())
    assert get(server, "/ready")[0] == 200


def test_a_flush_that_does_not_end_is_missing(server: ThreadServer) -> None:
    broker = server.server.assembly.broker
    loop = FakeLoop()
    watched = Health(broker, loop, lambda delay_s: None, "1")

    class Stalled:
        """A flusher with a write in progress."""

        is_writing = True
        next_sequence = 7
        last_error = None
        failures = 0

    broker.flusher, real = cast("Any", Stalled()), broker.flusher
    try:
        watched._check_flush(loop.now_s)
        assert watched.readiness()[0]
        loop.now_s += STALL_S
        watched._check_flush(loop.now_s)
        assert watched.readiness()[1]["missing"] == [
            "a flush has been in progress for over 10 s"
        ]
    finally:
        broker.flusher = real


def test_a_blocked_event_loop_is_not_live(server: ThreadServer) -> None:
    loop = FakeLoop()
    watched = Health(server.server.assembly.broker, loop, lambda delay_s: None, "1")
    watched.monitor.start()
    assert watched.liveness()[0]
    loop.turn(late_s=STALL_S)
    is_live, content = watched.liveness()
    assert not is_live
    assert content["status"] == "the event loop was blocked"


def test_a_stopping_server_is_not_ready(server: ThreadServer) -> None:
    watched = Health(
        server.server.assembly.broker, FakeLoop(), lambda delay_s: None, "1"
    )
    watched.stop()
    assert watched.readiness()[1]["missing"] == ["the server is stopping"]
