"""Output for programs and spreadsheets: CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Final

from coterie.cli.output.outcome import Json, Outcome
from coterie.display import printable

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?")


def csv_rows(
    outcome: Outcome, keys: Sequence[str], *, is_safe: bool, is_shown: bool
) -> Iterator[str]:
    """Yield a header and a row for each item; an unknown value is an empty field.

    Without `keys`, a row has every key. With `is_safe`, cells that a spreadsheet would
    compute are quoted. With `is_shown`, on a terminal, control characters are escaped.
    """
    keys = keys or (list(outcome.items[0]) if outcome.items else [])
    keys = keys or [each.key for each in outcome.columns]
    line = StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(keys)
    for item in outcome.items:
        yield line.getvalue()
        line.seek(0)
        line.truncate()
        cells = [_field(item.get(key)) for key in keys]
        if is_safe:
            cells = list(map(without_formula, cells))
        if is_shown:
            cells = list(map(printable, cells))
        writer.writerow(cells)
    yield line.getvalue()


def without_formula(text: str) -> str:
    """Return a cell with a single quote before it if a spreadsheet would compute it.

    The characters are those of OWASP's page on CSV injection. Plain numbers, such as
    -1, stay numbers.
    """
    if not text.startswith(_FORMULA_STARTS) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"


def _field(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        if "code" in value:
            return str(value["code"])
        return ";".join(f"{key}:{_list(each)}" for key, each in value.items())
    return ";".join(_field(each) for each in value)


def _list(value: Json) -> str:
    return _field(value).replace(";", ",")
