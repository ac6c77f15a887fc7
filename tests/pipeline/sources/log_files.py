"""The files in which a log may have its batches."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from coterie.broker.log.log import Log
from coterie.broker.log.stores import open_log

FILES: Final = ("sqlite", "journal", "segments")


def open_files(directory: Path, files: str) -> Log:
    """Open a log whose batches get into these files at each flush."""
    store = "sqlite" if files == "sqlite" else "journal"
    size = 1 if files == "segments" else 1 << 20
    return open_log(directory, store, is_synced=False, journal_bytes=size)
