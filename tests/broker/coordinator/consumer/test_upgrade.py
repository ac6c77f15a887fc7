"""Upgrade of a classic group with its members to a consumer group (E20.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.broker.coordinator.consumer.member import MemberState
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.consumer.topics import hash_of_topics
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import (
    heartbeat,
    join,
    join_request,
    joining_group,
    leave,
    stable_group,
    sync,
)
from tests.broker.coordinator.consumer.classic_requests import (
    assigns,
    classic_group,
    offers,
    rejoined,
)
from tests.broker.coordinator.consumer.groups import (
    AT_ONCE,
    GroupDriver,
    received_assignment,
)
from tests.broker.coordinator.driver import Sent
from tests.broker.coordinator.requests import topic_id

FOO = topic_id("foo")
HALVES = {"-a": {"foo": [0, 1, 2]}, "-b": {"foo": [3, 4, 5]}}
WRITTEN = ["-classic", "member", "member", "epoch", "target", "target"]
WRITTEN += ["target-epoch", "current", "current"]


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def policy(name: str, **settings: int) -> GroupDriver:
    """Return a driver of a shard with this migration policy."""
    return GroupDriver(
        settings=Settings(
            group_consumer_migration_policy=name,
            group_consumer_assignment_interval_ms=0,
            **settings,  # type: ignore[arg-type]
        )
    )


def is_refused(sent: Sent) -> bool:
    """Return whether the upgrade was refused with GROUP_ID_NOT_FOUND."""
    return bool(sent.error == ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.mark.fact("E7-22", "E2-02a", "E20-10", "E20-14", "E20-14a", "E20-03")
def test_a_group_is_upgraded_in_one_batch(driver: GroupDriver) -> None:
    a, b = classic_group(driver, HALVES)
    answer = driver.join("m")
    assert received_assignment(answer) == {}
    assert driver.wrote_types[:9] == WRITTEN
    assert "g" not in driver.groups
    for member_id in (a, b):
        member = driver.member(member_id)
        assert member.classic is not None
        assert member.classic.session_timeout_ms == 10_000
        assert [name for name, _ in member.classic.protocols] == ["range"]
        assert (member.epoch, member.previous_epoch) == (1, 1)
        assert member.state is MemberState.STABLE
        assert member.topic_names == ("foo",)
        assert member.rebalance_timeout_ms == 60_000
    assert driver.wrote[3].value.epoch == 1  # type: ignore[union-attr]
    assert driver.wrote[6].value.assignment_epoch == 1  # type: ignore[union-attr]


@pytest.mark.fact("H-133a", "E20-31")
def test_an_upgrade_of_a_stable_group_keeps_all_assignments(
    driver: GroupDriver,
) -> None:
    a, b = classic_group(driver, HALVES)
    driver.join("m")
    assert driver.group.epoch == driver.group.assignment_epoch == 2
    assert driver.member(a).assigned == {FOO: {0: 1, 1: 1, 2: 1}}
    assert driver.member(b).assigned == {FOO: {3: 1, 4: 1, 5: 1}}
    sizes = [len(driver.group.target(each)[FOO]) for each in (a, b, "m")]
    assert sizes == [2, 2, 2]
    assert driver.member("m").state is MemberState.UNRELEASED_PARTITIONS


@pytest.mark.fact("E20-10")
def test_a_group_in_its_first_join_phase_is_upgraded(driver: GroupDriver) -> None:
    waits = join(driver, protocols=offers("foo"))
    assert received_assignment(driver.join("m")) == {"foo": [3, 4, 5]}
    assert waits.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group.epoch == 1
    assert ("join", "g") not in driver.timers
    assert driver.member(waits.response.member_id).epoch == 0


def test_partitions_kept_from_an_aborted_generation_have_one_owner(
    driver: GroupDriver,
) -> None:
    """Abort the sync phase, so that no assignment is in memory."""
    a, b = classic_group(driver, HALVES)
    rejoined(driver, a, owned={"foo": [0, 1, 2]})
    rejoined(driver, b, owned={"foo": [2, 3, 4, 5]})
    assert driver.groups["g"].generation == 2
    rejoined(driver, a, protocols=offers("foo", "bar", owned={"foo": [0, 1, 2]}))
    assert not driver.groups["g"].members[b].assignment
    driver.join("m")
    assert driver.member(a).assigned == {FOO: {0: 2, 1: 2, 2: 2}}
    assert driver.member(b).assigned == {FOO: {3: 2, 4: 2, 5: 2}}
    assert not driver.member("m").assigned


def test_partitions_that_a_cooperative_member_must_revoke_are_not_assigned_yet(
    driver: GroupDriver,
) -> None:
    """Assign a member fewer partitions than it owns, before it rejoins."""
    a, b = classic_group(driver, HALVES)
    rejoined(driver, a, owned={"foo": [0, 1, 2]})
    rejoined(driver, b, owned={"foo": [3, 4, 5]})
    shares = {a: {"foo": [0]}, b: {"foo": [3, 4, 5]}}
    given = {member_id: assigns(share) for member_id, share in shares.items()}
    sync(driver, a, 2, assignments=given)
    assert received_assignment(driver.join("m")) == {}
    assert driver.member(a).assigned == {FOO: {0: 2, 1: 2, 2: 2}}


@pytest.mark.fact("E20-15", "E8-11")
def test_an_upgrade_keeps_the_session_timeout_of_each_member(
    driver: GroupDriver,
) -> None:
    a, b = classic_group(driver, HALVES, session_timeout_ms=7_000)
    rejoined(driver, a, session_timeout_ms=7_000)
    assert ("join", "g") in driver.timers
    driver.join("m")
    assert ("join", "g") not in driver.timers
    assert driver.timers["session", "g", b].fires_at_ms == driver.now_ms + 7_000
    driver.advance(7_000)
    assert list(driver.group.members) == ["m"]


@pytest.mark.fact("E20-15")
def test_a_pending_member_is_dropped_at_the_upgrade(driver: GroupDriver) -> None:
    classic_group(driver, HALVES)
    pending = driver.send(join_request(protocols=offers("foo"))).response.member_id
    assert ("session", "g", pending) in driver.timers
    driver.join("m")
    assert ("session", "g", pending) not in driver.timers


@pytest.mark.fact("E20-16")
def test_deleted_partitions_are_dropped_at_the_upgrade(driver: GroupDriver) -> None:
    shares = {"-a": {"foo": [0, 5], "gone": [0]}, "-b": {"gone": [1]}}
    a, b = classic_group(driver, shares)
    driver.topics.counts["foo"] = 5
    driver.join("m")
    assert driver.member(a).assigned == {FOO: {0: 1}}
    assert driver.member(b).assigned == {}


@pytest.mark.fact("H-131", "E22-31", "E7-22", "E20-02")
@pytest.mark.parametrize("name", ["disabled", "bidirectional"])
def test_an_empty_group_is_replaced(name: str) -> None:
    driver = policy(name)
    leave(driver, *classic_group(driver, HALVES))
    assert received_assignment(driver.join("m")) == {"foo": [0, 1, 2, 3, 4, 5]}
    assert driver.wrote_types[:3] == ["-classic", "member", "epoch"]
    assert list(driver.group.members) == ["m"]
    assert driver.group.epoch == 1
    assert "g" not in driver.state.group_records


@pytest.mark.fact("E7-23", "E20-02")
def test_a_group_with_only_offsets_is_replaced_under_any_policy() -> None:
    driver = policy("disabled")
    driver.topics.counts["t"] = 4
    driver.commit({("t", 1): 5})
    assert driver.join("m").error == ErrorCode.NONE
    assert driver.offsets({"t": [1]}) == {("t", 1): 5}


def test_committed_offsets_survive_a_protocol_change(driver: GroupDriver) -> None:
    a, _ = classic_group(driver, HALVES)
    asked: dict[str, Any] = {"member_id": a, "generation_id_or_member_epoch": 1}
    assert driver.commit({("foo", 1): 5}, **asked) == {("foo", 1): 0}
    driver.join("m")
    assert driver.offsets({"foo": [1]}) == {("foo", 1): 5}
    assert driver.commit({("foo", 1): 6}, **asked) == {("foo", 1): 0}


@pytest.mark.fact("H-130", "E7-22a", "E20-01")
@pytest.mark.parametrize("name", ["disabled", "downgrade", "nonsense"])
def test_a_migration_policy_can_forbid_the_conversion(name: str) -> None:
    driver = policy(name)
    a, _ = classic_group(driver, HALVES)
    assert is_refused(driver.join("m"))
    assert heartbeat(driver, a) == ErrorCode.NONE


@pytest.mark.fact("E20-11")
def test_a_group_of_another_protocol_type_is_not_upgraded(driver: GroupDriver) -> None:
    stable_group(driver, protocol_type="connect")
    assert is_refused(driver.join("m"))


@pytest.mark.fact("E20-11a")
def test_a_group_over_the_size_limit_is_not_converted() -> None:
    driver = policy("upgrade", group_consumer_max_size=1)
    classic_group(driver, HALVES)
    assert is_refused(driver.join("m"))
    assert not driver.wrote


@pytest.mark.fact("E20-11a")
def test_a_group_at_the_size_limit_is_converted() -> None:
    driver = policy("upgrade", group_consumer_max_size=len(HALVES))
    classic_group(driver, HALVES)
    assert not is_refused(driver.join("m"))


@pytest.mark.fact("E20-12a")
def test_a_stable_group_with_a_malformed_subscription_is_not_upgraded(
    driver: GroupDriver,
) -> None:
    stable_group(driver)
    assert is_refused(driver.join("m"))
    assert driver.groups["g"].members


@pytest.mark.fact("E20-12a")
@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff", b"\0\1\0"])
def test_a_group_with_a_malformed_subscription_is_not_upgraded(
    driver: GroupDriver, metadata: bytes
) -> None:
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=metadata)
    joining_group(driver, protocols=[protocol])
    assert is_refused(driver.join("m"))


def replace_name(
    offer: m.JoinGroupRequestProtocol, name: str
) -> m.JoinGroupRequestProtocol:
    return m.JoinGroupRequestProtocol(name=name, metadata=offer.metadata)


@pytest.mark.fact("E20-12")
def test_user_data_of_a_custom_assignor_prevents_the_upgrade(
    driver: GroupDriver,
) -> None:
    offered = [replace_name(each, "custom") for each in offers("foo")]
    (leader,) = joining_group(driver, 1, protocols=offered)
    given = assigns({"foo": [0]}, user_data=b"mine")
    assert not sync(driver, leader, assignments={leader: given}).error
    assert is_refused(driver.join("m"))


def test_user_data_of_kafkas_own_assignors_does_not_prevent_the_upgrade(
    driver: GroupDriver,
) -> None:
    offered = [replace_name(each, "cooperative-sticky") for each in offers("foo")]
    (leader,) = joining_group(driver, 1, protocols=offered)
    given = assigns({"foo": [0]}, user_data=b"generation 1")
    assert not sync(driver, leader, assignments={leader: given}).error
    assert not driver.join("m").error
    assert driver.group.members.keys() == {leader, "m"}


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
def test_a_setting_refuses_to_drop_any_user_data(
    driver: GroupDriver, name: str
) -> None:
    offered = [replace_name(each, name) for each in offers("foo")]
    (leader,) = joining_group(driver, 1, protocols=offered)
    given = assigns({"foo": [0]}, user_data=b"x")
    assert not sync(
        driver, leader, protocol_name=name, assignments={leader: given}
    ).error
    allowing = driver.settings
    driver.settings = replace(allowing, group_consumer_migration_drop_user_data=False)
    refused = driver.join("m")
    assert is_refused(refused)
    assert "custom assignor" in refused.response.error_message
    driver.settings = allowing
    assert not driver.join("m").error


def test_empty_user_data_never_prevents_the_upgrade() -> None:
    driver = GroupDriver(
        settings=replace(AT_ONCE, group_consumer_migration_drop_user_data=False)
    )
    (leader,) = joining_group(driver, 1, protocols=offers("foo"))
    given = assigns({"foo": [0]}, user_data=b"")
    assert not sync(driver, leader, assignments={leader: given}).error
    assert not driver.join("m").error


@pytest.mark.fact("E15-03", "E20-14a")
def test_an_upgraded_group_has_the_hash_of_its_topics(driver: GroupDriver) -> None:
    """Bump the epoch only for the subscription of the member that joins."""
    classic_group(driver, HALVES)
    joined = driver.join("m", topics=[])
    assert (joined.error, joined.response.member_epoch) == (0, 1)
    assert driver.group.epoch == driver.group.assignment_epoch == 1
    assert driver.group.metadata_hash == hash_of_topics(["foo"], driver.topics)
    assert driver.wrote_types.count("epoch") == 1


@pytest.mark.fact("E20-12a")
def test_only_the_chosen_protocol_has_to_be_decodable(driver: GroupDriver) -> None:
    bad = m.JoinGroupRequestProtocol(name="roundrobin", metadata=b"\0")
    (leader,) = joining_group(driver, 1, protocols=[*offers("foo"), bad])
    given = assigns({"foo": [0]})
    assert not sync(driver, leader, assignments={leader: given}).error
    assert not driver.join("m").error
    assert driver.member(leader).topic_names == ("foo",)


def test_a_group_with_two_owners_of_a_partition_is_not_upgraded(
    driver: GroupDriver,
) -> None:
    classic_group(driver, {"-a": {"foo": [0, 1]}, "-b": {"foo": [1, 2]}})
    assert is_refused(driver.join("m"))


@pytest.mark.fact("E7-21a")
def test_only_a_join_upgrades_a_group(driver: GroupDriver) -> None:
    classic_group(driver, HALVES)
    assert is_refused(driver.heartbeat("m", 1))
    assert is_refused(driver.heartbeat("m", -1))


def test_a_static_member_that_changes_its_protocol_before_it_synced_is_assigned(
    driver: GroupDriver,
) -> None:
    """In Kafka it has no partitions until another member joins or leaves."""
    driver.send(join_request(protocols=offers("foo"), group_instance_id="i"))
    answer = driver.join("m", instance_id="i")
    assert received_assignment(answer) == {"foo": [0, 1, 2, 3, 4, 5]}


def test_partitions_without_a_member_are_assigned_when_a_static_member_upgrades(
    driver: GroupDriver,
) -> None:
    """In Kafka they stay without a member until another one joins or leaves."""
    classic_group(driver, {"i": {"foo": [0, 1]}, "j": {"foo": [2, 3]}})
    driver.join("m", instance_id="i")
    driver.join("n", instance_id="j")
    driver.heartbeat("n", driver.member("n").epoch)
    assigned = [
        partition
        for target in driver.group.targets.values()
        for partition in target[FOO]
    ]
    assert sorted(assigned) == [0, 1, 2, 3, 4, 5]


def test_an_upgraded_group_survives_a_restart(driver: GroupDriver) -> None:
    classic_group(driver, HALVES)
    driver.join("m")
    loaded = driver.reload().shard.state
    assert "g" not in loaded.classic_groups
    assert group_records(loaded.consumer_groups["g"]) == group_records(driver.group)
