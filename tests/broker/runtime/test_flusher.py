"""Writes of the flusher: one per loop iteration, in the worker thread or inline."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from coterie.broker.log.log import LogPartition, StagedWrite
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.flusher import (
    CALM_WRITES,
    FAST_S,
    QUICK_S,
    QUICK_WRITES_MIN,
    SMALL_BYTES,
    SMALL_OPERATIONS,
    Flusher,
    WritePace,
)
from coterie.errors import LogError
from coterie.wire.record_batch import LogRecord, encode_batch, read_header
from tests.broker.runtime.world import Loop

SPACE = "test"


class Bench:
    """A flusher over a log in memory, in a loop that the test runs."""

    def __init__(self) -> None:
        self.log = MemoryLog(self._before_write)
        self.loop = Loop()
        self.flusher = Flusher(self.log, self.loop, threaded=False)
        self.writes = 0
        self.fails: LogError | None = None
        self.calls: list[tuple[str, LogError | None]] = []

    def put(self, name: str) -> None:
        self.log.put(SPACE, name.encode(), b"1")

    def wait(self, name: str) -> None:
        self.flusher.when_durable(lambda error: self.calls.append((name, error)))

    def _before_write(self) -> None:
        self.writes += 1
        if self.fails is not None:
            raise self.fails


def test_when_durable_calls_back_immediately_without_staged_writes() -> None:
    bench = Bench()
    bench.wait("a")
    assert bench.calls == [("a", None)]
    assert bench.writes == 0


def test_all_appends_of_two_loop_iterations_are_one_write() -> None:
    bench = Bench()
    for name in "abc":
        bench.put(name)
        bench.wait(name)
    assert bench.calls == []
    bench.loop.turn()
    assert bench.writes == 0
    bench.put("d")
    bench.wait("d")
    bench.loop.turn()
    assert bench.writes == 1
    assert [name for name, _ in bench.calls] == ["a", "b", "c", "d"]


def test_sequence_numbers_count_writes() -> None:
    bench = Bench()
    assert (bench.flusher.durable_sequence, bench.flusher.next_sequence) == (0, 1)
    bench.put("a")
    bench.wait("a")
    bench.loop.settle()
    assert (bench.flusher.durable_sequence, bench.flusher.next_sequence) == (1, 2)


def test_appends_staged_by_a_callback_are_written_in_the_next_iteration() -> None:
    bench = Bench()
    bench.put("a")

    def stage_more(_: LogError | None) -> None:
        bench.put("b")
        bench.wait("b")

    bench.flusher.when_durable(stage_more)
    bench.loop.settle()
    assert bench.writes == 2
    assert bench.calls == [("b", None)]


def test_a_failed_write_fails_every_callback_and_stores_nothing() -> None:
    bench = Bench()
    order: list[str] = []
    bench.flusher.on_failure(lambda _: order.append("listener"))
    bench.fails = LogError("no")
    bench.put("a")
    bench.flusher.when_durable(lambda _: order.append("waiter"))
    bench.wait("a")
    bench.loop.settle()
    assert bench.calls == [("a", bench.fails)]
    assert order == ["listener", "waiter"]
    bench.fails = None
    bench.flusher.flush()
    assert bench.log.get(SPACE, b"a") is None


def test_writes_continue_after_a_failed_write() -> None:
    bench = Bench()
    bench.fails = LogError("no")
    bench.put("a")
    bench.wait("a")
    bench.loop.settle()
    bench.fails = None
    bench.put("b")
    bench.wait("b")
    bench.loop.settle()
    assert bench.calls[-1] == ("b", None)
    assert bench.log.get(SPACE, b"b") == b"1"


def test_flush_writes_immediately_and_raises_the_error() -> None:
    bench = Bench()
    bench.put("a")
    bench.flusher.flush()
    assert bench.log.get(SPACE, b"a") == b"1"
    bench.fails = LogError("no")
    bench.put("b")
    with pytest.raises(LogError):
        bench.flusher.flush()


class GatedLog(MemoryLog):
    """A log whose writes block until the test opens the gate."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.gate = threading.Event()
        self.threads: list[str] = []

    def _wait(self) -> None:
        self.threads.append(threading.current_thread().name)
        assert self.gate.wait(60)


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_the_event_loop_runs_while_the_worker_writes() -> None:
    log = GatedLog()
    flusher = Flusher(log, asyncio.get_running_loop())
    calls: list[str] = []
    log.put(SPACE, b"a", b"1")
    flusher.when_durable(lambda _: calls.append("a"))
    await until(lambda: bool(log.threads))
    assert log.threads == ["flusher"]
    log.put(SPACE, b"b", b"1")
    flusher.when_durable(lambda _: calls.append("b"))
    assert calls == []
    log.gate.set()
    await until(lambda: len(calls) == 2)
    assert calls == ["a", "b"]
    assert len(log.threads) == 2
    flusher.close()


