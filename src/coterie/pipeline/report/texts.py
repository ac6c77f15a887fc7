"""Formatting of times, numbers, names and commands in a report."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta
from typing import Any, Final

from coterie.display import printable, shortened

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


def visible(name: Any) -> str:
    """Return a name with its invisible characters escaped, which could reverse the
    direction of the page's text."""
    return printable(str(name))


def short_name(name: Any, width: int = NAME_CELLS) -> str:
    """Return a name, shortened in the middle, with its invisible characters escaped."""
    return shortened(visible(name), width)


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
