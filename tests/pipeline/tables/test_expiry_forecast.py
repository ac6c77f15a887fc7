"""The coordinator expires each offset at the forecast time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pytest

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.table import TIME_MS_MAX
from tests.broker.coordinator.classic.members import (
    join,
    leave,
    protocols,
    stable_group,
)
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.offsets.test_deletion_expiry import (
    empty_group_of_an_old_broker,
)
from tests.broker.coordinator.shard_driver import WEEK_MS, ShardDriver
from tests.pipeline.gold.generated_silver import timestamp
from tests.pipeline.gold.memory_lake import build
from tests.pipeline.gold.rows import arrow
from tests.pipeline.gold.shard_tables import Rows, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

NOW_MS: Final = 1_800_000_000_000
DAY_MS: Final = 24 * 3_600_000
T0, U0 = ("t", 0), ("u", 0)
Make: TypeAlias = Callable[[], ShardDriver]


class Case(NamedTuple):
    """A group, and the expected forecast of one of its offsets."""

    make: Make
    basis: str
    topic: str = "t"
    is_trap: bool = False


def _driver() -> ShardDriver:
    return ShardDriver(now_ms=NOW_MS)


def _simple() -> ShardDriver:
    driver = _driver()
    driver.commit({T0: 1})
    driver.now_ms += DAY_MS
    return driver


def _explicit(retention_ms: int = 10 * DAY_MS) -> ShardDriver:
    driver = _driver()
    driver.commit({T0: 1}, version=4, retention_time_ms=retention_ms)
    return driver


def _classic_empty() -> ShardDriver:
    driver = _driver()
    driver.commit({T0: 1})
    members = stable_group(driver, 1)
    driver.now_ms += 8 * DAY_MS
    leave(driver, *members)
    driver.now_ms += DAY_MS
    return driver


def _classic_empty_of_old() -> ShardDriver:
    driver = _driver()
    empty_group_of_an_old_broker(driver)
    driver.now_ms += DAY_MS
    driver.commit({T0: 1})
    return driver


def _classic_stable() -> ShardDriver:
    driver = _driver()
    driver.commit({T0: 1, U0: 2})
    stable_group(driver, 1)
    return driver


def _classic_unreadable() -> ShardDriver:
    driver = _driver()
    driver.commit({U0: 2})
    stable_group(driver, 1, protocols=protocols(range=b"?"))
    return driver


def _connect() -> ShardDriver:
    driver = _driver()
    driver.commit({T0: 1}, version=4, retention_time_ms=10)
    stable_group(driver, 1, protocol_type="connect", protocols=protocols(any=b"x"))
    return driver


def _consumer(days: int = 1) -> GroupDriver:
    driver = GroupDriver(now_ms=NOW_MS)
    driver.commit({("foo", 0): 1, ("bar", 0): 2})
    driver.join("m", ["foo"])
    driver.now_ms += days * DAY_MS
    return driver


def _consumer_empty(days: int = 1) -> GroupDriver:
    driver = _consumer(days)
    driver.heartbeat("m", -1)
    return driver


def _consumer_regex() -> GroupDriver:
    driver = GroupDriver(now_ms=NOW_MS)
    driver.commit({("foo", 0): 1, ("bar", 0): 2})
    driver.join("m", [], subscribed_topic_regex="f.*")
    driver.advance(2_000)
    assert driver.group.regexes["f.*"].topics
    driver.now_ms += 8 * DAY_MS
    return driver


def _consumer_explicit() -> GroupDriver:
    driver = GroupDriver(now_ms=NOW_MS)
    driver.join("m", ["foo"])
    driver.heartbeat("m", -1)
    driver.commit({("foo", 0): 1}, version=4, retention_time_ms=DAY_MS)
    return driver


CASES: Final = {
    "simple": Case(_simple, "simple_commit"),
    "explicit": Case(_explicit, "explicit"),
    "explicit-past": Case(lambda: _later(_explicit(DAY_MS), 2), "explicit"),
    "explicit-consumer": Case(_consumer_explicit, "explicit", "foo"),
    "classic-empty": Case(_classic_empty, "empty_since"),
    "classic-empty-of-old": Case(_classic_empty_of_old, "empty_since"),
    "classic-read": Case(_classic_stable, "never"),
    "classic-not-read": Case(_classic_stable, "commit_not_subscribed", "u"),
    "classic-unreadable": Case(_classic_unreadable, "never", "u"),
    "classic-connect": Case(_connect, "never"),
    "consumer-read": Case(_consumer, "never", "foo"),
    "consumer-not-read": Case(_consumer, "consumer_commit", "bar"),
    "consumer-empty": Case(_consumer_empty, "consumer_commit", "foo"),
    "consumer-empty-late": Case(lambda: _consumer_empty(9), "consumer_commit", "foo"),
    "consumer-trap": Case(lambda: _consumer(8), "never", "foo", is_trap=True),
    "consumer-regex": Case(_consumer_regex, "never", "foo", is_trap=True),
    "consumer-regex-other": Case(_consumer_regex, "consumer_commit", "bar"),
    "consumer-no-trap": Case(lambda: _consumer(6), "never", "foo"),
}
"""Every rule of the module's table has a case, as has an offset expired already."""


def _later(driver: ShardDriver, days: int) -> ShardDriver:
    driver.now_ms += days * DAY_MS
    return driver


def _has(driver: ShardDriver, case: Case) -> bool:
    return (case.topic, 0) in driver.offsets()


