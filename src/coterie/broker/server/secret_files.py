"""Files of a server with secrets that other users of the machine can read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from coterie.files import READABLE, is_open
from coterie.settings import Settings

_FOLDERS: Final = {"journal", "segments"}


class OpenFile(NamedTuple):
    """A file or directory that other users can use, what it has, and the remedy."""

    path: Path
    content: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.path} has {self.content}, and other users can read it: "
            f"{self.remedy} {self.path}"
        )


def open_secrets(
    settings: Settings, config: Path | None, directory: Path | None
) -> Iterator[OpenFile]:
    """Yield the files of a server's secrets and data that other users can read.

    `config` is the file of `--config`. The data directory has credentials and messages.
    """
    private = "chmod 600"
    if config is not None and settings.ssl_key_password and is_open(config, READABLE):
        yield OpenFile(config, "ssl.key.password", private)
    keystore = Path(settings.ssl_keystore_location)
    if settings.ssl_keystore_location and is_open(keystore, READABLE):
        yield OpenFile(keystore, "the server's private key", private)
    users = Path(settings.sasl_users_file)
    if settings.sasl_users_file and is_open(users, READABLE):
        yield OpenFile(users, "passwords", private)
    if directory is not None and is_open(directory):
        yield OpenFile(directory, "credentials and messages", "chmod 700")
    for file in sorted(directory.iterdir()) if directory and directory.is_dir() else ():
        if file.is_dir():
            if file.name in _FOLDERS and is_open(file):
                yield OpenFile(file, "messages", "chmod 700")
        elif file.name.startswith("coterie.") and is_open(file):
            yield OpenFile(file, "credentials and messages", private)
