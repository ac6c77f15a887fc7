"""Crashes and errors at every step of a flush and of a checkpoint."""

from __future__ import annotations

import errno
import shutil
import sys
import threading
from pathlib import Path

import pytest

from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import LogPartition
from coterie.errors import LogError, LogFull
from tests.broker.log.file_calls import FileCalls
from tests.broker.log.logs import OTHER, PARTITION, make_batch

PARTITIONS = (PARTITION, OTHER)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> FileCalls:
    """Return hooks on the calls that write to files."""
    return FileCalls(monkeypatch)


def reopen(directory: Path) -> JournalLog:
    """Open a log with small files."""
    return JournalLog(directory, journal_bytes=1 << 14, segment_bytes=400, verify=True)


class Writer:
    """Writes rounds, each as one flush: a batch in two partitions and their number."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.begun = self.done = 0
        self.log = reopen(directory)
        for where in PARTITIONS:
            self.log.create(where)
        self.log.flush()

    def write(self) -> None:
        """Flush one more round. Raises LogError, and then stages nothing."""
        for where in PARTITIONS:
            base = self.log.next_offset(where)
            self.log.append(where, make_batch(base, base, 0, 150))
        self.begun = self.done + 1
        self.log.put("space", b"rounds", b"%d" % self.begun)
        self.log.flush()
        self.done = self.begun

    def compact(self, offset: int) -> None:
        """Remove a batch, and drop those before it."""
        for where in PARTITIONS:
            self.log.replace(where, offset, None)
            self.log.truncate(where, offset - 1)
        self.log.flush()

    def write_while_moving(self) -> None:
        """Write to the other journal before the first one is moved."""
        release = threading.Event()
        self.log._writer.run(lambda: _wait(release))
        try:
            self.log._writer.switch()
            self.write()
        finally:
            release.set()
        self.log._writer.wait()


def _wait(event: threading.Event) -> None:
    assert event.wait(120)


def rounds(log: JournalLog) -> int:
    """Check that rounds are whole; return their number."""
    value = log.get("space", b"rounds")
    number = 0 if value is None else int(value)
    for where in log.partitions():
        bounds = log.bounds(where)
        assert bounds.next_offset == number
        kept = [each.base_offset for each in log.headers(where)]
        compacted = [
            each for each in range(number) if each != bounds.log_start_offset + 1
        ]
        expected = compacted if bounds.log_start_offset else [*range(number)]
        assert kept == expected[-len(kept) :]
        assert [*log.read(where, 0, 1 << 20)] == [
            make_batch(offset, offset, 0, 150) for offset in kept
        ]
        assert len(kept) >= number - 3
    return number


def scenario(writer: Writer) -> None:
    """Flush and checkpoint in all ways."""
    steps = (
        writer.write,
        writer.write,
        writer.log.checkpoint,
        writer.write,
        writer.write_while_moving,
        lambda: writer.compact(2),
        writer.log.checkpoint,
        writer.write,
        writer.write_while_moving,
    )
    for step in steps:
        step()
        # Files that are no longer used are deleted in the worker thread.
        writer.log._writer.wait_for_work()


@pytest.mark.slow
def test_a_crash_before_any_call_loses_nothing_that_was_flushed(
    tmp_path: Path, calls: FileCalls
) -> None:
    writer = Writer(tmp_path / "data")
    images: list[tuple[Path, str, int, int]] = []

    def copy(name: str) -> None:
        path = tmp_path / f"image{len(images)}"
        shutil.copytree(writer.directory, path)
        images.append((path, name, writer.done, writer.begun))

    calls.before = copy
    scenario(writer)
    calls.before = None
    writer.log.close()
    assert len(images) > 30
    for path, name, done, begun in images:
        log = reopen(path)
        assert rounds(log) in {done, begun}, (path, name)
        log.checkpoint()
        assert rounds(log) in {done, begun}, (path, name)
        log.close()


def succeeds(writer: Writer, expected: type[LogError]) -> bool:
    """Return whether no step of the scenario fails with the expected error."""
    try:
        scenario(writer)
    except expected:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_nothing_flushed_is_lost_when_calls_fail(
    tmp_path: Path, calls: FileCalls, error: int
) -> None:
    expected = LogFull if error == errno.ENOSPC else LogError
    failures = 0
    for number in range(1, 60):
        writer = Writer(tmp_path / f"data{number}")
        calls.fail(number, error)
        failures += not succeeds(writer, expected)
        calls.before = None
        crashed = writer.directory.with_name(f"crashed{number}")
        writer.log._writer.wait_for_work()
        shutil.copytree(writer.directory, crashed)
        log = reopen(crashed)
        assert rounds(log) in {writer.done, writer.begun}
        log.close()
        # The store itself goes on when the fault is over.
        writer.log.checkpoint()
        writer.write()
        assert rounds(writer.log) == writer.done
        writer.log.close()
        log = reopen(writer.directory)
        assert rounds(log) == writer.done
        log.close()
    assert failures > 25


@pytest.mark.posix
def test_the_files_of_many_partitions_are_synced_at_once(
    tmp_path: Path, calls: FileCalls
) -> None:
    log = reopen(tmp_path / "data")
    partitions = [LogPartition(b"t" * 16, number) for number in range(100)]
    for where in partitions:
        log.create(where)
        log.append(where, make_batch(0, 0, 0, 150))
    log.flush()
    names: list[str] = []
    calls.before = names.append
    log.checkpoint()
    calls.before = None
    if sys.platform == "linux":
        assert names.count("pwritev") == 100
        assert "fsync" not in names
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    log.close()
    log = reopen(tmp_path / "copy")
    assert {len(log.read(where, 0, 1_000)) for where in partitions} == {1}
    log.close()


def test_a_write_that_failed_is_not_recovered(tmp_path: Path, calls: FileCalls) -> None:
    writer = Writer(tmp_path / "data")
    writer.write()

    def fail_once(name: str) -> None:
        if name == "fdatasync":
            calls.before = None
            raise OSError(errno.EIO, "once")

    calls.before = fail_once
    with pytest.raises(LogError, match="once"):
        writer.write()
    shutil.copytree(writer.directory, tmp_path / "crashed")
    log = reopen(tmp_path / "crashed")
    assert rounds(log) == 1
    log.close()
    writer.write()
    assert rounds(writer.log) == 2
    writer.log.close()


def test_nothing_is_written_behind_a_failed_write_that_remains(
    tmp_path: Path, calls: FileCalls
) -> None:
    writer = Writer(tmp_path / "data")
    writer.write()

    def fail_sync(name: str) -> None:
        if name == "fdatasync":
            raise OSError(errno.EIO, "no sync")

    calls.before = fail_sync
    for _ in range(2):
        with pytest.raises(LogError, match="no sync"):
            writer.write()
    with pytest.raises(LogError, match="no sync"):
        writer.log.checkpoint()
    calls.before = None
    writer.log.checkpoint()
    writer.write()
    shutil.copytree(writer.directory, tmp_path / "crashed")
    log = reopen(tmp_path / "crashed")
    assert rounds(log) == 2
    log.close()
    writer.log.close()
