"""The stores of a log on disk, by their names in the setting `log.store`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from coterie.broker.log.log import Log
from coterie.broker.log.manifest import MANIFEST_VERSION
from coterie.broker.log.sqlite_file import FILE_NAME
from coterie.broker.log.store_file import StoreFile
from coterie.errors import LogError, SettingError

STORES: Final = ("journal", "sqlite")
"""The first is the default."""
JOURNAL_BYTES: Final = 32 * 1024 * 1024


def store_of(directory: Path) -> str | None:
    """Return the store in a directory; None without one. Raises LogError."""
    if not (directory / FILE_NAME).exists():
        return None
    try:
        version = StoreFile(directory).version()
    except SettingError as error:
        raise LogError(str(error)) from None
    return "sqlite" if version < MANIFEST_VERSION else "journal"


def open_log(
    directory: Path,
    store: str = STORES[0],
    *,
    is_synced: bool = True,
    verify: bool = False,
    journal_bytes: int = JOURNAL_BYTES,
) -> Log:
    """Open the log in a directory, which is created if it does not exist.

    `is_synced` makes each flush durable; without it a power failure may lose flushed
    writes. `verify` checks each batch that is read from a file. `journal_bytes` is the
    size of a journal. Raises LogError.
    """
    assert store in STORES, store
    synchronous = "FULL" if is_synced else "OFF"
    # Imported here, so that a server loads only the modules of its store.
    try:
        if store == "sqlite":
            from coterie.broker.log.sqlite import SqliteLog

            _refuse_journals(directory)
            return SqliteLog(directory, synchronous=synchronous, verify=verify)
        from coterie.broker.log.journal import JournalLog

        return JournalLog(
            directory,
            synchronous=synchronous,
            verify=verify,
            journal_bytes=journal_bytes,
        )
    except OSError as error:
        raise LogError(f"{directory}: {error}") from error


def _refuse_journals(directory: Path) -> None:
    """Raise LogError for a store with journals, which has no way back."""
    try:
        store = store_of(directory)
    except LogError:
        return  # the store has another message for another application's file
    if store == "journal":
        raise LogError(
            f"{directory} has journals, which log.store=sqlite does not read: start"
            " the server with log.store=journal, or name another directory with --data"
        )
