"""The result of a command as data: the items of one table, and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from coterie.display import printable
from coterie.errors import ApiError, CoterieError

Json: TypeAlias = (
    bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
)
Item: TypeAlias = Mapping[str, Json]
"""One item, with keys in snake_case. Scripts rely on the keys: every item has all of
them, and a key is renamed or removed only with a new schema version."""


MISSING: Final = "-"
_NAME_LENGTH_MIN: Final = 3
_LISTED_NAMES_MAX: Final = 5
"""The largest number of names in a sentence."""
_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    FAILED = 1
    """The run or at least one item failed."""
    USAGE = 2
    CONDITION = 3
    """A --fail-if condition is true. It takes precedence over FAILED."""
    INTERRUPTED = 130


class Role(Enum):
    """The way in which a column gives up space on a narrow terminal."""

    IDENTITY = "identity"
    """A name that tells rows apart: always shown, and always whole."""
    VALUE = "value"
    """A number or a word: shown whole, or its column is left out."""
    ID = "id"
    """A long id, such as a client id or a host: shortened in the middle."""
    TEXT = "text"
    """Sentences: broken at spaces."""


class Column(NamedTuple):
    """A column of a table."""

    key: str
    """The key of the value in each item."""
    title: str
    is_wide: bool = False
    """Whether the column is shown only with --wide."""
    show: Callable[[Json], str] | None = None
    """The function that formats a value; `show_value` when None."""
    role: Role = Role.VALUE
    drop: int = 0
    """The order in which a narrow terminal leaves out columns: 1 first. A column with 0
    stays, but a wide one is left out before all others."""


class Failure(NamedTuple):
    """An error reported outside the rows, with its subject, such as a group or file."""

    kind: str
    id: str
    code: str
    message: str

    @classmethod
    def of(cls, kind: str, identity: object, error: CoterieError) -> Failure:
        """Return the failure for an exception."""
        return cls(kind, str(identity), error_name(error), str(error))

    def as_item(self) -> dict[str, Json]:
        """Return the failure as an item of the envelope's `errors`."""
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
        # Quotes show white space that the name would hide.
        name = repr(self.id) if self.id != "".join(self.id.split()) else self.id
        message = self.message.removeprefix(about)
        return f"{self.kind} {name}: {self.code}: {message}"


class Outcome(NamedTuple):
    """The result that a command returns to be written by `emit`.

    A failed item has its error under the key "error" (`error_item`). Failures without
    an item are in `failures`.
    """

    schema: str
    """The kind of the items, as in "coterie.group"."""
    columns: tuple[Column, ...]
    items: tuple[Item, ...]
    failures: tuple[Failure, ...] = ()
    summary: Mapping[str, Json] = MappingProxyType({})
    cluster_id: str | None = None
    context: Mapping[str, Json] = MappingProxyType({})
    """Further keys of the envelope, such as the source of the items."""
    schema_version: int = 1
    notes: tuple[str, ...] = ()
    """Sentences for stderr."""
    is_condition_true: bool = False
    unit: str = ""
    """What `ok` and `failed` count, such as "groups"; empty for the items."""
    counts: tuple[int, int] | None = None
    """`ok` and `failed` where a unit has several items; None to count items."""

    @property
    def ok(self) -> int:
        """The number of units without an error."""
        if self.counts is not None:
            return self.counts[0]
        return sum(1 for each in self.items if not each.get("error"))

    @property
    def failed(self) -> int:
        """The number of failed units and of failures without an item."""
        if self.counts is not None:
            return self.counts[1]
        return len(self.failures) + sum(1 for each in self.items if each.get("error"))

    @property
    def units(self) -> str:
        """The units that `ok` and `failed` count, as in "partitions and groups"."""
        counted = [self.unit] if self.items or self.counts else []
        others = (f"{each.kind}s" for each in self.failures if each.id)
        return "" if "" in counted else " and ".join(dict.fromkeys([*counted, *others]))

    @property
    def exit_code(self) -> Exit:
        """The exit code of the command."""
        if self.is_condition_true:
            return Exit.CONDITION
        return Exit.FAILED if self.failed else Exit.OK


def first_names(names: Sequence[str]) -> str:
    """Return the first of many names, and the number of the others."""
    rest = len(names) - _LISTED_NAMES_MAX
    listed = ", ".join(names[:_LISTED_NAMES_MAX])
    return listed + (f" and {rest} more" if rest > 0 else "")


def failure_lines(failures: Sequence[Failure]) -> list[str]:
    """Return a line for each failure; failures with equal messages share one."""
    alike: dict[tuple[str, str, str], list[Failure]] = {}
    for each in failures:
        # Names of subjects make no difference. Shorter ones are also parts of words.
        has_name = len(each.id) >= _NAME_LENGTH_MIN
        text = each.message.replace(each.id, "...") if has_name else each.message
        alike.setdefault((each.kind, each.code, text), []).append(each)
    lines = []
    for (kind, code, text), same in alike.items():
        if len(same) == 1:
            lines.append(str(same[0]))
            continue
        message = same[0].message if same[0].message == same[1].message else text
        names = first_names([each.id for each in same])
        lines.append(f"{len(same)} {kind}s ({names}): {code}: {message}")
    return lines


def failed_outcome(error: CoterieError) -> Outcome:
    """Return the outcome of a run that failed before it had any items."""
    failure = Failure.of("run", "", error)
    return Outcome(schema="coterie.failure", columns=(), items=(), failures=(failure,))


def error_name(error: CoterieError) -> str:
    """Return the name of Kafka's error code, or of the exception's class."""
    return error.code.name if isinstance(error, ApiError) else type(error).__name__


def error_item(error: CoterieError | None) -> Item | None:
    """Return the value of an item's key "error"."""
    if error is None:
        return None
    return {"code": error_name(error), "message": str(error)}


def show_error(value: Json) -> str:
    """Return the text of an item's error in a cell."""
    return str(value["code"]) if isinstance(value, Mapping) else MISSING


def show(column: Column, item: Item) -> str:
    """Return a cell as one line of text; "-" for an unknown value."""
    value = item.get(column.key)
    return printable(column.show(value) if column.show else show_value(value))


def sort_items(items: Iterable[Item], key: str) -> list[Item]:
    """Return items sorted by a key: numbers descending, unknown values last."""

    def rank(item: Item) -> tuple[bool, float, str]:
        value = item[key]
        if isinstance(value, int | float):
            return False, -value, ""
        return value is None, 0, str(value)

    return sorted(items, key=rank)


def show_time_ms(value: Json) -> str:
    """Return a time in ms since 1970 in ISO 8601, or as a number if no date has it."""
    if not isinstance(value, int):
        return MISSING
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
    except OverflowError:
        return str(value)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def show_value(value: Json) -> str:
    """Return the text of a value."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Mapping):
        pairs = (f"{key}:{show_value(each)}" for key, each in value.items())
        return ";".join(pairs) or MISSING
    return ",".join(show_value(each) for each in value) or MISSING


def show_duration(value: Json) -> str:
    """Format a duration in at most two units: 850ms, 12.3s, 5m12s, 2h05m."""
    if not isinstance(value, int):
        return MISSING
    if value < _SECOND:
        return f"{value}ms"
    if value < _MINUTE:
        return f"{value // 100 / 10:.1f}s"
    if value < _HOUR:
        return f"{value // _MINUTE}m{value % _MINUTE // _SECOND:02}s"
    if value < _DAY:
        return f"{value // _HOUR}h{value % _HOUR // _MINUTE:02}m"
    return f"{value // _DAY}d{value % _DAY // _HOUR:02}h"