@pytest.mark.asyncio
async def test_when_durable_waits_for_the_write_in_progress() -> None:
    log = GatedLog()
    flusher = Flusher(log, asyncio.get_running_loop())
    calls: list[str] = []
    log.put(SPACE, b"a", b"1")
    flusher.when_durable(lambda _: None)
    await until(lambda: bool(log.threads))
    flusher.when_durable(lambda _: calls.append("later"))
    assert calls == []
    log.gate.set()
    await until(lambda: calls == ["later"])
    flusher.close()


@pytest.mark.asyncio
async def test_a_failed_write_drops_the_records_staged_during_it() -> None:
    log = GatedLog()
    flusher = Flusher(log, asyncio.get_running_loop())
    calls: list[LogError | None] = []
    before = log.before_write

    def fail() -> None:
        assert before is not None
        before()
        raise LogError("no")

    log.before_write = fail
    partition = LogPartition(b"t" * 16, 0)
    log.create(partition)
    flusher.when_durable(calls.append)
    await until(lambda: bool(log.threads))
    log.put(SPACE, b"b", b"1")
    flusher.when_durable(calls.append)
    log.gate.set()
    await until(lambda: len(calls) == 2)
    assert all(error is not None for error in calls)
    assert not log.has_staged()
    flusher.close()


@pytest.mark.asyncio
async def test_an_unexpected_exception_in_a_write_is_a_failed_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bug() -> None:
        raise ZeroDivisionError

    log = MemoryLog(bug)
    flusher = Flusher(log, asyncio.get_running_loop())
    calls: list[LogError | None] = []
    log.put(SPACE, b"a", b"1")
    flusher.when_durable(calls.append)
    await until(lambda: bool(calls))
    assert "ZeroDivisionError" in str(calls[0])
    assert "a write failed: a bug in the log" in caplog.text
    flusher.close()


@pytest.mark.pure
def test_a_call_of_the_worker_before_its_write_ends_changes_nothing() -> None:
    flusher = Flusher(MemoryLog(), Loop(), threaded=True)
    assert flusher._writer is not None
    flusher._taken = taken = object()  # type: ignore[assignment]
    flusher._worker_done()
    assert flusher._taken is taken
    flusher._taken = None
    flusher.close()


@pytest.mark.asyncio
async def test_flush_waits_for_the_worker() -> None:
    log = GatedLog()
    log.gate.set()
    flusher = Flusher(log, asyncio.get_running_loop())
    calls: list[LogError | None] = []
    log.put(SPACE, b"a", b"1")
    flusher.when_durable(calls.append)
    await until(lambda: bool(log.threads) or bool(calls))
    log.put(SPACE, b"b", b"1")
    flusher.when_durable(calls.append)
    flusher.flush()
    assert calls == [None, None]
    assert log.get(SPACE, b"b") == b"1"
    flusher.close()


WHERE = LogPartition(b"t" * 16, 0)


def staged(batches: int = 1, size: int = 10) -> StagedWrite:
    log = MemoryLog()
    log.create(WHERE)
    log.flush()
    header = read_header(encode_batch([LogRecord(0, 0, b"k", b"v")]))
    header = header._replace(size_bytes=size)
    for at in range(batches):
        log.append(WHERE, bytes(size), header._replace(base_offset=at))
    return log.take()


def after(seconds: float, writes: int = QUICK_WRITES_MIN) -> WritePace:
    pace = WritePace()
    for _ in range(writes):
        pace.record(staged(), seconds)
    return pace


FAST = after(0.0001)
SLOW_S = (QUICK_S, 0.0021, 0.005, 0.05)


def test_a_new_disk_is_assumed_slow_until_measured() -> None:
    assert not WritePace().fits_loop(staged())
    assert not after(0.0001, QUICK_WRITES_MIN - 1).fits_loop(staged())
    assert after(0.0001).fits_loop(staged(SMALL_OPERATIONS))


@pytest.mark.parametrize("seconds", SLOW_S)
def test_writes_to_a_slow_disk_use_the_worker_thread(seconds: float) -> None:
    for writes in (QUICK_WRITES_MIN, 1_000):
        assert not after(seconds, writes).fits_loop(staged())


