"""A directory of the lake: here, or in an object store (a URI that Arrow knows).

What is created is there whole or not at all. Here two processes that create the same
file are told apart; most object stores cannot, so there a lake has one writer.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from coterie.errors import LogError, SettingError


def elsewhere(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path there."""
    system, path = fs.FileSystem.from_uri(uri)
    return system, path


class Entry(NamedTuple):
    """A file, by its path below the lake's directory."""

    path: str
    size_bytes: int


class Storage:
    """Reads and writes files by their paths below one directory."""

    def __init__(self, where: str | Path) -> None:
        text = str(where).removeprefix("file://")
        self.is_local = "://" not in text
        try:
            if self.is_local:
                self.files: Any = fs.LocalFileSystem()
                self.root = str(Path(text).absolute())
            else:
                self.files, self.root = elsewhere(text.rstrip("/"))
        except (pa.ArrowInvalid, OSError) as error:
            raise SettingError(
                f"{text} is no directory that we know: {error}"
            ) from None
        self._uri = self.root if self.is_local else text.rstrip("/")

    def __str__(self) -> str:
        return self._uri

    def at(self, path: str) -> str:
        """A path as `files` takes it."""
        return f"{self.root}/{path}"

    def url(self, path: str) -> str:
        """A path as Spark takes it; it knows s3 by another name."""
        if self.is_local:
            return Path(self.root, path).as_uri()
        return f"{self._uri}/{path}".replace("s3://", "s3a://", 1)

    def read(self, path: str) -> bytes | None:
        """A small file; None when it is not there."""
        try:
            with self.files.open_input_stream(self.at(path)) as stream:
                return cast("bytes", stream.readall())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogError(f"{self}/{path} cannot be read: {error}") from None

    def create(self, path: str, data: bytes) -> bool:
        """Write a file that is not there; False when it is."""
        if not self.is_local:
            if self.read(path) is not None:
                return False
            self._write(path, data)
            return True
        draft = self._draft(path, data)
        try:
            os.link(draft, self.at(path))
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def replace(self, path: str, data: bytes) -> None:
        """Write a file in the place of the one that may be there."""
        if self.is_local:
            self._draft(path, data).replace(self.at(path))
        else:
            self._write(path, data)

    def entries(self, folder: str) -> list[Entry]:
        """All files below a folder; none when it is not there."""
        chosen = fs.FileSelector(self.at(folder), allow_not_found=True, recursive=True)
        start = len(self.root) + 1
        return sorted(
            Entry(each.path[start:], each.size)
            for each in self.files.get_file_info(chosen)
            if each.type is fs.FileType.File
        )

    def delete(self, path: str) -> None:
        """Take a file away; it may be gone already."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(self.at(path))

    def make(self, folder: str) -> None:
        """Let there be a folder; an object store has none."""
        if self.is_local:
            self.files.create_dir(self.at(folder), recursive=True)

    def sync(self, paths: list[str]) -> None:
        """Let files be on the disk before something names them."""
        if not self.is_local:
            return
        for path in {*paths, *(str(Path(each).parent) for each in paths)}:
            handle = os.open(self.at(path), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _draft(self, path: str, data: bytes) -> Path:
        whole = Path(self.at(path))
        whole.parent.mkdir(parents=True, exist_ok=True)
        draft = whole.with_name(f".{whole.name}.{uuid4().hex[:8]}")
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return draft

    def _write(self, path: str, data: bytes) -> None:
        try:
            with self.files.open_output_stream(self.at(path)) as stream:
                stream.write(data)
        except OSError as error:
            raise LogError(f"{self}/{path} cannot be written: {error}") from None
