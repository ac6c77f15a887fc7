"""Find the segment files of each log partition, on a disk or in an object store.

Three layouts are supported: a folder with `__consumer_offsets-N` in it, the folder of
one log partition, and a single file. Only `*.log` files are read: files that a broker
is cleaning, or has marked as deleted, have another suffix.
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
from coterie.types import OFFSETS_TOPIC
from coterie.wire.record_batch import HEADER_BYTES, header_at

_FOLDER: Final = re.compile(rf"{OFFSETS_TOPIC}-(\d{{1,9}})")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_SUFFIX: Final = ".log"


class LogFile(NamedTuple):
    """A segment file."""

    path: str
    """The path in its file system."""
    name: str
    """The log partition's folder and the file: for messages."""
    first_offset: int
    """No batch in it has a lower base offset."""
    is_named_by_broker: bool
    """Whether its name is its first offset. Such files do not overlap in offsets."""


class FileVanished(LogError):
    """The error when a listed file no longer exists, because its broker has compacted
    or deleted it. A new listing has the file that replaced it.
    """


@dataclass(frozen=True)
class LogFiles:
    """The segment files below a path; picklable."""

    system: Any
    """A `pyarrow.fs.FileSystem`."""
    path: str
    log_partition: int = 0
    """The log partition of files whose folder name does not contain it."""

    @classmethod
    def at(cls, where: str, log_partition: int = 0) -> LogFiles:
        """Return the files below a local path or a URI that pyarrow supports.

        Raises SettingError.
        """
        if "://" not in where:
            return cls(LocalFileSystem(), str(Path(where).absolute()), log_partition)
        try:
            system, path = FileSystem.from_uri(where)
        except (pa.ArrowException, OSError) as error:
            raise SettingError(f"{where}: {error}") from None
        return cls(system, path, log_partition)

    @property
    def is_named(self) -> bool:
        """Whether the names of folders show that the files are of the offsets topic.
        Raises SettingError, LogError."""
        return all(
            _FOLDER.fullmatch(_name(path)) or _FOLDER.fullmatch(_name(_parent(path)))
            for path in self._folders().values()
        )

    def find(self) -> dict[int, list[LogFile]]:
        """Return the files of each log partition in log order.

        Raises SettingError if there are no files, and LogError if one cannot be read.
        """
        folders = self._folders()
        found = {number: self._files(path) for number, path in sorted(folders.items())}
        if not any(found.values()):
            raise SettingError(
                f"{self.path} has no log segments: give a folder with {OFFSETS_TOPIC}-0"
                " and so on in it, one of these folders, or a file *.log"
            )
        return found

    def files(self, log_partition: int) -> list[LogFile]:
        path = self._folders().get(log_partition)
        return [] if path is None else self._files(path)

    def open(self, file: LogFile) -> Any:
        """Open a file as a `pyarrow.NativeFile`. Raises LogError."""
        try:
            return self.system.open_input_file(file.path)
        except FileNotFoundError:
            raise FileVanished(f"{file.path} no longer exists") from None
        except (OSError, pa.ArrowException) as error:
            raise LogError(f"{file.path}: {error}") from None

    def size(self, file: LogFile) -> int:
        """Return the size of a file in bytes. Raises LogError."""
        with self.open(file) as opened:
            return int(opened.size())

    def _folders(self) -> dict[int, str]:
        """Return the folder, or the file, of each log partition."""
        try:
            (info,) = self.system.get_file_info([self.path])
            if info.type == FileType.NotFound:
                raise SettingError(f"{self.path} does not exist: is the path right?")
            if own := _FOLDER.fullmatch(_name(self.path)):
                return {int(own[1]): self.path}
            if info.type == FileType.File:
                of_its_folder = _FOLDER.fullmatch(_name(_parent(self.path)))
                number = int(of_its_folder[1]) if of_its_folder else self.log_partition
                return {number: self.path}
            infos = self.system.get_file_info(FileSelector(self.path))
        except (OSError, pa.ArrowException) as error:
            raise LogError(f"{self.path}: {error}") from None
        matches = [(_FOLDER.fullmatch(each.base_name), each) for each in infos]
        found = {int(match[1]): each.path for match, each in matches if match}
        if not found and any(each.base_name.endswith(_SUFFIX) for each in infos):
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
                    if each.type == FileType.File and each.base_name.endswith(_SUFFIX)
                ]
        except (OSError, pa.ArrowException) as error:
            raise LogError(f"{path}: {error}") from None
        found = [self._file(each) for each in infos]
        return sorted(found, key=lambda each: (each.first_offset, each.name))

    def _file(self, info: Any) -> LogFile:
        folder = _name(_parent(info.path))
        name = f"{folder}/{info.base_name}" if folder else info.base_name
        if _SEGMENT.fullmatch(info.base_name):
            return LogFile(info.path, name, int(info.base_name[:20]), True)
        file = LogFile(info.path, name, 0, False)
        with self.open(file) as opened:
            start = opened.read(HEADER_BYTES)
        try:
            base_offset = header_at(start).base_offset
        except MalformedFrame:
            return file  # no batch at the start
        return file._replace(first_offset=max(0, base_offset))


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]


def first_file(files: Sequence[LogFile], offset: int) -> int:
    """Return the index of the file that may contain the batch before `offset`.

    Files without a broker's names may overlap: then it is the first file.
    """
    if not all(each.is_named_by_broker for each in files):
        return 0
    before = [i for i, each in enumerate(files) if each.first_offset < offset]
    return before[-1] if before else 0
