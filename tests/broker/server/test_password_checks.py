"""The queue of password checks: delays, bounds and fairness between addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from coterie.broker.server import password_checks
from coterie.broker.server.failed_attempts import FREE_BY_USER, FailedAttempts
from coterie.broker.server.password_checks import Check, PasswordChecks


class World:
    """Checks with a clock, timers and workers that the test drives."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.now_ms = 0
        self.timers: list[tuple[float, Callable[[Check], None], Check]] = []
        self.running: list[tuple[Callable[[], bytes], asyncio.Future[bytes]]] = []
        self.done: list[str] = []
        self.refused: list[str] = []
        self.closed: set[str] = set()
        self.checks = PasswordChecks(
            FailedAttempts(500, 10_000),
            workers=2,
            loop=self,
            clock=lambda: self.now_ms,
            run_in_worker=self._run,
        )

    def call_later(
        self, delay: float, callback: Callable[[Check], None], check: Check, /
    ) -> None:
        self.timers.append((delay, callback, check))

    def _run(self, work: Callable[[], bytes]) -> Any:
        future: asyncio.Future[bytes] = self.loop.create_future()
        self.running.append((work, future))
        return future

    def submit(
        self,
        name: str,
        address: str = "a",
        *,
        user: str = "alice",
        is_slow: bool = True,
        is_right: bool = True,
    ) -> None:
        def done(outcome: Callable[[], bytes]) -> None:
            self.done.append(name)
            outcome()
            report = self.checks.succeed if is_right else self.checks.fail
            report(user, address)

        self.checks.submit(
            Check(
                user,
                address,
                name.encode,
                is_slow,
                lambda: name not in self.closed,
                done,
                partial(self.refused.append, name),
            )
        )

    def finish_one(self) -> None:
        work, future = self.running.pop(0)
        future.set_result(work())
        self.loop.run_until_complete(asyncio.sleep(0))

    def finish_all(self) -> None:
        while self.running:
            self.finish_one()

    def advance(self) -> None:
        """Call all timers, after the longest of their delays."""
        timers, self.timers = self.timers, []
        self.now_ms += int(1_000 * max(delay for delay, _, _ in timers))
        for _, callback, check in timers:
            callback(check)


@pytest.fixture
def world() -> Any:
    made = World()
    yield made
    made.loop.close()


def test_only_so_many_checks_run_at_once_as_there_are_workers(world: World) -> None:
    for number in range(100):
        world.submit(f"c{number}")
    assert len(world.running) == 2
    assert world.checks.waiting_count == 98
    world.finish_all()
    assert len(world.done) == 100


def test_addresses_take_turns(world: World) -> None:
    for number in range(50):
        world.submit(f"flood{number}", "flood", user=f"u{number}")
    world.submit("one", "other")
    world.finish_all()
    assert world.done.index("one") <= 3


def test_a_fast_check_needs_no_worker(world: World) -> None:
    world.submit("scram", is_slow=False)
    assert world.done == ["scram"]
    assert not world.running


def test_a_check_waits_after_failures(world: World) -> None:
    for _ in range(FREE_BY_USER + 1):
        world.checks.fail("alice", "a")
    world.submit("late", is_slow=False)
    world.submit("elsewhere", "b", is_slow=False)
    assert world.done == ["elsewhere"]
    assert [delay for delay, _, _ in world.timers] == [0.5]
    world.advance()
    assert world.done == ["elsewhere", "late"]


def test_parallel_guesses_wait_for_each_failure(world: World) -> None:
    for number in range(300):
        world.submit(f"g{number}", is_right=False)
    world.finish_all()
    # A check that runs beside the one that fails is not delayed by it.
    assert len(world.done) <= FREE_BY_USER + 2
    assert len(world.timers) == 300 - len(world.done)
    for _ in range(10):
        before = len(world.done)
        world.advance()
        world.finish_all()
        assert len(world.done) - before <= 2
    assert world.checks.delayed_count > 1_000


def test_closed_connections_are_not_checked(world: World) -> None:
    for number in range(10):
        world.submit(f"c{number}")
        world.closed.add(f"c{number}")
    world.finish_all()
    assert world.done == []
    assert world.checks.waiting_count == 0


def test_the_queue_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_checks, "WAITING_MAX", 5)
    for number in range(9):
        world.submit(f"c{number}")
    assert world.refused == ["c7", "c8"]
    world.finish_all()
    assert len(world.done) == 7


def test_a_full_queue_has_room_for_other_addresses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_checks, "WAITING_MAX", 5)
    for number in range(9):
        world.submit(f"flood{number}", "flood", user=f"u{number}")
    world.submit("one", "other")
    assert world.refused == ["flood7", "flood8", "flood6"]
    world.finish_all()
    assert "one" in world.done


def test_a_check_cancelled_by_the_stop_is_dropped(world: World) -> None:
    world.submit("c")
    world.running.pop()[1].cancel()
    world.loop.run_until_complete(asyncio.sleep(0))
    assert world.done == []
