"""Times, spans and commands as people read and copy them."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Any, Final

NOTHING: Final = "–"
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def moment(at: datetime | None) -> str:
    """A time to the second, UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else NOTHING


def epoch_ms(at: datetime) -> int:
    """A time in ms since 1970, as charts have it."""
    return round(at.timestamp() * 1_000)


def span(ms: float | None) -> str:
    """Milliseconds in two units: 850 ms, 12.3 s, 5 min 12 s, 2 h, 3 d 4 h."""
    if ms is None:
        return NOTHING
    if ms < 0:
        return f"−{span(-ms)}"
    whole = round(ms)
    if whole < _SECOND:
        return f"{whole} ms"
    if whole < _MINUTE:
        return f"{whole / _SECOND:.1f} s"
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"))
    at = next(at for at, (size, _) in enumerate(units) if whole >= size)
    (large, name), (small, other) = units[at], units[at + 1]
    rest = whole % large // small
    return f"{whole // large} {name}" + (f" {rest} {other}" if rest else "")


def count(value: float | None) -> str:
    """A number with its thousands apart."""
    return NOTHING if value is None else f"{value:,.0f}".replace(",", "\u202f")


def share(value: float | None) -> str:
    """A part of 1 as per cent."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def decimal(value: float | None) -> str:
    """A number that needs a point."""
    return NOTHING if value is None else f"{value:.3g}"


def seen(text: Any) -> str:
    """A name as it can be seen: a client may call itself anything, and what turns the
    direction of writing would turn the page."""
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in plain
    )


def shell_word(text: str) -> str:
    """A word for a POSIX shell. What cannot be seen is written as an escape that bash
    and zsh read: nobody copies what they do not see."""
    if text.isprintable():
        return shlex.quote(text)
    safe = "".join(
        f"\\x{each:02x}" if each < 0x20 or each in b"'\\" or each > 0x7E else chr(each)
        for each in text.encode("utf-8", "surrogatepass")
    )
    return f"$'{safe}'"


def delete_command(group: str) -> str:
    """What shows what deleting a group would do; without --execute it does nothing."""
    before = "-- " if group.startswith("-") else ""
    return f"coterie groups delete {before}{shell_word(group)}"
