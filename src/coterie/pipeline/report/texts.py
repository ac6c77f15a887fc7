"""Formatting of times, numbers, names and commands in a report."""

from __future__ import annotations

import shlex
import unicodedata
from datetime import datetime, timedelta
from typing import Any, Final

NO_VALUE: Final = "–"
UNKNOWN: Final = "unknown"
NAME_CELLS: Final = 34
"""Width of a shortened name, in characters of Latin letters."""
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def moment(at: datetime | None) -> str:
    """Format a time to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else NO_VALUE


def epoch_ms(at: datetime) -> int:
    """Return a time in ms since 1970, the unit of charts."""
    return round(at.timestamp() * 1_000)


def span(ms: float | None) -> str:
    """Format a duration in at most two units: 850 ms, 12.3 s, 5 min 12 s, 2 h, 3 d
    4 h.
    """
    if ms is None:
        return NO_VALUE
    if ms < 0:
        return f"−{span(-ms)}"
    whole = round(ms)
    if whole < _SECOND:
        return f"{whole} ms"
    if whole < _MINUTE:
        return f"{whole / _SECOND:.1f} s"
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"))
    index = next(index for index, (size, _) in enumerate(units) if whole >= size)
    (large, name), (small, other) = units[index], units[index + 1]
    rest = whole % large // small
    return f"{whole // large} {name}" + (f" {rest} {other}" if rest else "")


def ago(at: datetime | None, now: datetime) -> str:
    """Format the time between an event and `now`."""
    return f"{span((now - at) / timedelta(milliseconds=1))} ago" if at else NO_VALUE


def plural(number: float, singular: str, plural_form: str = "") -> str:
    """Format a number with its noun."""
    noun = singular if number == 1 else plural_form or f"{singular}s"
    return f"{count(number)} {noun}"


def count(value: float | None) -> str:
    """Format a number with separators between thousands."""
    return NO_VALUE if value is None else f"{value:,.0f}".replace(",", "\u202f")


def decimal(value: float | None) -> str:
    """Format a number with three significant digits."""
    return NO_VALUE if value is None else f"{value:.3g}"


def visible(text: Any) -> str:
    """Return a name with its invisible characters escaped.

    A client chooses its own name, and control characters in a name could reverse the
    direction of the page's text.
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in plain
    )


def short_name(text: Any, cells: int = NAME_CELLS) -> str:
    """Return a name, shortened in the middle, with its invisible characters escaped.

    Names of one deployment often differ only at the end. Wide characters, such as
    Chinese ones, count as two cells; combining characters stay with their letter.
    """
    letters = _letters(visible(text))
    if sum(map(_cells_of, letters)) <= cells:
        return "".join(letters)
    end_cells = (cells - 1) // 3
    end = _fit(letters[::-1], end_cells)[::-1]
    return "".join([*_fit(letters, cells - 1 - end_cells), "…", *end])


def _letters(text: str) -> list[str]:
    letters: list[str] = []
    for each in text:
        if letters and unicodedata.category(each) in {"Mn", "Me", "Mc"}:
            letters[-1] += each
        else:
            letters.append(each)
    return letters


def _cells_of(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter[0]) in "WF" else 1


def _fit(letters: list[str], cells: int) -> list[str]:
    """Return as many letters from the start as fit."""
    used = 0
    for index, letter in enumerate(letters):
        used += _cells_of(letter)
        if used > cells:
            return letters[:index]
    return letters


def shell_word(text: str) -> str:
    """Quote a word for a POSIX shell.

    Invisible characters become escapes of bash and zsh, so that the reader can check
    every character of a command before copying it.
    """
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(
        f"\\x{each:02x}" if each < 0x20 or each in b"'\\" or each > 0x7E else chr(each)
        for each in text.encode("utf-8", "surrogatepass")
    )
    return f"$'{escaped}'"


def delete_command(group: str) -> str:
    """Return the command that prints a plan to delete the group.

    Without --execute the command deletes nothing.
    """
    separator = "-- " if group.startswith("-") else ""
    return f"coterie groups delete {separator}{shell_word(group)}"
