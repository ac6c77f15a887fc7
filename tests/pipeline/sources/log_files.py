"""The files in which a log may have its batches."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from coterie.broker.log.journal import JournalLog

FILES: Final = ("journal", "segments")


def open_files(directory: Path, files: str) -> JournalLog:
    """Open a log whose batches get into these files at each flush."""
    size = 1 if files == "segments" else 1 << 20
    return JournalLog(directory, is_synced=False, journal_bytes=size)
