"""The stores of a log on disk, by their names in the setting `log.store`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from coterie.broker.log.log import Log
from coterie.errors import LogError

STORES: Final = ("sqlite",)


def open_log(
    directory: Path,
    store: str = "sqlite",
    *,
    is_synced: bool = True,
    verify: bool = False,
) -> Log:
    """Open the log in a directory, which is created if it does not exist.

    `is_synced` makes each flush durable; without it a power failure may lose flushed
    writes. `verify` checks each batch that is read from a file. Raises LogError.
    """
    assert store in STORES, store
    # Imported here, so that a server loads only the modules of its store.
    from coterie.broker.log.sqlite import SqliteLog

    try:
        synchronous = "FULL" if is_synced else "OFF"
        return SqliteLog(directory, synchronous=synchronous, verify=verify)
    except OSError as error:
        raise LogError(f"{directory}: {error}") from error
