"""What a log with journals contains after crashes, torn writes and damage."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie import portable_os
from coterie.broker.log.checkpoint import Checkpointer, Moved
from coterie.broker.log.directory import CLEAN_NAME, MANIFEST_NAME
from coterie.broker.log.journal import JournalLog, JournalPartition
from coterie.broker.log.log import Log
from coterie.broker.log.segments import DESCRIPTORS_MAX, INDEX_BYTES
from coterie.errors import LogCorrupt
from tests.broker.log.logs import OTHER, PARTITION, append

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


def test_a_store_without_its_manifest_is_not_taken_for_a_new_one(
    tmp_path: Path,
) -> None:
    *_, (copy, _) = ends(tmp_path / "data")
    for path in copy.glob(f"{MANIFEST_NAME}*"):
        path.unlink()
    with pytest.raises(LogCorrupt, match=r"db is empty or missing, but .*0\.jou"):
        open_small(copy)


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_journal_is_damage_unless_the_stop_was_clean(
    tmp_path: Path, number: int
) -> None:
    *_, (copy, _) = ends(tmp_path / "data")
    missing = copy / f"journal/{number}.journal"
    missing.unlink()
    with pytest.raises(LogCorrupt, match=f"{number}.journal is missing"):
        open_small(copy)
    assert not missing.exists()
    (copy / CLEAN_NAME).touch()
    log = open_small(copy)
    assert log.partitions() == []  # the manifest has nothing yet
    log.close()


def test_the_salt_does_not_depend_on_the_write_ahead_log(tmp_path: Path) -> None:
    *_, (copy, _) = ends(tmp_path / "data")
    (copy / f"{MANIFEST_NAME}-wal").unlink()
    log = open_small(copy)
    assert len(contents(log)[0]) == 6
    log.close()


def stored(directory: Path, batches: int = 4) -> Path:
    """Write a store with one segment; return the segment's file."""
    log = open_small(directory)
    log.create(PARTITION)
    for number in range(batches):
        append(log, 100, at_ms=number)
    log.flush()
    log.close()
    [path] = directory.glob("segments/*/*.log")
    return path


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("at", range(27))
def test_a_changed_byte_of_a_segment_is_found(
    tmp_path: Path, batch: int, at: int
) -> None:
    path = stored(tmp_path)
    if at in range(12, 16):
        return  # the leader epoch, which is not used and has no checksum
    flip(path, 100 * batch + at)
    log = open_small(tmp_path)
    with pytest.raises(LogCorrupt, match=f"{path.name} is damaged at byte"):
        _ = [log.read(PARTITION, offset, 1) for offset in range(4)]
    log.close()


@pytest.mark.parametrize("length", [0, 250])
def test_a_short_segment_is_found(tmp_path: Path, length: int) -> None:
    path = stored(tmp_path)
    os.truncate(path, length)
    log = open_small(tmp_path)
    with pytest.raises(LogCorrupt, match=f"{path.name} is damaged at byte {length}"):
        log.read(PARTITION, 3, 1)
    append(log)
    log.flush()
    log.close()
    log = open_small(tmp_path)
    assert len(log.read(PARTITION, 4, 1_000)) == 1
    (tmp_path / CLEAN_NAME).unlink(missing_ok=True)
    crashed = image(tmp_path, f"crashed{length}")
    log.close()
    with pytest.raises(LogCorrupt, match="the file ends there"):
        open_small(crashed)


def test_the_directory_of_new_journals_is_synced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    synced: list[tuple[Path, int]] = []

    def sync(directory: Path) -> None:
        synced.append((directory, len(list(directory.glob("*.journal")))))

    monkeypatch.setattr(portable_os, "sync_directory", sync)
    open_small(tmp_path).close()
    assert ((tmp_path / FIRST).parent, 2) in synced


def test_a_missing_segment_is_found(tmp_path: Path) -> None:
    path = stored(tmp_path)
    path.unlink()
    log = open_small(tmp_path)
    with pytest.raises(
        LogCorrupt, match=rf"{path.name} .* byte 0: the file is missing"
    ):
        log.find_timestamp(PARTITION, 2)
    log.close()


