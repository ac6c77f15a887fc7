"""The API versions of earlier Kafka releases, for a server that acts as one of them.

kafka_releases.tsv lists what a broker of each release advertises with default settings;
tools/kafka_releases.py writes it from the jars of Apache Kafka. A server that acts as a
release advertises and accepts the versions that both the release and Coterie have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from coterie.errors import SettingError
from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.schema import NO_VERSIONS, Versions

_TABLE: Final = "kafka_releases.tsv"
_FIRST_CELL: Final = 2
_NONE: Final = "-"

_SETTINGS_UNTIL: Final = (
    # The new coordinator was early access in 3.7 and a preview in 3.8 and 3.9. A broker
    # without it advertises its APIs and answers UNSUPPORTED_VERSION.
    ("3.9", "group.coordinator.rebalance.protocols", "classic"),
    ("2.2", "group.max.session.timeout.ms", "300000"),
    ("1.1", "offsets.retention.minutes", "1440"),  # KIP-186
)
"""The settings with other defaults: the last release, the name and the value."""
_FEATURES_SINCE: Final = "4.0"
_REFUSAL_WITH_VERSIONS_SINCE: Final = 3


@dataclass(frozen=True, slots=True)
class Release:
    """A Kafka release, as far as Coterie can act as it.

    `versions` are those to advertise; an API that is not in it does not exist.
    `shipped` are the ranges of Apache Kafka, by API key. `settings` are the broker
    settings whose defaults were different, by name. `has_features` is False for
    releases without `group.version` and `transaction.version` (before 4.0).
    """

    name: str
    versions: Mapping[ApiKey, Versions]
    shipped: Mapping[int, Versions]
    settings: Mapping[str, str]
    has_features: bool

    def has(self, key: ApiKey, version: int) -> bool:
        """Return whether requests of the version are accepted."""
        return version in self.versions.get(key, NO_VERSIONS)

    @property
    def lists_versions_in_refusal(self) -> bool:
        """Whether an ApiVersions request of an unknown version is answered with the
        range of known ones (KIP-511, Kafka 2.4); before, the list was empty."""
        versions = self.versions[ApiKey.API_VERSIONS]
        return versions.high >= _REFUSAL_WITH_VERSIONS_SINCE


def release_names() -> tuple[str, ...]:
    """Return the names of the known releases, the oldest first."""
    return _table()[0]


@cache
def load_release(name: str) -> Release:
    """Return a release by name: "3.9", a patch release like "3.9.1", or "0.11".

    Raises SettingError for an unknown release.
    """
    names, rows = _table()
    known = _known_name(name, names)
    at = names.index(known)
    shipped = {
        key: Versions.parse(cells[at])
        for key, cells in rows.items()
        if cells[at] != _NONE
    }
    return Release(
        known,
        {
            key: common
            for key, ours in ADVERTISED.items()
            if (common := _common(ours, shipped.get(key, NO_VERSIONS))) != NO_VERSIONS
        },
        shipped,
        {
            setting: value
            for last, setting, value in _SETTINGS_UNTIL
            if at <= names.index(last)
        },
        at >= names.index(_FEATURES_SINCE),
    )


def closest_release(versions: Mapping[int, Versions]) -> str:
    """Return the Kafka release whose API versions are most like a broker's, the newest
    of several; with a "+" when the broker serves newer versions than every release.
    """
    closest, most = "", -1
    newer: set[int] = set()
    for name in release_names():
        shipped = load_release(name).shipped
        same = sum(
            1
            for key, each in shipped.items()
            if versions.get(key, NO_VERSIONS).high == each.high
        )
        # APIs that the broker has and the release lacks tell it apart, too.
        same -= len(versions.keys() - shipped.keys())
        newer = {
            key
            for key, each in versions.items()
            if key in shipped and each.high > shipped[key].high
        }
        if same >= most or not closest:
            closest, most = name, same
    is_newest = closest == release_names()[-1]
    return f"{closest}+" if is_newest and newer else closest


def first_release(api_key: int, version: int) -> str | None:
    """Return the first known release that serves an API in a version or a later one;
    None when no release does."""
    names, rows = _table()
    for name, cell in zip(names, rows.get(api_key, ()), strict=False):
        if cell != _NONE and Versions.parse(cell).high >= version:
            return name
    return None


def _known_name(name: str, names: tuple[str, ...]) -> str:
    parts = name.strip().split(".")
    if parts == ["0", "11"]:
        return "0.11.0"
    if all(part.isascii() and part.isdigit() for part in parts):
        for known in names:
            numbers = known.split(".")
            if parts[: len(numbers)] == numbers:
                return known
    raise SettingError(f"unknown Kafka release {name!r}; known are {', '.join(names)}")


def _common(ours: Versions, theirs: Versions) -> Versions:
    low, high = max(ours.low, theirs.low), min(ours.high, theirs.high)
    return Versions(low, high) if low <= high else NO_VERSIONS


@cache
def _table() -> tuple[tuple[str, ...], Mapping[int, tuple[str, ...]]]:
    """Return the releases, and the cells of each API by its key."""
    # Imported here, as no server in production needs it.
    from importlib.resources import files

    text = files("coterie.wire").joinpath(_TABLE).read_text(encoding="utf-8")
    header, *lines = text.splitlines()
    rows = {}
    for line in lines:
        cells = line.split("\t")
        rows[int(cells[0])] = tuple(cells[_FIRST_CELL:])
    return tuple(header.split("\t")[_FIRST_CELL:]), rows
