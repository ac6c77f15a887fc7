"""Our JSON documents: each begins with the name of its schema and its version."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from coterie.errors import SettingError

Document = TypeVar("Document")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Head:
    schema: str
    schema_version: int


def decode_document(
    data: bytes, kind: type[Document], schema: str, version: int
) -> Document:
    """A document of that schema, in that version or an older one.

    Raises SettingError, which says what is wrong where.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.schema != schema:
            raise SettingError(f"this is a {head.schema!r}, not a {schema!r}")
        if not 1 <= head.schema_version <= version:
            raise SettingError(
                f"its schema version is {head.schema_version}, and this coterie reads 1"
                f" to {version}: use the coterie that wrote it, or a newer one"
            )
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise SettingError(f"not a {schema!r}: {error}") from error


def encode_document(document: object) -> bytes:
    """A document on several lines, for people to read."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def encode_line(document: object) -> bytes:
    """A document, or a part of one, on a line of its own."""
    return msgspec.json.encode(document) + b"\n"


def utc_text(at_ms: int) -> str:
    """A time (ms since 1970) as in 2026-11-21T10:00:00.000Z."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def append_durably(path: Path, data: bytes, *, is_new: bool = False) -> None:
    """Put bytes behind a file; they are on the disk when it returns.

    A new file must not be there yet, and only its owner may read it.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (os.O_EXCL if is_new else 0)
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file)
    if is_new:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
