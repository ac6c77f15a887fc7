"""The timers that follow a clock: their order, and how many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.broker.runtime.log_cleaner import LogCleaner
from coterie.testing.clock import Clock
from tests.broker.server.harness import ThreadServer


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.freeze()
    return clock


@pytest.fixture
def server(clock: Clock) -> Iterator[ThreadServer]:
    with ThreadServer(clock=clock) as server:
        yield server


def test_timers_fire_in_order_each_at_its_own_time(
    clock: Clock, server: ThreadServer
) -> None:
    timers = server.server.assembly.broker.data.timekeeping.scheduler
    start_ms = clock.now_ms
    fired: list[int] = []

    def fire() -> None:
        fired.append(clock.now_ms - start_ms)
        if len(fired) == 1:
            timers.call_later(1, fire)

    async def schedule() -> None:
        for delay in (3, 1, 2):
            timers.call_later(delay, fire)
        timers.call_later(1.5, fire).cancel()
        timers.call_later(60, fire)

    server.run(schedule())
    clock.advance(seconds=59)
    assert fired == [1_000, 2_000, 2_000, 3_000]


def test_a_timer_that_fails_does_not_end_the_advance(
    clock: Clock, server: ThreadServer
) -> None:
    failures: list[str] = []
    timers = server.server.assembly.broker.data.timekeeping.scheduler

    async def schedule() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: failures.append(context["message"])
        )
        timers.call_later(1, lambda: 1 // 0)  # type: ignore[arg-type]
        timers.call_later(2, lambda: failures.append("next"))

    server.run(schedule())
    clock.advance(seconds=3)
    assert failures == ["a bug in a timer", "next"]


@pytest.mark.slow
@pytest.mark.parametrize("days", [8, 365])
def test_a_long_advance_makes_few_rounds_of_retention(
    clock: Clock,
    server: ThreadServer,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
) -> None:
    rounds: list[int] = []
    clean = LogCleaner._round

    def count(cleaner: LogCleaner) -> Any:
        rounds.append(clock.now_ms)
        return clean(cleaner)

    monkeypatch.setattr(LogCleaner, "_round", count)
    clock.advance(days=days)
    assert 250 < len(rounds) < 700
    last_minutes = (rounds[-1] - rounds[-2]) / 60_000
    assert last_minutes == pytest.approx(5, abs=0.1)
