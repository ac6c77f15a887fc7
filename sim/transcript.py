"""The transcript of a world: lines that are formatted only when they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import ZERO_UUID, Message, Struct
from sim.clock import START_MS
from sim.topics import Topics

_BYTES_SHOWN: Final = 6
_OMITTED: Final[Sequence[Any]] = (None, "", -1, 0, [], ZERO_UUID, b"")


class _Line(NamedTuple):
    at_ms: int
    who: str
    what: str
    args: tuple[Any, ...]


class Transcript:
    """The lines of a world, oldest first."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._lines: list[_Line] = []

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, at_ms: int, who: str, what: str, *args: Any) -> None:
        """Add a line: time, actor, action, and values."""
        self._lines.append(_Line(at_ms, who, what, args))

    def text(self, last: int | None = None) -> str:
        """Return all lines, or the last ones."""
        lines = self._lines if last is None else self._lines[-last:]
        return "\n".join(map(self._text_of, lines))

    def digest(self) -> str:
        """Return a short value that differs when any line differs."""
        return sha256(self.text().encode()).hexdigest()[:16]

    def _text_of(self, line: _Line) -> str:
        values = " ".join(map(self._format, line.args))
        seconds = (line.at_ms - START_MS) / 1000
        return f"{seconds:9.3f}  {line.who:<10} {line.what} {values}".rstrip()

    def _format(self, value: Any) -> str:
        if isinstance(value, frozenset):
            return self._topics.describe(value)
        if isinstance(value, Message):
            return f"{type(value).__name__}({self._fields(value)})"
        if isinstance(value, Struct):
            return self._briefly(value)
        if isinstance(value, bytes):
            name = self._topics.names.get(value)
            return name or value.hex()[: 2 * _BYTES_SHOWN]
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self._format, value))}]"
        return str(value)

    def _briefly(self, value: Struct) -> str:
        """Return a part of a message in short form."""
        shown = [(name, getattr(value, name)) for name in type(value).FIELDS]
        said = [
            _code(each) if name == "error_code" else self._format(each)
            for name, each in shown
            if name == "partition_index" or each not in _OMITTED
        ]
        return said[0] if len(said) == 1 else f"({' '.join(said)})"

    def _fields(self, value: Struct) -> str:
        """Return the fields that are set."""
        shown: Iterable[tuple[str, Any]] = (
            (name, getattr(value, name)) for name in type(value).FIELDS
        )
        return ", ".join(
            f"{name}={_code(each) if name == 'error_code' else self._format(each)}"
            for name, each in shown
            if _is_set(each, type(value).FIELDS[name].default)
        )


def _code(code: int) -> str:
    return ErrorCode(code).name


def _is_set(value: Any, default: Any) -> bool:
    return value != default and (value != [] or default is None)
