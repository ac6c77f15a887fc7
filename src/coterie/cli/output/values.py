"""What a command found or did, as data: one table of items, and what failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from coterie.errors import ApiError, CoterieError

Json: TypeAlias = (
    bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
)
Item: TypeAlias = Mapping[str, Json]
"""One item, in snake_case. Its keys are a promise to scripts: they are always all
there, and one may be added, but none renamed, without a new schema version."""


_NOTHING: Final = "-"
_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    FAILED = 1
    """The run failed, or at least one item did."""
    USAGE = 2
    CONDITION = 3
    """A --fail-if condition is true; this wins over FAILED, being what was asked."""
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: which value of an item, under which title, and how it is
    written. `is_wide`: only shown with --wide."""

    key: str
    title: str
    is_wide: bool = False
    show: Callable[[Json], str] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that failed and has no row of its own: a group, a node, the run."""

    kind: str
    id: str
    code: str
    message: str

    @classmethod
    def of(cls, kind: str, identity: object, error: CoterieError) -> Failure:
        """The failure that an exception tells of."""
        return cls(kind, str(identity), code_of(error), str(error))

    def as_item(self) -> dict[str, Json]:
        """As a value of the envelope's `errors`."""
        return {
            "kind": self.kind,
            "id": self.id,
            "code": self.code,
            "message": self.message,
        }

    def __str__(self) -> str:
        if not self.id:
            return self.message
        about = f"{self.kind} {self.id}: {self.code}: "
        return about + self.message.removeprefix(about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command hands to `emit`.

    An item that failed has its error under the key "error" (`error_item`); what has no
    item is in `failures`. `notes` are sentences for people, on stderr.
    """

    schema: str
    """The kind of the items, as in "coterie.group"."""
    columns: tuple[Column, ...]
    items: tuple[Item, ...]
    failures: tuple[Failure, ...] = ()
    summary: Mapping[str, Json] = field(default_factory=dict)
    cluster_id: str | None = None
    about: Mapping[str, Json] = field(default_factory=dict)
    """More keys of the envelope: what the items were read from."""
    schema_version: int = 1
    notes: tuple[str, ...] = ()
    is_condition_true: bool = False

    @property
    def failed(self) -> int:
        """How many things failed."""
        return len(self.failures) + sum(1 for each in self.items if each.get("error"))

    @property
    def exit_code(self) -> Exit:
        """What the command ends with."""
        if self.is_condition_true:
            return Exit.CONDITION
        return Exit.FAILED if self.failed else Exit.OK


def code_of(error: CoterieError) -> str:
    """A short name that scripts can compare: Kafka's, or that of our exception."""
    return error.code.name if isinstance(error, ApiError) else type(error).__name__


def error_item(error: CoterieError | None) -> Item | None:
    """The value of an item's key "error"."""
    if error is None:
        return None
    return {"code": code_of(error), "message": str(error)}


def show_error(value: Json) -> str:
    """An item's error in a cell."""
    return str(value["code"]) if isinstance(value, Mapping) else _NOTHING


def show(column: Column, item: Item) -> str:
    """A cell as text, on one line; "-" for what is not known."""
    value = item.get(column.key)
    return plain(column.show(value) if column.show else show_value(value))


def show_value(value: Json) -> str:
    """Any value as text."""
    if value is None or value == "":
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        pairs = (f"{key}:{show_value(each)}" for key, each in value.items())
        return ";".join(pairs) or _NOTHING
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(show_value(each) for each in value) or _NOTHING
    return str(value)


def show_duration(value: Json) -> str:
    """Milliseconds as people say them, in two units: 850ms, 12.3s, 5m12s, 2h05m."""
    if not isinstance(value, int):
        return _NOTHING
    if value < _SECOND:
        return f"{value}ms"
    if value < _MINUTE:
        return f"{value // 100 / 10:.1f}s"
    if value < _HOUR:
        return f"{value // _MINUTE}m{value % _MINUTE // _SECOND:02}s"
    if value < _DAY:
        return f"{value // _HOUR}h{value % _HOUR // _MINUTE:02}m"
    return f"{value // _DAY}d{value % _DAY // _HOUR:02}h"


def plain(text: str) -> str:
    """Text that does nothing to a terminal: a client may call itself anything."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )
