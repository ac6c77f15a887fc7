"""The data directory: the names of its files, its lock, and how they are written."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from coterie import portable_os
from coterie.errors import LogError, LogFull
from coterie.files import FILE_MODE

MANIFEST_NAME: Final = "coterie.db"
LOCK_NAME: Final = "coterie.lock"
CLEAN_NAME: Final = "coterie.clean"
"""The file that exists while no server uses the directory and the last one was
stopped."""
_NO_SPACE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_IN_USE: Final = (
    "{path} is in use by another server."
    " Stop it, or name another directory with --data."
)


def lock_directory(directory: Path) -> int:
    """Lock a data directory until this process ends.

    Raises LogError when another process holds the lock.
    """
    descriptor = open_file(directory / LOCK_NAME)
    if not portable_os.lock_file(descriptor):
        os.close(descriptor)
        raise LogError(_IN_USE.format(path=directory))
    return descriptor


def open_file(path: Path) -> int:
    """Open a file; create it readable for this user only if it does not exist.

    The directory contains credentials and messages. SQLite creates the files beside a
    database with that database's mode.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | portable_os.BINARY, FILE_MODE)


def write_all(descriptor: int, pieces: Sequence[bytes], at: int) -> int:
    """Write all pieces at a position; return their size. Raises OSError."""
    size = sum(map(len, pieces))
    written = portable_os.pwritev(descriptor, pieces, at)
    if written < size:
        rest = b"".join(pieces)
        while written < size:
            written += portable_os.pwrite(descriptor, rest[written:], at + written)
    return written


def os_error(path: Path, error: OSError) -> LogError:
    """Translate an error of the operating system."""
    if error.errno in _NO_SPACE:
        return LogFull(f"{path}: {error.strerror}")
    return LogError(f"{path}: {error.strerror or error}")