def test_many_or_large_batches_use_the_worker_thread() -> None:
    assert not FAST.fits_loop(staged(SMALL_OPERATIONS + 1))
    assert not FAST.fits_loop(staged(2, SMALL_BYTES // 2 + 1))


def test_truncation_uses_the_worker_thread() -> None:
    log = MemoryLog()
    log.create(WHERE)
    log.flush()
    log.truncate(WHERE, 0)
    assert not FAST.fits_loop(log.take())


def test_the_duration_of_a_large_write_is_ignored() -> None:
    pace = after(0.0001)
    pace.record(staged(SMALL_OPERATIONS + 1), 60)
    assert pace.fits_loop(staged())


def blocked(durations: Iterable[float]) -> list[float]:
    """Return the durations of the writes that are done in the event loop."""
    pace, small = WritePace(), staged()
    found = []
    for seconds in durations:
        if pace.fits_loop(small):
            found.append(seconds)
        pace.record(small, seconds)
    return found


def test_a_write_that_took_long_moves_the_next_ones_to_the_worker() -> None:
    quick = [0.0001] * (2 * QUICK_WRITES_MIN - 1)
    durations = [0.0001] * 100 + [0.05] + quick + [0.05]
    assert blocked(durations) == [0.0001] * (100 - QUICK_WRITES_MIN) + [0.05]


def test_writes_return_to_the_event_loop_when_the_disk_is_fast_again() -> None:
    durations = [0.0001] * 50 + [0.05] * 50 + [0.0001] * 1_000
    assert len(blocked(durations)) > 950


@pytest.mark.parametrize("every", [20, 100, 1_000])
def test_a_disk_that_is_slow_from_time_to_time_blocks_the_loop_a_few_times(
    every: int,
) -> None:
    durations = ([0.0001] * (every - 1) + [0.05]) * (100_000 // every)
    assert blocked(durations).count(0.05) <= 8


def test_a_disk_that_only_seems_quick_in_the_worker_is_tried_more_and_more_seldom() -> (
    None
):
    seconds = 4 * FAST_S * 0.99
    assert seconds < QUICK_S
    assert len(blocked([seconds] * 100_000)) < 50


def test_a_long_time_without_slow_writes_makes_the_return_quick_again() -> None:
    slow = ([0.0001] * 300 + [0.05]) * 4
    durations = slow + [0.0001] * (20 * CALM_WRITES) + [0.05]
    back = [0.0001] * (3 * QUICK_WRITES_MIN)
    assert len(blocked(durations + back)) > len(blocked(durations))
    assert len(blocked(slow + back)) == len(blocked(slow))


class SlowDisk(MemoryLog):
    """A log whose writes take `delay_s` of the clock `now_s`."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(self._pass_time)
        self.delay_s = delay_s
        self.now_s = 0.0
        self.threads: Counter[str] = Counter()

    def _pass_time(self) -> None:
        self.threads[threading.current_thread().name] += 1
        self.now_s += self.delay_s


async def written(log: SlowDisk, writes: int) -> Counter[str]:
    """Do writes one after the other; return their number in each thread."""
    flusher = Flusher(log, asyncio.get_running_loop())
    flusher.seconds = lambda: log.now_s
    calls: list[LogError | None] = []
    for number in range(writes):
        log.put(SPACE, b"a", b"%d" % number)
        flusher.when_durable(calls.append)
        await until(lambda number=number: len(calls) > number)  # type: ignore[misc]
    flusher.close()
    return log.threads


@pytest.mark.asyncio
@pytest.mark.parametrize("delay_s", [0.005, 0.05])
async def test_no_write_to_a_slow_disk_is_done_in_the_event_loop(
    delay_s: float,
) -> None:
    assert await written(SlowDisk(delay_s), 300) == {"flusher": 300}


@pytest.mark.asyncio
async def test_writes_to_a_fast_disk_need_no_thread() -> None:
    threads = await written(SlowDisk(0.0001), 300)
    assert threads["flusher"] == QUICK_WRITES_MIN
    assert threads["MainThread"] == 300 - QUICK_WRITES_MIN


def test_a_callback_that_fails_does_not_keep_others_from_being_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.put("a")
    bench.flusher.when_durable(lambda _: 1 / 0)  # type: ignore[arg-type]
    bench.wait("b")
    bench.loop.settle()
    assert bench.calls == [("b", None)]
    bench.put("c")
    bench.flusher.on_failure(lambda _: 1 / 0)  # type: ignore[arg-type]
    bench.fails = LogError("no")
    bench.wait("d")
    bench.loop.settle()
    assert bench.calls[1:] == [("d", bench.fails)]
    assert caplog.text.count("ZeroDivisionError") == 2
