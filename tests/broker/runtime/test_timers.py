"""Timers: order, changed deadlines, cancellation, and one event loop callback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.coordinator.result import CancelTimer, Timer
from coterie.broker.runtime.timers import (
    LATE_MS,
    PURGE_SIZE_MIN,
    Timers,
    TimerTable,
)
from tests.broker.runtime.world import Alarm, Loop


class Bench:
    def __init__(self) -> None:
        self.loop = Loop()
        self.start_ms = self.loop.clock()
        self.timers = Timers(self.loop, self.loop.clock)
        self.fired: list[tuple[int, Any]] = []
        self.table = TimerTable(self.timers, self._fire)

    def set(self, key: str, after_ms: int, request: object = None) -> None:
        at_ms = self.loop.clock() + after_ms
        self.table.change(Timer((key,), at_ms, request or key))

    def cancel(self, key: str) -> None:
        self.table.change(CancelTimer((key,)))

    def _fire(self, request: Any) -> None:
        self.fired.append((self.loop.clock() - self.start_ms, request))


def test_a_timer_fires_once_when_it_is_due() -> None:
    bench = Bench()
    bench.set("a", 500)
    bench.loop.advance(0.499)
    assert bench.fired == []
    bench.loop.advance(10)
    assert bench.fired == [(500, "a")]
    assert len(bench.table) == 0


def test_timers_fire_in_order_of_their_deadlines() -> None:
    bench = Bench()
    for key, after_ms in {"c": 300, "a": 100, "b": 200}.items():
        bench.set(key, after_ms)
    bench.loop.advance(1)
    assert [request for _, request in bench.fired] == ["a", "b", "c"]


def test_unless_set_does_not_replace_an_existing_timer() -> None:
    bench = Bench()
    for after_ms in (500, 100, 900):
        at_ms = bench.loop.clock() + after_ms
        bench.table.change(Timer(("a",), at_ms, "a", unless_set=True))
    bench.loop.advance(10)
    assert bench.fired == [(500, "a")]
    at_ms = bench.loop.clock() + 100
    bench.table.change(Timer(("a",), at_ms, "a", unless_set=True))
    bench.loop.advance(10)
    assert len(bench.fired) == 2


def test_a_timer_moved_later_fires_later() -> None:
    bench = Bench()
    bench.set("a", 500)
    bench.loop.advance(0.4)
    bench.set("a", 500)
    bench.loop.advance(10)
    assert bench.fired == [(900, "a")]


def test_a_timer_moved_earlier_fires_earlier_and_once() -> None:
    bench = Bench()
    bench.set("a", 5_000)
    bench.set("a", 100, "again")
    bench.loop.advance(10)
    assert bench.fired == [(100, "again")]


def test_a_cancelled_timer_does_not_fire() -> None:
    bench = Bench()
    bench.set("a", 100)
    bench.cancel("a")
    bench.cancel("a")
    bench.loop.advance(1)
    assert bench.fired == []


def test_a_timer_cancelled_and_set_again_fires_only_at_the_new_time() -> None:
    bench = Bench()
    bench.set("a", 100)
    bench.cancel("a")
    bench.set("a", 300)
    bench.loop.advance(1)
    assert bench.fired == [(300, "a")]


def test_moving_a_timer_later_pushes_nothing_to_the_heap() -> None:
    bench = Bench()
    bench.set("a", 500)
    for _ in range(1_000):
        bench.set("a", 600)
    assert bench.loop.alarms == 1
    assert len(bench.timers._heap) == 1


def test_cancelled_timers_do_not_fill_the_heap() -> None:
    bench = Bench()
    bench.set("kept", 500)
    for number in range(3 * PURGE_SIZE_MIN):
        bench.set(f"{number}", 900)
        bench.cancel(f"{number}")
    assert len(bench.timers._heap) <= PURGE_SIZE_MIN
    bench.loop.advance(1)
    assert bench.fired == [(500, "kept")]


def test_a_heap_without_cancelled_timers_grows() -> None:
    bench = Bench()
    for number in range(2 * PURGE_SIZE_MIN):
        bench.set(f"{number}", 500)
    bench.loop.advance(1)
    assert len(bench.fired) == 2 * PURGE_SIZE_MIN


def test_all_timers_share_one_event_loop_callback() -> None:
    bench = Bench()
    for at in range(100):
        bench.set(f"k{at}", 1_000 - at)
    assert bench.loop.alarms == 1


@pytest.mark.fact("E8-07a")
def test_a_timer_can_cancel_another_due_timer() -> None:
    bench = Bench()
    other = TimerTable(bench.timers, lambda _: bench.cancel("a"))
    at_ms = bench.loop.clock() + 100
    other.change(Timer(("x",), at_ms, "x"))
    bench.set("a", 100)
    bench.loop.advance(1)
    assert bench.fired == []


def test_a_timer_can_move_another_due_timer() -> None:
    bench = Bench()
    other = TimerTable(bench.timers, lambda _: bench.set("a", 50, "moved"))
    at_ms = bench.loop.clock() + 100
    other.change(Timer(("x",), at_ms, "x"))
    bench.set("a", 100)
    bench.set("b", 100)
    bench.loop.advance(1)
    assert bench.fired == [(100, "b"), (150, "moved")]
    assert len(bench.table) == 0


def test_clear_cancels_the_timers_of_one_table_only() -> None:
    bench = Bench()
    fired_requests: list[Any] = []
    other = TimerTable(bench.timers, fired_requests.append)
    other.change(Timer(("x",), bench.loop.clock() + 100, "x"))
    bench.set("a", 100)
    bench.table.clear()
    bench.loop.advance(1)
    assert bench.fired == []
    assert fired_requests == ["x"]


def test_stop_cancels_the_event_loop_callback() -> None:
    bench = Bench()
    bench.set("a", 100)
    bench.timers.stop()
    assert bench.loop.alarms == 0


def wake_late(bench: Bench, late_ms: int) -> None:
    """Run the callback of the next deadline too late, as after a pause."""
    [(_, _, alarm)] = bench.loop._later
    bench.loop._later.clear()
    bench.loop.now_ms = alarm.at_ms + late_ms
    alarm.callback()


def test_a_late_callback_fires_behind_one_read_of_all_sockets() -> None:
    bench = Bench()
    for key in ("heard", "silent"):
        bench.set(key, 500)
    wake_late(bench, 10_000)
    bench.loop.turn()  # asyncio polls here, and collects sockets behind this turn
    bench.set("heard", 500)  # the callback of a socket
    assert bench.fired == []
    bench.loop.turn()
    assert [key for _, key in bench.fired] == ["silent"]
    bench.loop.advance(1)
    assert bench.fired == [(10_500, "silent"), (11_000, "heard")]


def test_a_late_callback_is_postponed_once() -> None:
    bench = Bench()
    bench.set("a", 500)
    wake_late(bench, 10_000)
    for _ in range(2):
        bench.loop.now_ms += 10_000  # each turn takes long, too
        bench.loop.turn()
    assert bench.fired == [(30_500, "a")]


def test_a_callback_that_is_not_late_is_not_postponed() -> None:
    bench = Bench()
    bench.set("a", 500)
    wake_late(bench, LATE_MS - 1)
    assert bench.fired == [(500 + LATE_MS - 1, "a")]


def test_a_timer_set_while_the_callback_is_postponed_fires_in_time() -> None:
    bench = Bench()
    bench.set("a", 500)
    wake_late(bench, 10_000)
    bench.set("b", 100)
    bench.set("c", 0)
    bench.loop.settle()
    assert [key for _, key in bench.fired] == ["a", "c"]
    assert bench.loop.alarms == 1
    bench.loop.advance(1)
    assert bench.fired[2:] == [(10_600, "b")]


def test_timers_that_stop_while_the_callback_is_postponed_do_not_fire() -> None:
    bench = Bench()
    bench.set("a", 500)
    wake_late(bench, 10_000)
    bench.timers.stop()
    bench.loop.settle()
    assert bench.fired == []
    assert bench.loop.alarms == 0


class NoTimers:
    """The callbacks of a real loop, without its timers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.call_soon = loop.call_soon

    def call_later(self, delay: float, callback: Callable[[], None]) -> Alarm:
        return Alarm(round(delay * 1000), callback)


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_a_real_loop_reads_its_sockets_before_late_timers_fire(name: str) -> None:
    order: list[str] = []
    loop = pytest.importorskip(name).new_event_loop()
    ours, theirs = socket.socketpair()

    def read() -> None:
        order.append(ours.recv(1).decode())
        loop.remove_reader(ours)

    def fire(request: Any) -> None:
        order.append(request)
        loop.stop()

    def wake() -> None:
        theirs.send(b"r")
        timers.wake()

    times = iter([0, *[10_000] * 5])
    timers = Timers(NoTimers(loop), lambda: next(times))
    table = TimerTable(timers, fire)
    with ours, theirs, closing(loop):
        loop.add_reader(ours, read)
        table.change(Timer(("a",), 5, "fired"))
        loop.call_later(0.001, wake)  # a timer of the loop, as `wake` is
        loop.run_forever()
    assert order == ["r", "fired"]


KEYS = st.sampled_from("abcd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 50)),
        st.tuples(st.just("cancel"), KEYS, st.just(0)),
        st.tuples(st.just("advance"), st.just(""), st.integers(0, 40)),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(STEPS)
def test_timers_fire_at_their_deadlines_after_any_changes(
    steps: list[tuple[str, str, int]],
) -> None:
    bench = Bench()
    deadlines: dict[str, int] = {}
    expected: list[str] = []
    now = 0
    for what, key, ms in [*steps, ("advance", "", 100)]:
        if what == "set":
            bench.set(key, ms)
            deadlines[key] = now + ms
        elif what == "cancel":
            bench.cancel(key)
            deadlines.pop(key, None)
        else:
            bench.loop.advance(ms / 1000)
            now += ms
            due = [each for each in deadlines if deadlines[each] <= now]
            for each in due:
                del deadlines[each]
            expected += due
            assert len(bench.fired) == len(expected)
    assert sorted(request for _, request in bench.fired) == sorted(expected)
