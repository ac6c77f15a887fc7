"""Read and write the files of a lake, in a local directory or an object store.

A created file exists completely or not at all, and only one of two processes that
create the same file succeeds: by a hard link in a local directory, by a conditional
write in an object store.

delta-rs and obstore use the same client for object stores, so one set of environment
variables (AWS_*, AZURE_*, GOOGLE_*) configures tables, data files and manifests.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from uuid import uuid4

import pyarrow.parquet as pq
from pyarrow import fs

from coterie import portable_os
from coterie.errors import LogError, SettingError
from coterie.pipeline.lake.faults import summarize


class Entry(NamedTuple):
    """A file, by its path relative to the lake's directory."""

    path: str
    size_bytes: int


class Storage:
    """The files below one directory, by relative path."""

    def __init__(self, where: str | Path) -> None:
        text = str(where).removeprefix("file://")
        self.is_local = "://" not in text
        if self.is_local:
            self._uri = self.root = str(Path(text).absolute())
            self.filesystem: Any = fs.LocalFileSystem()
            return
        # A local lake needs neither, and their imports take time.
        from deltalake.exceptions import DeltaError
        from deltalake.fs import DeltaStorageHandler
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        # Paths in the file system of an object store are relative to the lake.
        self._uri, self.root = text.rstrip("/"), ""
        try:
            self.filesystem = fs.PyFileSystem(DeltaStorageHandler(self._uri))
            self._objects: Any = from_url(self._uri)
        except (DeltaError, BaseError, OSError) as error:
            raise SettingError(f"cannot open {self._uri}: {summarize(error)}") from None

    def __str__(self) -> str:
        return self._uri

    def at(self, path: str) -> str:
        """Convert a path in the lake to a path in `filesystem`."""
        return f"{self.root}/{path}" if self.root else path

    def url(self, path: str) -> str:
        """Return a path for Spark, with Hadoop's scheme for S3: s3a."""
        if self.is_local:
            # Hadoop takes a path as it is: "%3D" would be a part of the name.
            return f"file://{self.root}/{path}"
        return f"{self._uri}/{path}".replace("s3://", "s3a://", 1)

    def delta_uri(self, folder: str) -> str:
        """Return the location of a Delta table for delta-rs."""
        return self.at(folder) if self.is_local else f"{self._uri}/{folder}"

    def filesystem_of(self, folder: str) -> Any:
        """Return an Arrow file system whose root is a folder of the lake."""
        return fs.SubTreeFileSystem(self.at(folder), self.filesystem)

    def parquet_metadata(self, path: str) -> Any:
        """Return the footer of a Parquet file."""
        return pq.read_metadata(self.at(path), filesystem=self.filesystem)

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file; None when it does not exist."""
        try:
            with self.filesystem.open_input_stream(self.at(path)) as stream:
                return cast("bytes", stream.readall())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogError(
                f"{self}/{path} cannot be read: {summarize(error)}"
            ) from None

    def create(self, path: str, data: bytes) -> bool:
        """Write a new file; return False when it exists already."""
        if not self.is_local:
            return self._put(path, data, "create")
        temporary = self._write_temporary(path, data)
        try:
            # link, unlike rename, fails when the target exists.
            os.link(temporary, self.at(path))
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    def replace(self, path: str, data: bytes) -> None:
        """Write a file, or replace it if it exists."""
        if self.is_local:
            self._write_temporary(path, data).replace(self.at(path))
        else:
            self._put(path, data, "overwrite")

    def entries(self, folder: str) -> list[Entry]:
        """Return all files below a folder in order; an empty list if the folder does
        not exist.
        """
        selector = fs.FileSelector(
            self.at(folder), allow_not_found=True, recursive=True
        )
        try:
            infos = self.filesystem.get_file_info(selector)
        except OSError as error:
            raise LogError(f"{self} cannot be listed: {summarize(error)}") from None
        start = len(self.at(""))
        return sorted(
            Entry(info.path[start:], info.size)
            for info in infos
            if info.type is fs.FileType.File
        )

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        return int(self.filesystem.get_file_info(self.at(path)).size)

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.at(path))

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and all files in it, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.at(folder))

    def move(self, path: str, to: str) -> None:
        """Give a file another path; its new folder is created."""
        self.make_folder(to.rpartition("/")[0])
        self.filesystem.move(self.at(path), self.at(to))

    def make_folder(self, folder: str) -> None:
        """Create a folder, if it is missing; object stores have no folders."""
        if self.is_local:
            self.filesystem.create_dir(self.at(folder), recursive=True)

    def sync(self, paths: list[str]) -> None:
        """Flush local files and their directories to disk."""
        if not self.is_local:
            return
        files = {Path(self.at(path)) for path in paths}
        for file in files:
            portable_os.sync_file(file)
        for directory in {file.parent for file in files}:
            portable_os.sync_directory(directory)

    def _write_temporary(self, path: str, data: bytes) -> Path:
        target = Path(self.at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        return temporary

    def _put(
        self, path: str, data: bytes, mode: Literal["create", "overwrite"]
    ) -> bool:
        """Write an object; return False when it exists and `mode` is create."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            self._objects.put(path, data, mode=mode)
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise LogError(
                f"{self}/{path} cannot be written: {summarize(error)}"
            ) from None
        return True
