"""DeleteGroups for one group: its conditions, and the records deleted with it."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.records import GroupMetadataKey, OffsetCommitKey
from coterie.broker.coordinator.result import Record
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import (
    heartbeat,
    join,
    join_request,
    joining_group,
    leave,
    stable_group,
)
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.shard_driver import ShardDriver

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


@pytest.mark.fact("D-10", "D-12")
def test_deleting_an_empty_group_deletes_its_offsets(driver: ShardDriver) -> None:
    driver.commit({T0: 1, T1: 2})
    leave(driver, *stable_group(driver, 1))
    assert driver.delete_group().response == m.DeletableGroupResult(group_id="g")
    assert driver.offsets() == {}
    assert "g" not in driver.groups
    assert driver.delete_group().error == 69


@pytest.mark.fact("H-110a", "D-10", "D-14a")
def test_a_stable_group_is_not_deleted(driver: ShardDriver) -> None:
    [member_id] = stable_group(driver, 1)
    assert driver.delete_group().error == 68
    assert heartbeat(driver, member_id) == 0


@pytest.mark.fact("D-10", "D-14a")
def test_a_rebalancing_group_is_not_deleted(driver: ShardDriver) -> None:
    joining_group(driver, 1)
    assert driver.delete_group().error == 68
    join(driver)
    assert driver.delete_group().error == 68


@pytest.mark.fact("D-11")
def test_an_unknown_group_is_not_found(driver: ShardDriver) -> None:
    assert driver.delete_group("gone").response == m.DeletableGroupResult(
        group_id="gone", error_code=69, error_message="Group gone not found."
    )


@pytest.mark.fact("D-15a", "D-15b")
def test_a_group_deletion_writes_its_tombstones_in_one_batch(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 2, T1: 3})
    driver.txn_commit({T1: 4}, producer_id=8)
    driver.delete_group()
    assert driver.written == (
        Record(OffsetCommitKey(group="g", topic="t", partition=0), None),
        Record(OffsetCommitKey(group="g", topic="t", partition=1), None),
        Record(GroupMetadataKey(group="g"), None),
    )
    driver.end_transaction(7, commit=True)
    driver.end_transaction(8, commit=True)
    assert driver.offsets() == {}
    assert "g" not in driver.groups


@pytest.mark.fact("D-13")
def test_each_group_of_a_delete_request_has_its_own_error(driver: ShardDriver) -> None:
    stable_group(driver, 1)
    driver.commit({T0: 1}, group_id="empty")
    errors = [driver.delete_group(name).error for name in ("g", "empty", "gone")]
    assert errors == [68, 0, 69]


@pytest.mark.fact("D-18")
def test_the_empty_group_id_is_accepted(driver: ShardDriver) -> None:
    assert driver.delete_group("").error == 69
    driver.commit({T0: 1}, group_id="")
    assert driver.delete_group("").error == 0


def test_a_pending_member_of_a_deleted_group_is_unknown(driver: ShardDriver) -> None:
    response = driver.send(join_request()).response
    assert driver.delete_group().error == 0
    assert join(driver, response.member_id).error == 25


@pytest.mark.parametrize(("version", "message"), [(2, None), (3, "why")])
def test_version_3_has_the_error_message(
    driver: ShardDriver, version: int, message: str | None
) -> None:
    refusal = driver.shard.refuse(
        DeleteGroup("g"),
        driver._context(1, 0, "", ""),
        ErrorCode.NON_EMPTY_GROUP,
        "why",
    )
    data = encode(m.DeleteGroupsResponse(results=[refusal]), version)
    [result] = decode(m.DeleteGroupsResponse, version, data)[0].results
    assert (result.error_code, result.error_message) == (68, message)


# Consumer groups.

F0 = ("foo", 0)


def test_a_consumer_group_with_an_absent_static_member_is_not_deleted() -> None:
    driver = GroupDriver()
    driver.join("m", instance_id="i")
    driver.heartbeat("m", -2, instance_id="i")
    assert driver.delete_group().error == 68


@pytest.mark.fact("D-12", "D-15a", "D-15b", "E22-29a", "E22-29b")
def test_an_empty_consumer_group_is_deleted_in_one_batch() -> None:
    driver = GroupDriver()
    driver.join("m")
    driver.commit({F0: 1}, member_id="m", generation_id_or_member_epoch=1)
    driver.txn_commit({F0: 2, ("foo", 1): 3})
    driver.heartbeat("m", -1)
    assert driver.delete_group().response == m.DeletableGroupResult(group_id="g")
    assert driver.wrote_types == ["-offset", "-offset", "-target-epoch", "-epoch"]
    assert not driver.state.consumer_groups
    assert driver.offsets() == {}
    driver.end_transaction(7, commit=True)
    assert driver.offsets() == {}
    assert not driver.reloaded().state.consumer_groups
