"""Files that are named on a command line; - is stdin or stdout."""

from __future__ import annotations

import sys
from pathlib import Path

from coterie.errors import SettingError


def read_text(file: str) -> str:
    """What is in a file. Raises SettingError."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"{file} cannot be read: it is not UTF-8") from error


def write_new(file: str, data: bytes) -> None:
    """Make a file that is not there yet. Raises SettingError."""
    try:
        with Path(file).open("xb") as made:
            made.write(data)
    except OSError as error:
        raise SettingError(f"{file} cannot be written: {error.strerror}") from error
