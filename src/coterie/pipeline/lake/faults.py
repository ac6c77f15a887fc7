"""Describe faults of disks and files: one sentence with what failed and what to do.

The libraries that read and write a lake (pyarrow, delta-rs, Spark) report the same
fault by different exceptions, some with the stack of another language. Their texts have
the message of the operating system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import gettempdir
from typing import Final

from coterie.errors import CoterieError, LogError, LogFull
from coterie.pipeline.tables.all_tables import GOLD

_FULL: Final = re.compile(r"No space left on device|quota exceeded|\bENOSPC\b", re.I)
_DENIED: Final = re.compile(
    r"Permission denied|Operation not permitted|Read-only file system|AccessDenied"
)
_MISSING: Final = re.compile(
    r"No such file or directory|FILE_NOT_EXIST|FileNotFoundException|Object at location"
)
_DAMAGED: Final = re.compile(
    r"FAILED_READ_FILE|[Pp]arquet|decompress|corrupt|[Tt]hrift|CRC checksum|page header"
)
_FILE: Final = re.compile(
    r"/(?P<path>(?:bronze|silver|gold|internal)/(?P<table>\w+)/[^\s'\",:\]]*)"
)
_ANSI: Final = re.compile("\x1b\\[[0-9;]*m|↳")


def describe_fault(error: BaseException, where: object) -> LogError | None:
    """Return the error to report for a fault of the disk or a file of the lake in
    `where`; None when the exception shows no such fault."""
    text = _ANSI.sub("", str(error))
    if _FULL.search(text):
        return LogFull(
            f"no space is left on the disk of {where} or of {gettempdir()}: free some"
            " and repeat the command; all that was committed is intact"
        )
    file = _FILE.search(text)
    path = f"{where}/{file['path']}" if file else getattr(error, "filename", None)
    if _DENIED.search(text):
        return LogError(
            f"this user may not read or write {path or where}: change the permissions"
            f" and repeat the command ({summarize(error)})"
        )
    for pattern, state in ((_MISSING, "is missing"), (_DAMAGED, "is damaged")):
        if file and pattern.search(text):
            return LogError(f"{path} {state}: {advice(file['table'], where)}")
    return None


_DECODED: Final = frozenset(
    {"offset_commits", "classic_group_records", "consumer_group_records", "tombstones"}
)


def advice(table: str, where: object) -> str:
    """Return what to do when a file of a table is lost."""
    if table in GOLD or table in _DECODED:
        return f"coterie pipeline backfill --lake {where} makes the tables again"
    return (
        "restore it from a backup, or read the log again into another directory with"
        " coterie pipeline run"
    )


def summarize(error: BaseException) -> str:
    """Return the message of an error on one line, without an object store's answer in
    XML, debug output, and the stack of another language."""
    text = _ANSI.sub("", str(error)).partition("<?xml")[0]
    text = re.split(r"\n\nDebug source|\n+JVM stacktrace|\n\tat ", text)[0]
    return " ".join(text.split()).rstrip(": ")


@contextmanager
def described_faults(where: object) -> Iterator[None]:
    """Raise LogError for faults of the disk and of files. Other exceptions are bugs,
    and stay as they are."""
    try:
        yield
    except (CoterieError, AssertionError):
        raise
    except Exception as error:
        fault = describe_fault(error, where)
        if fault is None:
            raise
        raise fault from None
