"""A journal: one file that is allocated before it is written, and its recovery.

The sync of a file that grows also waits for the file system's own journal, which
doubles its time. So a journal is filled with zeros and synced when it is created, and
written from its beginning again when its frames have been moved. A frame larger than
the journal makes it grow for that time.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from coterie import portable_os
from coterie.broker.log.directory import (
    CLEAN_NAME,
    MANIFEST_NAME,
    open_file,
    os_error,
    write_all,
)
from coterie.broker.log.journal_frames import (
    FRAME_END,
    Bytes,
    Frame,
    find_newer,
    read_frames,
    torn_bytes,
)
from coterie.errors import LogCorrupt, LogFull

_FILL_BYTES: Final = 1 << 20
_MISSING: Final = (
    "{path} is missing, and the server was not stopped before. Restore the data"
    " directory from a backup. To start without the writes since the last checkpoint,"
    " create the file {clean}."
)
_NO_MANIFEST: Final = (
    "{path} is empty or missing, but {other} is not. Restore the data directory from a"
    " backup, or name another one with --data."
)
_DAMAGED: Final = (
    "{path} is damaged: write {missing} is not as it was written at byte {at}, but"
    " write {newer}, which was made durable after it, is. Restore the data directory"
    " from a backup. To start without write {missing} and all later ones, move the"
    " directory {directory} away and create the file {clean}."
)


class JournalFile:
    """One open journal file.

    `end` is the position of the next frame.
    """

    def __init__(self, path: Path, size_bytes: int, *, sync: bool) -> None:
        assert size_bytes > 0
        self.path = path
        self.end = 0
        self._sync = sync
        self._descriptor = open_file(path)
        self.size_bytes = self._allocate(size_bytes)
        self._allocated_bytes = min(self.size_bytes, size_bytes)

    def fits(self, size_bytes: int, *, reserve: bool = False) -> bool:
        """Return whether a frame can be added without making the file longer, and
        without its last eighth if that is to be reserved."""
        limit = self.size_bytes - reserve * (self.size_bytes // 8)
        return self.end + size_bytes + len(FRAME_END) <= limit

    def write(self, pieces: Sequence[bytes]) -> None:
        """Write a frame at `end` and sync. Raises LogError; then `end` is the same."""
        assert pieces
        self.end += self._write_at_end([*pieces, FRAME_END]) - len(FRAME_END)
        self.size_bytes = max(self.size_bytes, self.end + len(FRAME_END))

    def erase(self) -> None:
        """Overwrite the header of a frame at `end`, which is not to be recovered."""
        self._write_at_end([FRAME_END])

    def _write_at_end(self, pieces: Sequence[bytes]) -> int:
        """Write and sync; return the size."""
        try:
            size = write_all(self._descriptor, pieces, self.end)
            if self._sync:
                portable_os.fdatasync(self._descriptor)
        except OSError as error:
            raise os_error(self.path, error) from error
        return size

    def begin_again(self) -> None:
        """Write from the beginning on: all frames have been moved."""
        if self.size_bytes > self._allocated_bytes:
            with contextlib.suppress(OSError):  # it may stay long
                # What is left of a frame would look like a write that was not finished.
                portable_os.pwrite(self._descriptor, FRAME_END, 0)
                os.ftruncate(self._descriptor, self._allocated_bytes)
                self.size_bytes = self._allocated_bytes
        self.end = 0

    @contextlib.contextmanager
    def mapped(self) -> Iterator[Bytes]:
        """Return the contents as bytes in memory, read when they are used."""
        if os.fstat(self._descriptor).st_size == 0:
            yield b""
            return
        with mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ) as data:
            yield data

    def close(self) -> None:
        os.close(self._descriptor)

    def _allocate(self, size_bytes: int) -> int:
        """Extend the file with zeros; return its length, which is shorter when the disk
        is full."""
        length = os.fstat(self._descriptor).st_size
        if length >= size_bytes:
            return length
        try:
            while length < size_bytes:
                zeros = bytes(min(_FILL_BYTES, size_bytes - length))
                length += portable_os.pwrite(self._descriptor, zeros, length)
        except OSError as error:
            failure = os_error(self.path, error)
            if not isinstance(failure, LogFull):
                raise failure from error
        if self._sync:
            os.fsync(self._descriptor)
        return length


def check_present(paths: Sequence[Path], *, is_new: bool) -> None:
    """Check that the journals of a store exist, or are empty for a new one.

    `paths` are in one directory of the store. Raises LogCorrupt.
    """
    directory = paths[0].parent.parent
    for path in paths:
        if is_new and path.exists() and path.read_bytes().strip(b"\0"):
            manifest = directory / MANIFEST_NAME
            raise LogCorrupt(_NO_MANIFEST.format(path=manifest, other=path))
        if not is_new and not path.exists():
            clean = directory / CLEAN_NAME
            if not clean.exists():
                raise LogCorrupt(_MISSING.format(path=path, clean=clean))


class Recovered(NamedTuple):
    """What is in the journals: their frames after the last one that was moved.

    The frames of the last journal follow those of the journals before it. `torn_bytes`
    is the size of the write that was not finished.
    """

    journals: list[tuple[JournalFile, list[Frame]]]
    torn_bytes: int


def recover(journals: Sequence[JournalFile], seed: int, applied: int) -> Recovered:
    """Read the frames after sequence number `applied`, and set the ends of journals.

    The order of the result is that in which the journals were written. A write that was
    not finished is erased. Raises LogCorrupt if a frame is missing or damaged.
    """
    found: list[tuple[JournalFile, list[Frame]]] = []
    for journal in journals:
        with journal.mapped() as data:
            frames = read_frames(data, seed)
        journal.end = frames[-1].end if frames else 0
        frames = [each for each in frames if each.sequence > applied]
        if not frames:
            journal.end = 0
        found.append((journal, frames))
    found.reverse()
    # Empty ones first: the last journal is the one to be continued.
    found.sort(key=lambda each: each[1][0].sequence if each[1] else 0)
    last = applied
    for _, frames in found:
        for frame in frames:
            if frame.sequence != last + 1:
                raise _damaged(found, last + 1, frame)
            last = frame.sequence
    torn = 0
    for journal, _ in found:
        with journal.mapped() as data:
            newer = find_newer(data, journal.end, seed, last)
            if newer is not None:
                raise _damaged(found, last + 1, newer)
            torn_here = torn_bytes(data, journal.end, seed, last + 1)
        if torn_here:
            journal.erase()
            torn += torn_here
    return Recovered(found, torn)


def _damaged(
    found: list[tuple[JournalFile, list[Frame]]], missing: int, newer: Frame
) -> LogCorrupt:
    """Return the error for a write that is missing before another one."""
    ended = [
        (journal.path, journal.end)
        for journal, frames in found
        if frames and frames[-1].sequence == missing - 1
    ]
    path, at = ended[0] if ended else (found[-1][0].path, found[-1][0].end)
    assert newer.sequence > missing
    return LogCorrupt(
        _DAMAGED.format(
            path=path,
            missing=missing,
            at=at,
            newer=newer.sequence,
            directory=path.parent,
            clean=path.parent.with_name(CLEAN_NAME),
        )
    )
