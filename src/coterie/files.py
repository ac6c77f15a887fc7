"""Files and directories that only their owner can use.

The modes of existing files and directories are never changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
OTHERS: Final = 0o077
"""The bits of a mode that allow anything to the group or to other users."""
READABLE: Final = 0o044


def is_open(path: Path, bits: int = OTHERS) -> bool:
    """Return whether a mode has any of the bits; False for a missing file, and where
    modes do not exist."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & bits)
    except OSError:
        return False


def make_private_directory(path: Path) -> bool:
    """Create a directory and missing parents; return False when it exists already.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
        return False
    return True


def write_private_file(path: Path, data: bytes, *, must_be_new: bool = False) -> None:
    """Write a file; a new one is readable by its owner only.

    Raises OSError, also for an existing file with `must_be_new`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    flags |= os.O_EXCL if must_be_new else os.O_TRUNC
    with os.fdopen(os.open(path, flags, FILE_MODE), "wb") as file:
        file.write(data)
