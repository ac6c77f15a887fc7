"""What a log with journals contains after crashes, torn writes and damage."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import Log
from coterie.errors import LogCorrupt
from tests.broker.log.logs import PARTITION, append

FIRST = "journal/0.journal"


def open_small(directory: Path, journal_bytes: int = 4_096) -> JournalLog:
    """Open a log whose journals are full after a few writes."""
    return JournalLog(
        directory, journal_bytes=journal_bytes, segment_bytes=700, verify=True
    )


def image(directory: Path, name: str) -> Path:
    """Copy the files of an open store, as a process that is killed leaves them."""
    copy = directory.parent / name
    shutil.copytree(directory, copy)
    return copy


def ends(directory: Path) -> Iterator[tuple[Path, int]]:
    """Yield the images of a store after three writes, and the end of each write."""
    log = open_small(directory)
    log.create(PARTITION)
    log.flush()
    for number in range(3):
        append(log, 100)
        append(log, 120)
        log.put("space", b"key", b"%d" % number)
        log.flush()
        yield image(directory, f"image{number}"), used(directory / FIRST)
    log.close()


def used(journal: Path) -> int:
    """Return the bytes of a journal before the zeros at its end."""
    return len(journal.read_bytes().rstrip(b"\0"))


def contents(log: Log) -> tuple[list[bytes], bytes | None]:
    """Return the batches of PARTITION and a value."""
    return [*log.read(PARTITION, 0, 1 << 20)], log.get("space", b"key")


def flip(path: Path, at: int) -> None:
    """Change a byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)


def test_a_killed_process_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    for number, (copy, _) in enumerate(ends(tmp_path / "data")):
        log = open_small(copy)
        batches, value = contents(log)
        assert len(batches) == 2 * number + 2
        assert value == b"%d" % number
        append(log)
        log.flush()
        log.close()
        log = open_small(copy)
        assert len(contents(log)[0]) == 2 * number + 3
        log.close()


@pytest.mark.slow
def test_a_write_cut_at_any_byte_is_wholly_absent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, (before, start), (after, end) = ends(tmp_path / "data")
    whole = (after / FIRST).read_bytes()
    assert start < end
    log = open_small(before)
    expected = contents(log)
    log.close()
    for at in range(start, end):
        copy = image(after, f"cut{at}")
        (copy / FIRST).write_bytes(whole[:at] + bytes(len(whole) - at))
        caplog.clear()
        log = open_small(copy)
        assert contents(log) == expected, at
        warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
        dropped = whole[start:at].rstrip(b"\0")
        assert [each.name for each in warnings] == [
            "coterie.broker.log.journal"
        ] * bool(dropped)
        append(log)
        log.flush()
        assert len(contents(log)[0]) == len(expected[0]) + 1
        log.close()


def test_a_torn_write_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    *_, (copy, end) = ends(tmp_path / "data")
    flip(copy / FIRST, end - 1)
    log = open_small(copy)
    [warning] = caplog.messages
    assert "the last write was not finished and is dropped (2" in warning
    caplog.clear()
    again = image(copy, "again")
    log.close()
    log = open_small(again)
    assert caplog.messages == []
    log.close()


@pytest.mark.parametrize("back", [1, 30, 250])
def test_damage_before_a_later_write_is_not_a_torn_write(
    tmp_path: Path, back: int
) -> None:
    _, (_, end), (copy, _) = ends(tmp_path / "data")
    flip(copy / FIRST, end - back)
    with pytest.raises(LogCorrupt, match=r"write 3 is not as it was .* write 4"):
        open_small(copy)
