"""docs/testing/act-as.md says what the table of releases says."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.releases import load_release, release_names

PAGE = Path(__file__).parents[2] / "docs" / "testing" / "act-as.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMES = release_names()
KEYS = {key.title: key for key in ADVERTISED}
MISSING = [
    (first, KEYS[title], int(version))
    for first, versions in re.findall(r"^\| (\d\.\d) \|.*\| (\w+ v.*) \|$", TEXT, re.M)
    for title, version in re.findall(r"(\w+) v(\d+)", versions)
]
RETURNED = {
    # SCRAM users: ZooKeeper's brokers had them in 2.7, KRaft's since 3.5.
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
}


def test_page_has_rows() -> None:
    assert len(MISSING) > 30


@pytest.mark.parametrize(("first", "key", "version"), MISSING)
def test_version_is_missing_until_the_release_of_its_row(
    first: str, key: ApiKey, version: int
) -> None:
    with_it = [name for name in NAMES if load_release(name).has(key, version)]
    assert with_it == list(NAMES[NAMES.index(first) :])


def test_apis_that_releases_have_and_coterie_does_not_are_listed() -> None:
    (listed,) = re.findall(r"^- APIs whose only.*?(?=^- )", TEXT, re.M | re.S)
    lost = {
        key.title
        for name in NAMES
        for key in ADVERTISED
        if key in load_release(name).shipped and key not in load_release(name).versions
    }
    assert lost == {word for word in re.findall(r"\w+", listed) if word in KEYS}


def test_defaults_are_listed() -> None:
    rows = re.findall(r"^\| 0\.11 to (\S+) \| `(\S+)` \| `?(\w+)`? \|$", TEXT, re.M)
    for name in NAMES:
        expected = {
            setting: value
            for last, setting, value in rows
            if NAMES.index(name) <= NAMES.index(last)
        }
        assert load_release(name).settings == expected


def test_only_apis_of_scram_users_disappear() -> None:
    gone = {
        key
        for before, after in pairwise(NAMES)
        for key in load_release(before).versions
        if key not in load_release(after).versions
    }
    assert gone == RETURNED
