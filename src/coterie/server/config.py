"""Settings from a file and from flags, checked before anything starts.

A name nobody knows and a value that cannot be are refused with a sentence that says
what would be right: the nearest name, or the range.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from coterie.errors import SettingError
from coterie.server.config_checks import (
    check_together,
    known_words,
    without_meaning,
)
from coterie.settings import INT32_MAX, SECRETS, SEPARATORS, Settings

_LONG_MAX: Final = 2**63 - 1
_WORDS: Final = {"true": True, "false": False}


class Range(NamedTuple):
    """The least and the greatest value of a setting."""

    low: int
    high: int


_RANGES: Final[Mapping[str, Range]] = {
    "group.initial.rebalance.delay.ms": Range(0, INT32_MAX),
    "group.min.session.timeout.ms": Range(1, INT32_MAX),
    "group.max.session.timeout.ms": Range(1, INT32_MAX),
    "group.max.size": Range(1, INT32_MAX),
    "group.consumer.session.timeout.ms": Range(1, INT32_MAX),
    "group.consumer.min.session.timeout.ms": Range(1, INT32_MAX),
    "group.consumer.max.session.timeout.ms": Range(1, INT32_MAX),
    "group.consumer.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.consumer.min.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.consumer.max.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.consumer.max.size": Range(1, INT32_MAX),
    "group.consumer.regex.refresh.interval.ms": Range(10_000, INT32_MAX),
    "group.consumer.assignment.interval.ms": Range(0, INT32_MAX),
    "group.consumer.min.assignment.interval.ms": Range(0, INT32_MAX),
    "group.consumer.max.assignment.interval.ms": Range(0, INT32_MAX),
    "offset.metadata.max.bytes": Range(0, INT32_MAX),
    "offsets.retention.minutes": Range(1, INT32_MAX),
    "offsets.retention.check.interval.ms": Range(1, _LONG_MAX),
    "offsets.topic.num.partitions": Range(1, 10_000),
    "offsets.commit.timeout.ms": Range(1, INT32_MAX),
    "num.partitions": Range(1, 10_000),
    "log.retention.ms": Range(-1, _LONG_MAX),
    "log.retention.bytes": Range(-1, _LONG_MAX),
    "log.retention.check.interval.ms": Range(1, _LONG_MAX),
    "message.max.bytes": Range(0, INT32_MAX),
    "fetch.max.bytes": Range(1_024, INT32_MAX),
    "max.incremental.fetch.session.cache.slots": Range(0, INT32_MAX),
    "transaction.max.timeout.ms": Range(1, INT32_MAX),
    "transactional.id.expiration.ms": Range(1, INT32_MAX),
    "producer.id.expiration.ms": Range(1, INT32_MAX),
    "socket.request.max.bytes": Range(1, INT32_MAX),
    "max.connections": Range(0, INT32_MAX),
    "max.in.flight.requests.per.connection": Range(1, INT32_MAX),
    "connections.max.idle.ms": Range(1_000, _LONG_MAX),
    "connection.write.buffer.max.bytes": Range(65_536, INT32_MAX),
    "sasl.server.max.receive.size": Range(1_024, INT32_MAX),
    "connections.max.reauth.ms": Range(0, _LONG_MAX),
    "connection.failed.authentication.delay.ms": Range(0, INT32_MAX),
    "connection.authentication.timeout.ms": Range(100, INT32_MAX),
}
_DEFAULT_RANGE: Final = Range(0, _LONG_MAX)

NAMES: Final[Mapping[str, str]] = {
    field.name.replace("_", "."): field.name for field in fields(Settings)
}
"""Every setting's name and its attribute."""


def read_settings(
    file: Path | None = None, assignments: Iterable[str] = ()
) -> Settings:
    """The settings of a file, changed by assignments such as "num.partitions=3".

    Raises SettingError for what cannot be read, is unknown, or cannot be.
    """
    values: dict[str, object] = {} if file is None else _read_file(file)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingError(
                f"{assignment!r} sets nothing; write NAME=VALUE, "
                "for example num.partitions=3"
            )
        if name.strip() in SECRETS:
            raise SettingError(
                f"{name.strip()} is a secret, and others can read a command line: put "
                "it into a file, and name that with --config"
            )
        values[name.strip()] = value.strip()
    return make_settings(values)


def make_settings(values: Mapping[str, object]) -> Settings:
    """Settings from values by name, text or typed.

    Raises SettingError as `read_settings` does.
    """
    changed: dict[str, Any] = {}
    for name, value in values.items():
        attribute = _attribute(name)
        changed[attribute] = _value(name, value)
    settings = Settings(**changed)
    check_together(settings)
    return settings


def _read_file(file: Path) -> dict[str, object]:
    import tomllib

    try:
        with file.open("rb") as opened:
            found = tomllib.load(opened)
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} is not TOML: {error}") from error
    return dict(_flat(found, ""))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, object]]:
    """`num.partitions = 3` is a table in a table to TOML, unless it is quoted."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _attribute(name: str) -> str:
    found = NAMES.get(name)
    if found is not None:
        return found
    if reason := without_meaning(name):
        raise SettingError(f"{name} means nothing here: {reason}; leave it out")
    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise SettingError(f"there is no setting {name!r}{hint}")


def _value(name: str, value: object) -> bool | int | str | tuple[str, ...]:
    default = getattr(Settings(), NAMES[name])
    if isinstance(default, str | tuple):
        return _words(name, value, is_list=isinstance(default, tuple))
    is_switch = isinstance(default, bool)
    if isinstance(value, str):
        value = _parse(value, is_switch=is_switch)
    if is_switch:
        if not isinstance(value, bool):
            raise SettingError(f"{name} must be true or false, not {value!r}")
        return value
    low, high = _RANGES.get(name, _DEFAULT_RANGE)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not low <= value <= high:  # type: ignore[operator]
        raise SettingError(
            f"{name} must be a whole number from {low} to {high}, not {value!r}"
        )
    return value  # type: ignore[return-value]


def _words(name: str, value: object, *, is_list: bool) -> str | tuple[str, ...]:
    if not is_list and isinstance(value, str):
        [word] = known_words(name, [value])
        return word
    separator = SEPARATORS.get(name, ",")
    if is_list and isinstance(value, str):
        value = [word.strip() for word in value.split(separator) if word.strip()]
    if is_list and isinstance(value, list) and all(isinstance(w, str) for w in value):
        return known_words(name, value)
    what = "a list of words" if is_list else "a word"
    raise SettingError(f"{name} must be {what}, not {value!r}")


def _parse(text: str, *, is_switch: bool) -> object:
    if is_switch:
        return _WORDS.get(text.lower(), text)
    try:
        return int(text.replace("_", ""))
    except ValueError:
        return text
