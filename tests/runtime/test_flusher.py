"""One write a turn, in a thread; whoever waits hears of its end, good or bad."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from coterie.errors import LogError
from coterie.log.log import LogPartition
from coterie.log.memory import MemoryLog
from coterie.runtime.flusher import Flusher
from tests.runtime.world import Loop

SPACE = "test"


class Bench:
    """A flusher over memory, in a loop that turns when told."""

    def __init__(self) -> None:
        self.log = MemoryLog(self._before_write)
        self.loop = Loop()
        self.flusher = Flusher(self.log, self.loop, threaded=False)
        self.writes = 0
        self.fails: LogError | None = None
        self.heard: list[tuple[str, LogError | None]] = []

    def put(self, name: str) -> None:
        self.log.put(SPACE, name.encode(), b"1")

    def wait(self, name: str) -> None:
        self.flusher.when_durable(lambda error: self.heard.append((name, error)))

    def _before_write(self) -> None:
        self.writes += 1
        if self.fails is not None:
            raise self.fails


def test_with_nothing_staged_the_answer_is_at_once() -> None:
    bench = Bench()
    bench.wait("a")
    assert bench.heard == [("a", None)]
    assert bench.writes == 0


def test_all_that_a_turn_staged_is_one_write() -> None:
    bench = Bench()
    for name in "abc":
        bench.put(name)
        bench.wait(name)
    assert bench.heard == []
    bench.loop.turn()
    assert bench.writes == 1
    assert [name for name, _ in bench.heard] == ["a", "b", "c"]


def test_sequences_count_the_writes() -> None:
    bench = Bench()
    assert (bench.flusher.durable_sequence, bench.flusher.next_sequence) == (0, 1)
    bench.put("a")
    bench.wait("a")
    bench.loop.settle()
    assert (bench.flusher.durable_sequence, bench.flusher.next_sequence) == (1, 2)


def test_what_a_listener_stages_is_written_in_the_next_turn() -> None:
    bench = Bench()
    bench.put("a")

    def stage_more(_: LogError | None) -> None:
        bench.put("b")
        bench.wait("b")

    bench.flusher.when_durable(stage_more)
    bench.loop.settle()
    assert bench.writes == 2
    assert bench.heard == [("b", None)]


def test_a_failure_is_heard_by_all_and_nothing_of_it_is_kept() -> None:
    bench = Bench()
    order: list[str] = []
    bench.flusher.on_failure(lambda _: order.append("listener"))
    bench.fails = LogError("no")
    bench.put("a")
    bench.flusher.when_durable(lambda _: order.append("waiter"))
    bench.wait("a")
    bench.loop.settle()
    assert bench.heard == [("a", bench.fails)]
    assert order == ["listener", "waiter"]
    bench.fails = None
    bench.flusher.flush()
    assert bench.log.get(SPACE, b"a") is None


def test_after_a_failure_writing_goes_on() -> None:
    bench = Bench()
    bench.fails = LogError("no")
    bench.put("a")
    bench.wait("a")
    bench.loop.settle()
    bench.fails = None
    bench.put("b")
    bench.wait("b")
    bench.loop.settle()
    assert bench.heard[-1] == ("b", None)
    assert bench.log.get(SPACE, b"b") == b"1"


def test_flush_writes_at_once_and_raises_what_went_wrong() -> None:
    bench = Bench()
    bench.put("a")
    bench.flusher.flush()
    assert bench.log.get(SPACE, b"a") == b"1"
    bench.fails = LogError("no")
    bench.put("b")
    with pytest.raises(LogError):
        bench.flusher.flush()


class GatedLog(MemoryLog):
    """A log whose writes wait until they are let go."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.gate = threading.Event()
        self.threads: list[str] = []

    def _wait(self) -> None:
        self.threads.append(threading.current_thread().name)
        assert self.gate.wait(10)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so: what ends a write is the loop itself."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_the_loop_goes_on_while_a_thread_writes() -> None:
    log = GatedLog()
    flusher = Flusher(log, asyncio.get_running_loop())
    heard: list[str] = []
    log.put(SPACE, b"a", b"1")
    flusher.when_durable(lambda _: heard.append("a"))
    await until(lambda: bool(log.threads))
    assert log.threads == ["flusher"]
    log.put(SPACE, b"b", b"1")
    flusher.when_durable(lambda _: heard.append("b"))
    assert heard == []
    log.gate.set()
    await until(lambda: len(heard) == 2)
    assert heard == ["a", "b"]
    assert len(log.threads) == 2
    flusher.close()


@pytest.mark.asyncio
async def test_while_a_write_is_under_way_nothing_new_means_waiting_for_it() -> None:
    log = GatedLog()
    flusher = Flusher(log, asyncio.get_running_loop())
    heard: list[str] = []
    log.put(SPACE, b"a", b"1")
    flusher.when_durable(lambda _: None)
    await until(lambda: bool(log.threads))
    flusher.when_durable(lambda _: heard.append("later"))
    assert heard == []
    log.gate.set()
    await until(lambda: heard == ["later"])
    flusher.close()


@pytest.mark.asyncio
async def test_a_failure_takes_with_it_what_was_staged_meanwhile() -> None:
    log = GatedLog()
    flusher = Flusher(log, asyncio.get_running_loop())
    heard: list[LogError | None] = []
    before = log.before_write

    def fail() -> None:
        assert before is not None
        before()
        raise LogError("no")

    log.before_write = fail
    partition = LogPartition(b"t" * 16, 0)
    log.create(partition)
    flusher.when_durable(heard.append)
    await until(lambda: bool(log.threads))
    log.put(SPACE, b"b", b"1")
    flusher.when_durable(heard.append)
    log.gate.set()
    await until(lambda: len(heard) == 2)
    assert all(error is not None for error in heard)
    assert not log.staged()
    flusher.close()


@pytest.mark.asyncio
async def test_a_bug_in_a_write_counts_as_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bug() -> None:
        raise ZeroDivisionError

    log = MemoryLog(bug)
    flusher = Flusher(log, asyncio.get_running_loop())
    heard: list[LogError | None] = []
    log.put(SPACE, b"a", b"1")
    flusher.when_durable(heard.append)
    await until(lambda: bool(heard))
    assert "ZeroDivisionError" in str(heard[0])
    assert "it should not" in caplog.text
    flusher.close()


@pytest.mark.asyncio
async def test_flush_waits_for_the_thread() -> None:
    log = GatedLog()
    log.gate.set()
    flusher = Flusher(log, asyncio.get_running_loop())
    heard: list[LogError | None] = []
    log.put(SPACE, b"a", b"1")
    flusher.when_durable(heard.append)
    await until(lambda: bool(log.threads) or bool(heard))
    log.put(SPACE, b"b", b"1")
    flusher.when_durable(heard.append)
    flusher.flush()
    assert heard == [None, None]
    assert log.get(SPACE, b"b") == b"1"
    flusher.close()
