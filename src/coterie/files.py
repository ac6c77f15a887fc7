"""Text files, files below the home directory, and those that only their owner can use.

The modes of existing files and directories are never changed.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coterie.errors import CoterieError, OutputError, SettingError
from coterie.portable_os import BINARY

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
OTHERS: Final = 0o077
"""The bits of a mode that allow anything to the group or to other users."""
READABLE: Final = 0o044
_DISK_ERRORS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
)

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and their encodings. Excel and Notepad write the first one,
Windows PowerShell's `>` the second."""


def read_text(path: Path) -> str:
    """Return the text of a file, as `decode_text` reads it. Raises SettingError."""
    try:
        return decode_text(path.read_bytes())
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"cannot read {path}: it is not UTF-8") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises SettingError."""
    import tomllib

    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path} is not TOML: {error}") from error


def dotted_names(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables: TOML parses `num.partitions = 3` as one."""
    names: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            names |= dotted_names(value, f"{prefix}{key}.")
        else:
            names[prefix + key] = value
    return names


def decode_text(data: bytes, encoding: str = "utf-8") -> str:
    """Decode a text; a byte order mark overrides the encoding and is removed.

    Ends of lines are kept, because names may contain them. Raises UnicodeDecodeError,
    also for UTF-16 without a mark.
    """
    for mark, named in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(named)
    if _is_unmarked_utf_16(data):
        reason = "it is UTF-16 without a byte order mark"
        raise UnicodeDecodeError(encoding, data, 0, 2, reason)
    return data.decode(encoding)


def _is_unmarked_utf_16(data: bytes) -> bool:
    """Return whether every other byte, and no more, is NUL, as in UTF-16 of ASCII.

    As UTF-8 or Latin-1 it would be valid, with other names. Two bytes may be a name.
    """
    if len(data) < 4 or len(data) % 2:
        return False
    high, low = data[0::2].count(0), data[1::2].count(0)
    return {high, low} == {0, len(data) // 2}


def user_directory(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """Return the directory that one of XDG's variables names, or its default below the
    home directory. Raises SettingError for a user without a home directory."""
    if named := environ.get(variable):
        return expand_user(named)
    try:
        return Path.home() / below_home
    except RuntimeError:
        message = f"the user has no home directory: set HOME or {variable}"
        raise SettingError(message) from None


def expand_user(path: str) -> Path:
    """Return a path in which a home directory replaces "~". Without one, as for the
    user ids of some containers, it is the path of a file that does not exist."""
    with contextlib.suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


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

    Raises OSError, also for an existing file with `must_be_new`. A file that must be
    new is removed when it cannot be written completely.
    """
    flags = os.O_WRONLY | os.O_CREAT | BINARY
    flags |= os.O_EXCL if must_be_new else os.O_TRUNC
    descriptor = os.open(path, flags, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        if must_be_new:
            path.unlink(missing_ok=True)
        raise


def write_error(path: Path | str, error: OSError) -> CoterieError:
    """Return the error of a file that could not be written: OutputError for a disk that
    is full or broken, and SettingError for a path that cannot be written to."""
    kind = OutputError if error.errno in _DISK_ERRORS else SettingError
    return kind(f"cannot write {path}: {error.strerror}")
