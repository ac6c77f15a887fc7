"""Expiration of offsets and removal of groups."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.offsets import deletion
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from coterie.broker.coordinator.result import Origin, Record
from coterie.settings import Settings
from tests.broker.coordinator.classic.members import (
    SESSION_MS,
    join,
    join_request,
    leave,
    protocols,
    stable_group,
    sync,
)
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.shard_driver import SWEEP_MS, WEEK_MS, ShardDriver

T0, U0 = ("t", 0), ("u", 0)


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


@pytest.mark.fact("E17-18g")
def test_offsets_of_a_simple_group_expire_by_their_commit_timestamp(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    driver.sweep(WEEK_MS - 1)
    driver.commit({U0: 2})
    assert driver.offsets() == {T0: 1, U0: 2}
    driver.sweep(1)
    assert driver.offsets() == {U0: 2}


@pytest.mark.fact("E17-18c")
def test_offsets_of_an_empty_group_expire_by_the_time_it_became_empty(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    [member_id] = stable_group(driver, 1)
    driver.now_ms += WEEK_MS
    leave(driver, member_id)
    driver.sweep(WEEK_MS - 1)
    assert driver.offsets() == {T0: 1}
    driver.sweep(1)
    assert driver.offsets() == {}


YEARS_MS = 50 * 365 * 86_400_000


@pytest.mark.parametrize("change_ms", [YEARS_MS, -YEARS_MS])
@pytest.mark.parametrize("has_members", [False, True])
def test_retention_starts_at_the_system_time_after_it_was_set(
    driver: ShardDriver, change_ms: int, has_members: bool
) -> None:
    # A machine without a battery starts in 1970 and learns the time later.
    driver.now_ms += YEARS_MS
    driver.wall_ahead_ms = change_ms
    driver.commit({T0: 1})
    if has_members:
        leave(driver, *stable_group(driver, 1))
    driver.now_ms += change_ms  # the next process starts with the system time
    driver.wall_ahead_ms = 0
    later = driver.reloaded()
    later.sweep(WEEK_MS - 1)
    assert later.offsets() == {T0: 1}
    later.sweep(1)
    assert later.offsets() == {}


@pytest.mark.fact("E17-18c")
def test_new_commits_to_an_empty_group_expire_with_the_group(
    driver: ShardDriver,
) -> None:
    leave(driver, *stable_group(driver, 1))
    driver.now_ms += WEEK_MS - 1
    driver.commit({T0: 1})
    driver.sweep(1)
    assert driver.offsets() == {}


def empty_group_of_an_old_broker(driver: ShardDriver) -> None:
    """Replay a record of version 1, which lacks the time the group became empty."""
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None
    )
    record = Record(GroupMetadataKey(group="g"), value, 1)
    driver._keep(record, Origin(0, driver.now_ms))


@pytest.mark.fact("E17-18d")
def test_without_a_state_timestamp_offsets_expire_by_their_commit_timestamp(
    driver: ShardDriver,
) -> None:
    empty_group_of_an_old_broker(driver)
    driver.now_ms += 10
    driver.commit({T0: 1})
    driver.sweep(WEEK_MS - 1)
    assert driver.offsets() == {T0: 1}
    driver.sweep(1)
    assert driver.offsets() == {}


@pytest.mark.fact("E17-18e")
def test_a_stable_group_keeps_unsubscribed_offsets_for_the_retention_time(
    driver: ShardDriver,
) -> None:
    driver.commit({U0: 2})
    stable_group(driver, 1)
    joined_ms = driver.now_ms - 1_000_000
    driver.sweep(WEEK_MS - 1 - joined_ms)
    assert driver.offsets() == {U0: 2}
    driver.sweep(1)
    assert driver.offsets() == {}


@pytest.mark.fact("E17-18f")
def test_a_rebalancing_group_keeps_all_offsets(driver: ShardDriver) -> None:
    driver.commit({U0: 2})
    stable_group(driver, 1)
    join(driver)
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    driver.sweep(2 * WEEK_MS)
    assert driver.offsets() == {U0: 2}


@pytest.mark.fact("E17-18f")
def test_a_stable_group_of_another_protocol_type_keeps_all_offsets(
    driver: ShardDriver,
) -> None:
    driver.commit({U0: 2})
    stable_group(driver, 1, protocol_type="connect", protocols=protocols(any=b"x"))
    driver.sweep(2 * WEEK_MS)
    assert driver.offsets() == {U0: 2}


def test_a_stable_group_with_malformed_subscriptions_keeps_all_offsets(
    driver: ShardDriver,
) -> None:
    driver.commit({U0: 2})
    stable_group(driver, 1, protocols=protocols(range=b"?"))
    driver.sweep(2 * WEEK_MS)
    assert driver.offsets() == {U0: 2}


@pytest.mark.fact("E17-18h")
@pytest.mark.parametrize("retention_ms", [10, 2 * WEEK_MS])
def test_the_retention_time_of_a_commit_overrides_the_default(
    driver: ShardDriver, retention_ms: int
) -> None:
    driver.commit({T0: 1}, version=4, retention_time_ms=retention_ms)
    driver.sweep(retention_ms - 1)
    assert driver.offsets() == {T0: 1}
    driver.sweep(1)
    assert driver.offsets() == {}


@pytest.mark.fact("E17-18")
def test_offset_expiration_runs_at_the_check_interval() -> None:
    settings = Settings(offsets_retention_minutes=30)
    driver = ShardDriver(settings=settings).reloaded()
    driver.commit({T0: 1})
    driver.advance(3 * SWEEP_MS - 1)
    assert driver.offsets() == {T0: 1}
    driver.advance(1)
    assert driver.offsets() == {}
    driver.commit({T0: 2})
    driver.advance(3 * SWEEP_MS)
    assert driver.offsets() == {}


def test_a_group_with_a_pending_member_is_not_deleted(driver: ShardDriver) -> None:
    driver.send(join_request())
    assert driver.groups["g"].pending_members
    driver.sweep()
    assert "g" in driver.groups
    driver.advance(SESSION_MS)
    driver.sweep()
    assert "g" not in driver.groups


def test_offset_expiration_runs_in_slices(
    driver: ShardDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "SLICE_OFFSETS", 4)
    for number in range(5):
        driver.commit({T0: 1, U0: 2}, group_id=f"g{number}")
    steps = len(driver.results)
    driver.sweep(WEEK_MS)
    slices = [len(result.records) for result in driver.results[steps:]]
    assert slices == [6, 6, 3]  # three tombstones per group
    assert not driver.groups


def test_offset_expiration_of_many_groups_runs_in_slices(
    driver: ShardDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "SLICE_GROUPS", 2)
    for number in range(5):
        driver.commit({T0: 1}, group_id=f"g{number}")
    steps = len(driver.results)
    driver.sweep(WEEK_MS)
    assert len(driver.results[steps:]) == 3
    assert not driver.groups


def test_a_group_deleted_during_offset_expiration_is_skipped(
    driver: ShardDriver,
) -> None:
    driver.fire(deletion.ExpireOffsets(("gone",)))
    assert driver.written == ()


def test_a_new_generation_restarts_the_retention_of_an_empty_group(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    leave(driver, *stable_group(driver, 1))
    driver.sweep(WEEK_MS - 1)
    [member_id] = stable_group(driver, 1)
    driver.now_ms += WEEK_MS
    sync(driver, member_id, driver.groups["g"].generation)
    leave(driver, member_id)
    driver.sweep(WEEK_MS - 1)
    assert driver.offsets() == {T0: 1}


# Consumer groups.

F0, B0 = ("foo", 0), ("bar", 0)


@pytest.mark.fact("E17-18h")
def test_the_retention_time_of_a_commit_applies_in_a_consumer_group() -> None:
    driver = GroupDriver()
    driver.join("m", ["foo"])
    driver.heartbeat("m", -1)
    driver.commit({F0: 1}, version=4, retention_time_ms=10)
    driver.sweep(9)
    assert driver.offsets() == {F0: 1}
    driver.sweep(1)
    assert driver.offsets() == {}


@pytest.mark.fact("E17-20", "E22-29a", "E22-29b", "H-99b")
def test_an_empty_consumer_group_is_deleted_with_its_last_offset() -> None:
    driver = GroupDriver()
    driver.join("m", ["foo"])
    driver.commit({F0: 1}, member_id="m", generation_id_or_member_epoch=1)
    driver.heartbeat("m", -1)
    driver.sweep(WEEK_MS)
    assert driver.wrote_types == ["-offset", "-target-epoch", "-epoch"]
    assert not driver.state.consumer_groups
    assert not driver.groups
    assert driver.reloaded().state == driver.state


def test_a_delayed_target_is_not_computed_for_a_deleted_group() -> None:
    driver = GroupDriver(settings=Settings())
    driver.join("m", ["foo"])
    driver.join("n", ["foo"])
    assert driver.group.epoch > driver.group.assignment_epoch
    for member_id in ("m", "n"):
        driver.heartbeat(member_id, -1)
    driver.sweep()
    assert not driver.state.consumer_groups
    written = len(driver.log)
    driver.advance(SWEEP_MS - 1)
    assert len(driver.log) == written
