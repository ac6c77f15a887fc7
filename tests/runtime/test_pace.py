"""Small writes to a quick disk are the loop's, all others the worker's."""

from __future__ import annotations

from coterie.log.log import BatchInfo, LogPartition, Staged
from coterie.log.memory import MemoryLog
from coterie.runtime.pace import (
    QUICK_S,
    SMALL_BYTES,
    SMALL_OPERATIONS,
    TRY_EVERY,
    Pace,
)

WHERE = LogPartition(b"t" * 16, 0)


def staged(batches: int = 1, size: int = 10) -> Staged:
    log = MemoryLog()
    log.create(WHERE)
    log.flush()
    for at in range(batches):
        log.append(WHERE, bytes(size), BatchInfo(at, at, 0, size))
    return log.take()


def after(seconds: float, writes: int = 40) -> Pace:
    pace = Pace()
    for _ in range(writes):
        pace.took(staged(), seconds)
    return pace


def test_a_disk_has_to_show_that_it_is_quick() -> None:
    assert not Pace().fits_loop(staged())
    assert after(QUICK_S / 5).fits_loop(staged(SMALL_OPERATIONS))


def test_a_slow_disk_is_the_workers() -> None:
    assert not after(QUICK_S * 2).fits_loop(staged())


def test_many_or_large_batches_are_the_workers() -> None:
    pace = after(QUICK_S / 5)
    assert not pace.fits_loop(staged(SMALL_OPERATIONS + 1))
    assert not pace.fits_loop(staged(2, SMALL_BYTES // 2 + 1))


def test_dropping_batches_is_the_workers() -> None:
    log = MemoryLog()
    log.create(WHERE)
    log.flush()
    log.truncate(WHERE, 0)
    assert not after(QUICK_S / 5).fits_loop(log.take())


def test_how_long_a_large_write_took_says_nothing() -> None:
    pace = after(QUICK_S / 5)
    pace.took(staged(SMALL_OPERATIONS + 1), 60)
    assert pace.fits_loop(staged())


def test_one_stall_hands_over_until_the_average_is_down_again() -> None:
    pace = after(QUICK_S / 5)
    pace.took(staged(), 50 * QUICK_S)
    assert not pace.fits_loop(staged())
    for _ in range(30):
        pace.took(staged(), QUICK_S / 5)
    assert pace.fits_loop(staged())


def test_now_and_then_a_slow_disk_is_tried() -> None:
    pace = after(QUICK_S * 2)
    small = staged()
    tries = [pace.fits_loop(small) for _ in range(3 * TRY_EVERY)]
    assert tries.count(True) == 3
