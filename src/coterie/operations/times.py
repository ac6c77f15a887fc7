"""Date-times and durations of the command line: ISO 8601, and short durations as 2h.

Texts that kafka-consumer-groups.sh accepts have the same meaning here. Texts that it
misreads silently are refused: a zone "+0530" (it reads the hours only), a fraction ".5"
(it reads five milliseconds), text after the zone. Seconds and milliseconds may be left
out here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from coterie.errors import SettingError

_NS_PER_MS: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONG_MAX: Final = 2**63 - 1

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?[0-9]+)H)?(?:(?P<minutes>[-+]?[0-9]+)M)?"
    r"(?:(?P<seconds>[-+]?[0-9]+)(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_SHORT_DURATION: Final = re.compile(
    r"(?=[0-9])(?:(?P<days>[0-9]+)d)?(?:(?P<hours>[0-9]+)h)?(?:(?P<minutes>[0-9]+)m)?"
    r"(?:(?P<seconds>[0-9]+)(?:\.(?P<fraction>[0-9]{1,9}))?s)?"
    r"(?:(?P<milliseconds>[0-9]+)ms)?"
)
_UNITS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}

_DATETIME: Final = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"T(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-9]{1,2})(?:\.(?P<millisecond>[0-9]{3}))?)?"
    r"(?P<zone>Z|(?P<sign>[-+])(?P<off_hour>[0-9]{2})(?::(?P<off_minute>[0-9]{2}))?)?"
)


def read_duration_ns(text: str) -> int:
    """Parse a duration into nanoseconds: 2h, 7d, 1h30m, 90s or 500ms, or ISO 8601 as
    `read_iso_duration_ns` does.

    Raises SettingError for other texts, and for more than 2**63 - 1 seconds.
    """
    if (match := _SHORT_DURATION.fullmatch(text)) is not None:
        milliseconds = int(match["milliseconds"] or 0)
        return _nanoseconds(match, text) + milliseconds * _NS_PER_MS
    if _iso_duration(text) is None:
        raise SettingError(
            f"{text!r} is not a duration: write 2h, 7d, 90s or 1h30m, or PnDTnHnMnS as"
            " in PT1H30M"
        )
    return read_iso_duration_ns(text)


def read_iso_duration_ns(text: str) -> int:
    """Parse a duration such as P7D, PT1H30M or -PT0.5S into nanoseconds; a day is 24
    hours.

    Raises SettingError for other texts, weeks and months included, and for more than
    2**63 - 1 seconds.
    """
    if (match := _iso_duration(text)) is None:
        raise SettingError(
            f"{text!r} is not a duration: write PnDTnHnMnS, as in P7D or PT1H30M"
        )
    total = _nanoseconds(match, text)
    return -total if match["sign"] == "-" else total


def _iso_duration(text: str) -> re.Match[str] | None:
    return None if text.upper().endswith(("P", "T")) else _DURATION.fullmatch(text)


def _nanoseconds(match: re.Match[str], text: str) -> int:
    """Return the sum of days, hours, minutes and seconds. Raises SettingError."""
    seconds = sum(int(match[unit] or 0) * each for unit, each in _UNITS.items())
    if abs(seconds) > _LONG_MAX:
        raise SettingError(f"{text!r} is too long a duration")
    nanoseconds = int((match["fraction"] or "").ljust(9, "0"))
    if (match["seconds"] or "").startswith("-"):
        nanoseconds = -nanoseconds
    return seconds * 1_000_000_000 + nanoseconds


def time_before(duration: str, now_ms: int) -> int:
    """Return the time (ms since 1970) a duration before now, rounded down."""
    return (now_ms * _NS_PER_MS - read_duration_ns(duration)) // _NS_PER_MS


def read_datetime_ms(text: str) -> int:
    """Parse `YYYY-MM-DDThh:mm[:ss[.sss]][Z|±hh[:mm]]` into ms since 1970; UTC without
    a zone.

    Raises SettingError for other texts and for days and hours that do not exist.
    """
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise SettingError(
            f"{text!r} is not a date-time: write YYYY-MM-DDThh:mm:ss.sss with Z, ±hh or"
            " ±hh:mm behind it, as in 2026-11-21T10:00:00.000Z"
        )
    year, month, day, hour, minute, second = (
        int(match[name] or 0)
        for name in ("year", "month", "day", "hour", "minute", "second")
    )
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=_zone(match))
    except ValueError as error:
        raise SettingError(f"{text!r} does not exist: {error}") from error
    whole = (at - _EPOCH) // timedelta(seconds=1)
    return whole * 1000 + int(match["millisecond"] or 0)


def _zone(match: re.Match[str]) -> timezone:
    """Return the zone of a date-time. Raises ValueError for an impossible one."""
    if match["off_hour"] is None:
        return UTC
    hours, minutes = int(match["off_hour"]), int(match["off_minute"] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(f"there is no zone {match['zone']}")
    away = timedelta(hours=hours, minutes=minutes)
    return timezone(-away if match["sign"] == "-" else away)