def _built(
    spark: SparkSession, rows: Rows, settings: GoldSettings
) -> list[dict[str, Any]]:
    tables = {name: arrow(TABLES[name], each) for name, each in rows.items()}
    found: list[dict[str, Any]] = build(
        spark, "expiry_forecast", tables, settings
    ).to_pylist()
    return found


@pytest.fixture(scope="module")
def forecast(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """The row of each case. One build evaluates all cases at one time, so the times of
    each case are shifted."""
    as_of_ms = NOW_MS + 10 * DAY_MS
    end = {"topic": "t", "partition": 0, "high_watermark": 8}
    rows: Rows = {"tombstones": [], "newest_partition_ends": [end]}
    for name, case in CASES.items():
        driver = case.make()
        for table, found in tables_of(driver.state, name).items():
            rows.setdefault(table, []).extend(
                _shifted(each, as_of_ms - driver.now_ms) for each in found
            )
    settings = GoldSettings(as_of_ts=timestamp(as_of_ms), retention_ms=WEEK_MS)
    return {
        row["group_id"]: row
        for row in _built(spark, rows, settings)
        if row["topic"] == CASES[row["group_id"]].topic
    }


def _shifted(row: dict[str, Any], by_ms: int) -> dict[str, Any]:
    shift = timestamp(by_ms) - timestamp(0)
    return {
        name: value + shift if name.endswith("_ts") and value is not None else value
        for name, value in row.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_a_forecast_has_the_basis_and_times_of_its_case(
    forecast: dict[str, dict[str, Any]], name: str
) -> None:
    row, case = forecast[name], CASES[name]
    assert (row["basis"], row["is_trap"]) == (case.basis, case.is_trap)
    assert row["at_risk_messages"] == (7 if case.topic == "t" else None)
    assert (row["expires_ts"] is None) == (case.basis == "never")
    assert (row["retention_ms"] is None) == (case.basis in {"never", "explicit"})


@pytest.mark.parametrize("name", CASES)
def test_the_coordinator_expires_the_offset_at_the_forecast_time(
    forecast: dict[str, dict[str, Any]], name: str
) -> None:
    row, case = forecast[name], CASES[name]
    driver = case.make()
    assert _has(driver, case)
    if row["remaining_ms"] is None:
        driver.sweep(4 * WEEK_MS)
        assert _has(driver, case)
        return
    if row["remaining_ms"] > 0:
        driver.sweep(row["remaining_ms"] - 1)
        assert _has(driver, case)
        driver.sweep(1)
    else:
        driver.sweep()
    assert not _has(driver, case)


def test_an_expiry_in_the_past_is_the_next_check(
    forecast: dict[str, dict[str, Any]],
) -> None:
    past = {name for name, row in forecast.items() if (row["remaining_ms"] or 1) < 0}
    assert past == {
        "explicit-past",
        "consumer-empty-late",
        "consumer-regex-other",
    }


@pytest.mark.parametrize(("days", "is_gone"), [(8, True), (6, False)])
def test_an_old_offset_expires_when_the_last_member_leaves(
    days: int, is_gone: bool
) -> None:
    driver = _consumer(days)
    driver.sweep()
    assert ("foo", 0) in driver.offsets()
    driver.heartbeat("m", -1)
    driver.sweep()
    assert (("foo", 0) not in driver.offsets()) is is_gone


def test_a_classic_group_keeps_the_offset_for_the_retention_time() -> None:
    driver = _classic_stable()
    _later(driver, 8)
    [member_id] = driver.groups["g"].members
    leave(driver, member_id)
    driver.sweep()
    assert T0 in driver.offsets()


def test_a_classic_group_in_a_rebalance_keeps_all_offsets() -> None:
    driver = _classic_stable()
    join(driver)
    driver.sweep(2 * WEEK_MS)
    assert U0 in driver.offsets()


def test_the_lag_is_that_of_the_topic_of_the_commit(spark: SparkSession) -> None:
    rows: Rows = {}
    commits = {
        "same": ("a", 5),
        "other": ("b", 5),
        "unknown": (None, 1),
        "past": ("a", 99),
        "negative": ("a", None),
    }
    rows["current_offsets"] = [
        {
            "group_id": group_id,
            "topic": "t",
            "topic_id": topic_id,
            "committed_offset": offset,
            "commit_ts": timestamp(NOW_MS),
        }
        for group_id, (topic_id, offset) in commits.items()
    ]
    end = {"topic": "t", "high_watermark": 9, "log_start_offset": 3}
    rows["newest_partition_ends"] = [
        end
        | {"topic_id": "b", "sample_ts": timestamp(NOW_MS - 1), "high_watermark": 50},
        end | {"topic_id": "a", "sample_ts": timestamp(NOW_MS)},
    ]
    built = _built(spark, rows, GoldSettings(as_of_ts=timestamp(NOW_MS)))
    lag = {row["group_id"]: row["at_risk_messages"] for row in built}
    assert lag == {"same": 4, "other": None, "unknown": 6, "past": 0, "negative": None}


def test_an_expiration_after_the_last_time_is_the_last_time(
    spark: SparkSession,
) -> None:
    rows: Rows = {}
    about = {"group_id": "g", "topic": "t", "committed_offset": 1}
    rows["current_offsets"] = [about | {"commit_ts": timestamp(TIME_MS_MAX - 1)}]
    settings = GoldSettings(as_of_ts=timestamp(NOW_MS), retention_ms=(2**31) * 60_000)
    [row] = _built(spark, rows, settings)
    assert row["remaining_ms"] == TIME_MS_MAX - NOW_MS
