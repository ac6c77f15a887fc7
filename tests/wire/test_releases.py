"""The table of Kafka releases, and the releases that are loaded from it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coterie.errors import SettingError
from coterie.wire.api import ADVERTISED, ApiKey, api_of
from coterie.wire.releases import (
    closest_release,
    first_release,
    load_release,
    release_names,
)
from coterie.wire.schema import Versions
from tools import kafka_releases

NAMES = release_names()


def test_table_has_a_column_for_each_release_of_the_tool() -> None:
    assert tuple(kafka_releases.RELEASES) == NAMES


def test_table_is_in_the_form_that_the_tool_writes() -> None:
    text = kafka_releases.TABLE.read_text(encoding="utf-8")
    rows: kafka_releases.Rows = {}
    for line in text.splitlines()[1:]:
        key, name, *cells = line.split("\t")
        ranges = zip(NAMES, cells, strict=True)
        cells_by_release = {release: cell for release, cell in ranges if cell != "-"}
        rows[int(key)] = {"api": name, **cells_by_release}
    assert kafka_releases.format_table(rows) == text


def test_table_has_the_names_of_the_apis() -> None:
    lines = kafka_releases.TABLE.read_text(encoding="utf-8").splitlines()[1:]
    names = {int(line.split("\t")[0]): line.split("\t")[1] for line in lines}
    assert {key: names[key] for key in ADVERTISED} == {
        key: key.name for key in ADVERTISED
    }


def test_ranges_are_not_empty_and_highest_versions_never_decrease() -> None:
    releases = [load_release(name) for name in NAMES]
    for release in releases:
        assert all(low <= high for low, high in release.shipped.values())
    for before, after in pairwise(releases):
        for key in before.shipped.keys() & after.shipped.keys():
            assert before.shipped[key].high <= after.shipped[key].high


def test_newest_release_is_what_is_advertised_without_one() -> None:
    newest = load_release("4.4")
    assert newest.versions == ADVERTISED
    assert {key: newest.shipped[key] for key in ADVERTISED} == ADVERTISED
    assert newest.settings == {}
    assert newest.has_features


@pytest.mark.parametrize("name", NAMES)
def test_versions_are_those_of_kafka_and_of_coterie(name: str) -> None:
    release = load_release(name)
    for key, versions in release.versions.items():
        for version in range(versions.high + 2):
            is_common = version in release.shipped[key] and version in ADVERTISED[key]
            assert release.has(key, version) == is_common
        assert versions.high in api_of(key).served


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("3.9", "3.9"),
        ("3.9.1", "3.9"),
        ("4.0.0", "4.0"),
        ("0.11", "0.11.0"),
        ("0.11.0.3", "0.11.0"),
        (" 1.1 ", "1.1"),
    ],
)
def test_patch_release_is_its_release(name: str, known: str) -> None:
    assert load_release(name).name == known


@pytest.mark.parametrize("name", ["", "3", "0.10", "3.10", "5.0", "3.9-rc1", "4.³"])
def test_unknown_release_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(SettingError, match=r"known are 0\.11\.0, 1\.0, .*, 4\.4$"):
        load_release(name)


@pytest.mark.parametrize(
    ("last_without", "key", "version"),
    [
        ("1.0", ApiKey.DELETE_GROUPS, 0),
        ("2.1", ApiKey.JOIN_GROUP, 4),  # MEMBER_ID_REQUIRED (KIP-394)
        ("2.2", ApiKey.JOIN_GROUP, 5),  # static members (KIP-345)
        ("2.2", ApiKey.INCREMENTAL_ALTER_CONFIGS, 0),
        ("2.3", ApiKey.OFFSET_DELETE, 0),
        ("2.3", ApiKey.API_VERSIONS, 3),  # KIP-511
        ("2.4", ApiKey.INIT_PRODUCER_ID, 3),  # the epoch is raised (KIP-360)
        ("2.7", ApiKey.METADATA, 10),  # topic ids (KIP-516)
        ("2.8", ApiKey.FIND_COORDINATOR, 4),  # many keys (KIP-699)
        ("2.8", ApiKey.OFFSET_FETCH, 8),  # many groups (KIP-709)
        ("3.0", ApiKey.FETCH, 13),  # topic ids
        ("3.6", ApiKey.CONSUMER_GROUP_HEARTBEAT, 0),  # KIP-848
    ],
)
def test_api_appears_in_the_release_after(
    last_without: str, key: ApiKey, version: int
) -> None:
    first_with = NAMES[NAMES.index(last_without) + 1]
    assert not load_release(last_without).has(key, version)
    assert load_release(first_with).has(key, version)


def test_kip_896_removed_versions_in_4_0() -> None:
    assert load_release("3.9").shipped[ApiKey.FETCH] == Versions(0, 17)
    assert load_release("4.0").shipped[ApiKey.FETCH] == Versions(4, 17)
    # librdkafka needs Produce v0 to be listed (KAFKA-18659).
    assert load_release("4.0").shipped[ApiKey.PRODUCE].low == 0


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("4.0", {}),
        ("3.9", {"group.coordinator.rebalance.protocols": "classic"}),
        (
            "2.2",
            {
                "group.coordinator.rebalance.protocols": "classic",
                "group.max.session.timeout.ms": "300000",
            },
        ),
        (
            "1.1",
            {
                "group.coordinator.rebalance.protocols": "classic",
                "group.max.session.timeout.ms": "300000",
                "offsets.retention.minutes": "1440",
            },
        ),
    ],
)
def test_settings_are_the_defaults_of_the_release(
    name: str, settings: dict[str, str]
) -> None:
    assert load_release(name).settings == settings


@pytest.mark.parametrize("name", release_names())
def test_the_closest_release_is_known_by_api_versions(name: str) -> None:
    shipped = load_release(name).shipped
    closest = closest_release(shipped)
    assert load_release(closest).shipped == shipped


def test_a_newer_broker_has_the_newest_release_and_a_plus() -> None:
    newest = release_names()[-1]
    shipped = dict(load_release(newest).shipped)
    assert closest_release(shipped) == newest
    produce = shipped[0]
    shipped[0] = Versions(produce.low, produce.high + 1)
    assert closest_release(shipped) == f"{newest}+"


def test_the_first_release_with_a_version_is_named() -> None:
    assert first_release(ApiKey.OFFSET_DELETE, 0) == "2.4"
    assert first_release(ApiKey.LIST_TRANSACTIONS, 0) == "3.0"
    assert first_release(ApiKey.LIST_TRANSACTIONS, 1) == "3.8"
    assert first_release(ApiKey.LIST_TRANSACTIONS, 99) is None
    assert first_release(ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT, 0) is None
