"""Validation of the member in commits and fetches of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import (
    ClassicMemberInfo,
    Member,
    MemberState,
)
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.broker.coordinator.result import Result
from coterie.wire import messages as m
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.requests import topic_id

FOO = topic_id("foo")
F0, F1, F2, F3 = (("foo", partition) for partition in range(4))
CLASSIC = ClassicMemberInfo(session_timeout_ms=10_000, protocols=(("range", b""),))
UNKNOWN, ILLEGAL, UNSUPPORTED, STALE = 25, 22, 35, 113


@pytest.fixture
def driver() -> GroupDriver:
    """A group of members "m" and "n" at epoch 5. "m" was assigned foo-0 at epoch 3 and
    foo-1 at epoch 5. It must revoke foo-2, assigned at epoch 4. "n" has foo-3.
    """
    driver = GroupDriver()
    put(driver, M, N)
    return driver


M = Member(
    member_id="m",
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned={FOO: {0: 3, 1: 5}},
    pending_revocation={FOO: {2: 4}},
)
N = Member(member_id="n", epoch=5, assigned={FOO: {3: 3}})


def put(driver: GroupDriver, *members: Member) -> None:
    """Replay the records of a group with these members."""
    group = ConsumerGroup("g")
    group.epoch = group.assignment_epoch = 6
    for member in members:
        group.put_member(member)
    driver.settle(Result(records=tuple(group_records(group))))


def commit(
    driver: GroupDriver, epoch: int, member_id: str = "m", **options: Any
) -> list[int]:
    """Commit foo-0 to foo-3 as a member; return an error code for each."""
    return _codes(driver.commit, epoch, member_id, options)


def txn_commit(
    driver: GroupDriver, epoch: int, member_id: str = "m", **options: Any
) -> list[int]:
    """Commit foo-0 to foo-3 within a transaction; return an error code for each."""
    return _codes(driver.txn_commit, epoch, member_id, options)


def _codes(
    send: Any, epoch: int, member_id: str, options: Mapping[str, Any]
) -> list[int]:
    codes = send(
        {F0: 10, F1: 11, F2: 12, F3: 13},
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        **options,
    )
    return [*codes.values()]


def fetch(
    driver: GroupDriver, member_id: str | None, epoch: int, **options: Any
) -> int:
    """Fetch all offsets as a member; return the error code."""
    asked = {"group_id": "g", "topics": None, **options}
    group = m.OffsetFetchRequestGroup(member_id=member_id, member_epoch=epoch, **asked)
    code: int = driver.send(FetchOffsets(group), version=9).error
    return code


# Commits.


@pytest.mark.parametrize("version", [9, 10])
def test_a_commit_with_the_current_member_epoch_succeeds_for_any_partition(
    driver: GroupDriver, version: int
) -> None:
    assert commit(driver, 5, version=version)[:3] == [0, 0, 0]
    assert driver.offsets() == {F0: 10, F1: 11, F2: 12, F3: 13}


@pytest.mark.fact("H-87c", "E29-08", "E17-02a")
@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_without_a_member_id_is_refused_while_members_exist(
    driver: GroupDriver, version: int
) -> None:
    answers = driver.commit({F0: 1}, version=version)
    assert [*answers.values()] == [UNKNOWN]
    assert not driver.wrote


@pytest.mark.fact("E17-13")
def test_the_instance_id_of_a_commit_does_not_matter(driver: GroupDriver) -> None:
    put(driver, M._replace(instance_id="i"), N)
    for instance_id in ("i", "j"):
        assert commit(driver, 5, group_instance_id=instance_id) == [0] * 4
        assert commit(driver, 5, "n", group_instance_id=instance_id) == [0] * 4
    assert commit(driver, 5, "old", group_instance_id="i") == [UNKNOWN] * 4


# Member epochs.


def test_partition_errors_take_precedence_over_epoch_errors(
    driver: GroupDriver,
) -> None:
    answers = driver.commit(
        {("foo", 6): 1, ("nowhere", 0): 1, F1: 1, F0: {"committed_offset": 1}},
        member_id="m",
        generation_id_or_member_epoch=4,
    )
    assert answers == {("foo", 6): 3, ("nowhere", 0): 3, F1: STALE, F0: STALE}


def test_too_long_metadata_takes_precedence_over_epoch_errors(
    driver: GroupDriver,
) -> None:
    long = {"committed_offset": 1, "committed_metadata": "x" * 5_000}
    of_member: dict[str, Any] = {
        "member_id": "m",
        "generation_id_or_member_epoch": 4,
    }
    assert driver.commit({F0: 1, F1: long}, **of_member) == {F0: 0, F1: 12}
    answers = driver.commit({F0: long, F3: 1}, **of_member)
    assert answers == {F0: STALE, F3: STALE}


def test_a_temporarily_absent_static_member_has_no_epoch() -> None:
    driver = GroupDriver()
    driver.join("m", instance_id="i")
    driver.heartbeat("m", -2, instance_id="i")
    for epoch in (1, 0, -1, -3):
        assert commit(driver, epoch) == [STALE] * 4
    assert commit(driver, -2) == [0] * 4  # Kafka compares with its epoch, which is -2.


# Members of the classic protocol.


@pytest.mark.fact("E20-33", "H-87b", "E17-04a")
@pytest.mark.parametrize("version", range(2, 11))
def test_a_classic_member_commits_in_any_version(version: int) -> None:
    driver = GroupDriver()
    put(driver, M._replace(classic=CLASSIC), N)
    assert commit(driver, 5, version=version) == [0] * 4
    assert commit(driver, 6, version=version) == [ILLEGAL] * 4
    assert commit(driver, -1, version=version) == [ILLEGAL] * 4
    assert commit(driver, 2, version=version) == [ILLEGAL] * 4


# The session.


@pytest.mark.fact("E17-10a")
def test_a_commit_does_not_extend_a_members_session() -> None:
    driver = GroupDriver()
    driver.join("m")
    timers = dict(driver.timers)
    driver.now_ms += 1_000
    assert commit(driver, 1) == [0] * 4
    assert driver.results[-1].timers == ()
    assert driver.timers == timers
    driver.advance(44_000)
    assert not driver.group.members


@pytest.mark.fact("E17-10a")
def test_a_commit_does_not_extend_a_classic_members_session() -> None:
    driver = GroupDriver()
    put(driver, M._replace(classic=CLASSIC))
    assert commit(driver, 5) == [0] * 4
    assert driver.results[-1].timers == ()


# In transactions.


@pytest.mark.fact("E17-15f")
def test_from_version_6_a_producer_gets_stale_member_epoch(driver: GroupDriver) -> None:
    assert txn_commit(driver, 6, version=6) == [STALE] * 4
    assert txn_commit(driver, 4, version=6) == [STALE] * 4
    assert txn_commit(driver, 5, "gone", version=6) == [UNKNOWN] * 4
    assert txn_commit(driver, 5, version=6) == [0] * 4
    assert txn_commit(driver, 5, group_id="none", version=6) == [69] * 4
    assert driver.txn_commit({("nowhere", 0): 1}, version=6) == {("nowhere", 0): 100}


def test_the_producer_of_a_classic_member_always_gets_illegal_generation() -> None:
    driver = GroupDriver()
    put(driver, M._replace(classic=CLASSIC))
    assert txn_commit(driver, 6, version=6) == [ILLEGAL] * 4


@pytest.mark.fact("E17-12e")
@pytest.mark.parametrize("version", [2, 5, 6])
def test_a_transactional_commit_without_a_member_id_is_accepted(
    driver: GroupDriver, version: int
) -> None:
    answers = driver.txn_commit({F0: 7}, version=version)
    assert [*answers.values()] == [0]
    driver.end_transaction(commit=True)
    assert driver.offsets() == {F0: 7}


@pytest.mark.fact("E17-13")
def test_the_instance_id_of_a_transactional_commit_does_not_matter(
    driver: GroupDriver,
) -> None:
    put(driver, M._replace(instance_id="i"), N)
    for instance_id in ("i", "j"):
        assert txn_commit(driver, 5, "n", group_instance_id=instance_id) == [0] * 4
        assert txn_commit(driver, 5, group_instance_id=instance_id) == [0] * 4
    # An instance id without a member id is no anonymous commit.
    assert txn_commit(driver, -1, "", group_instance_id="i") == [UNKNOWN] * 4


# Fetches.


@pytest.mark.fact("A-46b")
def test_a_classic_member_fetches_with_its_generation() -> None:
    driver = GroupDriver()
    put(driver, M._replace(classic=CLASSIC))
    assert fetch(driver, "m", 5) == 0
    assert fetch(driver, "m", 6) == ILLEGAL


@pytest.mark.fact("A-46a", "A-41")
def test_fetch_from_other_groups_ignores_the_member(driver: GroupDriver) -> None:
    driver.commit({F0: 1}, group_id="simple")
    assert fetch(driver, "x", 3, group_id="simple") == 0
    assert fetch(driver, "x", 3, group_id="none") == 0