def test_a_write_larger_than_a_journal_is_one_frame(tmp_path: Path) -> None:
    log = open_small(tmp_path / "data")
    length = (tmp_path / "data" / FIRST).stat().st_size
    log.create(PARTITION)
    append(log, 50_000)
    log.flush()
    append(log, 60_000)
    append(log, 100)
    log.flush()
    log._writer.wait()
    log._writer.wait_for_work()  # a copy is not made at one point in time
    copy = image(tmp_path / "data", "copy")
    for number in range(9):
        append(log, 900 + number)
        log.flush()
        log._writer.wait()
    assert (tmp_path / "data" / FIRST).stat().st_size == length
    log.close()
    log = open_small(copy)
    assert [len(each) for each in contents(log)[0]] == [50_000, 60_000, 100]
    assert max(each.stat().st_size for each in copy.glob("journal/*")) > length
    for _ in range(9):
        append(log, 900)
        log.flush()
        log._writer.wait()
    assert {each.stat().st_size for each in copy.glob("journal/*")} == {length}
    append(log, 50_000)
    log.flush()
    log.close()
    assert {each.stat().st_size for each in copy.glob("journal/*")} == {length}


def test_descriptors_are_limited(tmp_path: Path) -> None:
    log = open_small(tmp_path)
    log.create(PARTITION)
    for _ in range(2 * DESCRIPTORS_MAX):
        append(log, 700)
    log.flush()
    log.checkpoint()
    assert len(log.read(PARTITION, 0, 1 << 20)) == 2 * DESCRIPTORS_MAX
    opened = [*Path("/proc/self/fd").iterdir()]
    names = [str(each.readlink()) for each in opened if each.is_symlink()]
    segments = [each for each in names if each.startswith(str(tmp_path / "segments"))]
    assert len(segments) == DESCRIPTORS_MAX
    log.close()


def test_a_checkpoint_extends_the_index(tmp_path: Path) -> None:
    log = JournalLog(tmp_path, segment_bytes=1 << 20, is_synced=False)
    log.create(PARTITION)
    for number in range(300):
        append(log, 1_000, at_ms=1_000 - number)
        if number % 100 == 99:
            log.flush()
            log.checkpoint()
    part = log._parts[PARTITION]
    assert isinstance(part, JournalPartition)
    [segment] = part.segments
    # No batch was read yet.
    for offset in range(300):
        assert 0 <= 1_000 * offset - segment.position_of(offset) < 2 * INDEX_BYTES
    assert segment.position_at_time(1_001) == segment.position_of(299)
    assert segment.position_at_time(1_000) == 0
    for offset in range(0, 300, 7):
        [batch] = log.read(PARTITION, offset, 1)
        assert int.from_bytes(batch[:8], "big") == offset
    log.close()


def test_the_rest_of_a_moved_frame_is_no_unfinished_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_small(tmp_path / "data")
    log.create(PARTITION)
    append(log, 20_000)  # longer than a journal, which is cut when it has been moved
    log.flush()
    log.checkpoint()
    append(log, 100)
    log.flush()
    assert (tmp_path / "data" / FIRST).stat().st_size == 4_096
    killed = image(tmp_path / "data", "killed")
    expected = contents(log)
    log.close()
    with caplog.at_level(logging.WARNING):
        reopened = open_small(killed)
    assert contents(reopened) == expected
    reopened.close()
    assert caplog.records == []


def test_a_partition_deleted_during_a_checkpoint_is_in_the_manifest_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, deleted, done = (threading.Event() for _ in range(3))
    move = Checkpointer.move

    def move_after_deletion(*arguments: Any) -> Moved:
        started.set()
        assert deleted.wait(60)
        moved = move(*arguments)
        done.set()
        return moved

    monkeypatch.setattr(Checkpointer, "move", move_after_deletion)
    log = open_small(tmp_path / "data")
    log.create(PARTITION)
    log.create(OTHER)
    while log._writer._move is None:  # another move would wait for this one
        append(log, 200)
        log.flush()
    assert started.wait(60)
    log.delete(OTHER)
    log.flush()
    deleted.set()
    assert done.wait(60)
    copy = image(tmp_path / "data", "copy")
    log.close()
    again = open_small(copy)
    assert list(again.partitions()) == [PARTITION]
    again.close()


def test_a_process_killed_again_while_a_journal_is_moved_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, released = threading.Event(), threading.Event()
    move = Checkpointer.move

    def move_when_released(*arguments: Any) -> Moved:
        started.set()
        assert released.wait(60)
        return move(*arguments)

    monkeypatch.setattr(Checkpointer, "move", move_when_released)
    copy, count = tmp_path / "data", 0
    log = open_small(copy)
    log.create(PARTITION)
    for number in range(3):
        while log._writer._move is None:  # another move would wait for this one
            append(log, 200)
            log.flush()
            count += 1
        assert started.wait(60)
        for _ in range(2):  # into the other journal
            append(log, 200)
            log.flush()
            count += 1
        copy = image(copy, f"copy{number}")
        released.set()
        log.close()
        released.clear()
        started.clear()
        log = open_small(copy)
        assert len(contents(log)[0]) == count
        assert started.wait(60), "both journals had writes"
    released.set()
    log.close()
