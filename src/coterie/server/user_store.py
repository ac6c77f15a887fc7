"""The users of a server that does not run: in its directory, with nobody to ask.

It is how the first user comes to be, who can then make others through the server
(AlterUserScramCredentials).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from coterie.catalog.entries import Entry, Kind, decode_entry, space_of
from coterie.catalog.users import Users
from coterie.errors import LogError
from coterie.log.sqlite import SqliteLog


class UserStore:
    """The users in a directory, made if it is not there. No server can start in it
    meanwhile.

    Raises LogError for a directory that is in use or holds something else.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self._log = SqliteLog(directory)
        except OSError as error:
            raise LogError(f"{directory}: {error.strerror}") from error
        self.users = Users()
        for key, value in self._log.items(space_of(Kind.SCRAM_CREDENTIAL)):
            entry = decode_entry(Kind.SCRAM_CREDENTIAL, key, value)
            self.users.replay(entry.name, entry.value)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._log.close()

    def write(self, entries: Iterable[Entry]) -> None:
        """Make entries durable. Raises LogError."""
        for entry in entries:
            self.users.replay(entry.name, entry.value)
            self._log.put(entry.space, *entry.encode())
        self._log.flush()
