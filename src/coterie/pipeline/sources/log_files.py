"""Finds the segment files of each log partition, on a disk or in an object store.

Three ways to lie are understood: a folder with `__consumer_offsets-N` in it, the folder
of one log partition, and a single file. Only `*.log` counts: what a broker is still
cleaning, or has marked deleted, has another ending.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from coterie.errors import LogError, MalformedFrame, SettingError
from coterie.wire.record_batch import HEADER_BYTES, read_header

TOPIC: Final = "__consumer_offsets"
_FOLDER: Final = re.compile(rf"{TOPIC}-(\d{{1,9}})")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_ENDING: Final = ".log"


class LogFile(NamedTuple):
    """A segment file."""

    path: str
    """As its file system names it."""
    name: str
    """As people know it: the log partition's folder and the file."""
    first_offset: int
    """No batch of it has a lower base offset."""
    is_named_by_broker: bool
    """Its name is its first offset. Of such files no two hold the same offsets."""


class Vanished(LogError):
    """A file that was listed is not there any more: its broker compacted or deleted
    it, and another look may find what became of it."""


@dataclass(frozen=True)
class LogFiles:
    """The files below a path. Picklable."""

    system: Any
    """A `pyarrow.fs.FileSystem`."""
    path: str
    log_partition: int = 0
    """Of files whose folder does not say it."""

    @classmethod
    def at(cls, where: str, log_partition: int = 0) -> LogFiles:
        """Below a path of this machine or a URI that pyarrow knows. Raises
        SettingError."""
        if "://" not in where:
            return cls(LocalFileSystem(), str(Path(where).absolute()), log_partition)
        try:
            system, path = FileSystem.from_uri(where)
        except (pa.ArrowException, OSError) as error:
            raise SettingError(f"{where}: {error}") from None
        return cls(system, path, log_partition)

    def find(self) -> dict[int, list[LogFile]]:
        """The files of each log partition in log order.

        Raises SettingError when there are none, LogError when one cannot be read.
        """
        folders = self._folders()
        found = {number: self._files(path) for number, path in sorted(folders.items())}
        if not any(found.values()):
            raise SettingError(
                f"{self.path} has no log segments: name a folder with"
                f" {TOPIC}-0 and so on in it, one of these folders, or a file *.log"
            )
        return found

    def files(self, log_partition: int) -> list[LogFile]:
        """The files of one log partition in log order; none when it is not there."""
        path = self._folders().get(log_partition)
        return [] if path is None else self._files(path)

    def open(self, file: LogFile) -> Any:
        """A file to read at any place: a `pyarrow.NativeFile`. Raises LogError."""
        try:
            return self.system.open_input_file(file.path)
        except FileNotFoundError:
            raise Vanished(f"{file.path} is not there any more") from None
        except (OSError, pa.ArrowException) as error:
            raise LogError(f"{file.path}: {error}") from None

    def _folders(self) -> dict[int, str]:
        """The folder (or the file) of each log partition."""
        try:
            (info,) = self.system.get_file_info([self.path])
            if info.type == FileType.NotFound:
                raise SettingError(f"{self.path} is not there: is it the right path?")
            if own := _FOLDER.fullmatch(_base(self.path)):
                return {int(own[1]): self.path}
            if info.type == FileType.File:
                of_its_folder = _FOLDER.fullmatch(_base(_parent(self.path)))
                number = int(of_its_folder[1]) if of_its_folder else self.log_partition
                return {number: self.path}
            infos = self.system.get_file_info(FileSelector(self.path))
        except (OSError, pa.ArrowException) as error:
            raise LogError(f"{self.path}: {error}") from None
        matches = [(_FOLDER.fullmatch(each.base_name), each) for each in infos]
        found = {int(match[1]): each.path for match, each in matches if match}
        if not found and any(each.base_name.endswith(_ENDING) for each in infos):
            return {self.log_partition: self.path}
        return found

    def _files(self, path: str) -> list[LogFile]:
        try:
            (info,) = self.system.get_file_info([path])
            if info.type == FileType.File:
                infos = [info]
            else:
                selector = FileSelector(path, allow_not_found=True)
                infos = [
                    each
                    for each in self.system.get_file_info(selector)
                    if each.type == FileType.File and each.base_name.endswith(_ENDING)
                ]
        except (OSError, pa.ArrowException) as error:
            raise LogError(f"{path}: {error}") from None
        found = [self._file(each) for each in infos]
        return sorted(found, key=lambda each: (each.first_offset, each.name))

    def _file(self, info: Any) -> LogFile:
        folder = _base(_parent(info.path))
        name = f"{folder}/{info.base_name}" if folder else info.base_name
        if _SEGMENT.fullmatch(info.base_name):
            return LogFile(info.path, name, int(info.base_name[:20]), True)
        file = LogFile(info.path, name, 0, False)
        with self.open(file) as opened:
            start = opened.read(HEADER_BYTES)
        return file._replace(first_offset=_base_offset(start))


def _base_offset(start: bytes) -> int:
    """The first batch's offset, from the first bytes of a file; 0 for no batch."""
    try:
        # Its size goes beyond what was read: only the offset is of interest here.
        return max(0, read_header(start[:8] + _EMPTY + start[12:]).base_offset)
    except MalformedFrame:
        return 0


_EMPTY: Final = (HEADER_BYTES - 12).to_bytes(4, "big")


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]


def begin_with(files: Sequence[LogFile], offset: int) -> int:
    """With which file to begin to read from `offset` on: where the batch before it may
    be.

    Files that a broker named do not overlap; with others among them, one must begin
    with the first.
    """
    if not all(each.is_named_by_broker for each in files):
        return 0
    before = [i for i, each in enumerate(files) if each.first_offset < offset]
    return before[-1] if before else 0
