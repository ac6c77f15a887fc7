"""Downgrade of a consumer group to a classic group (E20.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.consumer.replay import replay
from coterie.broker.coordinator.records import (
    ConsumerGroupMemberMetadataKey,
)
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import (
    codes,
    heartbeat,
    join,
    leave,
    sync,
)
from tests.broker.coordinator.consumer.classic_requests import (
    assigned,
    classic_group,
    offers,
    rejoined,
)
from tests.broker.coordinator.consumer.groups import AT_ONCE, GroupDriver
from tests.broker.coordinator.driver import Sent
from tests.broker.coordinator.requests import topic_id

FOO = topic_id("foo")
PREPARING = GroupState.PREPARING_REBALANCE
WRITTEN = ["-current"] * 3 + ["-target"] * 3 + ["-target-epoch"]
WRITTEN += ["-member"] * 3 + ["-epoch", "classic"]


def group_of_three(policy: str = "bidirectional", **settings: Any) -> GroupDriver:
    """Return a group whose members have two partitions of foo each, at epoch 3: classic
    members c and d, and m, a static member of the consumer protocol.
    """
    driver = GroupDriver(
        settings=replace(AT_ONCE, group_consumer_migration_policy=policy, **settings)
    )
    driver.join("m", instance_id="i")
    names = ["range", "roundrobin"]
    join(driver, "c", protocols=offers("foo", names=names))
    join(driver, "d", protocols=offers("foo", names=names[1:]))
    shared = [[0, 1, 2, 3, 4, 5], driver.member("m").assigned.get(FOO, ())]
    for owned in (shared[0], driver.group.target("m")[FOO]):
        driver.heartbeat("m", 1, owned={"foo": owned}, instance_id="i")
    rejoined(driver, "c", protocols=offers("foo", names=names))
    rejoined(driver, "d", protocols=offers("foo", names=names[1:]))
    assert not sync(driver, "c", 3).error
    assert not sync(driver, "d", 3).error
    assert driver.group.state.value == "Stable"
    return driver


@pytest.fixture
def driver() -> GroupDriver:
    return group_of_three()


def held(driver: GroupDriver, member_id: str) -> dict[str, list[int]]:
    return {"foo": sorted(driver.member(member_id).assigned[FOO])}


def is_rebalancing(driver: GroupDriver) -> bool:
    """Assert that the group is classic, and that c and d must rejoin."""
    assert "g" not in driver.state.consumer_groups
    group = driver.groups["g"]
    assert {*group.members} == {"c", "d"}
    assert heartbeat(driver, "c", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert ("join", "g") in driver.timers
    return group.state is PREPARING


@pytest.mark.fact("H-136a", "E20-40", "E20-43", "E7-64")
def test_a_group_is_downgraded_when_its_last_consumer_member_leaves(
    driver: GroupDriver,
) -> None:
    answer = driver.heartbeat("m", -1, instance_id="i")
    assert (answer.error, answer.response.member_epoch) == (0, -1)
    assert is_rebalancing(driver)


@pytest.mark.fact("E20-42", "E20-03")
def test_a_downgrade_is_written_in_one_batch(driver: GroupDriver) -> None:
    shares = {"c": held(driver, "c"), "d": held(driver, "d")}
    driver.heartbeat("m", -1, instance_id="i")
    assert driver.wrote_types == WRITTEN
    value: Any = driver.wrote[-1].value
    assert value.generation == 3
    assert value.protocol_type == "consumer"
    assert value.protocol == "roundrobin"
    assert {each.member_id for each in value.members} == {"c", "d"}
    for each in value.members:
        assert assigned(each.assignment) == shares[each.member_id]
        assert (each.session_timeout, each.rebalance_timeout) == (10_000, 60_000)
    assert [name for name, _ in driver.groups["g"].members["c"].protocols] == [
        "range",
        "roundrobin",
    ]


def test_a_downgrade_writes_the_partitions_of_a_topic_in_order(
    driver: GroupDriver,
) -> None:
    member = driver.member("c")
    turned = {
        partition: member.assigned[FOO][partition]
        for partition in sorted(member.assigned[FOO], reverse=True)
    }
    driver.group.members["c"] = member._replace(assigned={FOO: turned})
    driver.heartbeat("m", -1, instance_id="i")
    value: Any = driver.wrote[-1].value
    (written,) = [each for each in value.members if each.member_id == "c"]
    assert assigned(written.assignment) == {"foo": sorted(turned)}


@pytest.mark.fact("E20-43", "E20-15")
def test_a_downgrade_keeps_sessions_and_cancels_other_timers(
    driver: GroupDriver,
) -> None:
    driver.join("n")
    heartbeat(driver, "c", 3)
    rejoined(driver, "d", protocols=offers("foo", names=["roundrobin"]))
    assert codes(leave(driver, "m", "n")) == [0, 0]
    of_group = {key for key in driver.timers if "g" in key}
    assert of_group == {("session", "g", "c"), ("session", "g", "d"), ("join", "g")}
    driver.advance(10_000)
    assert driver.groups["g"].members == {}


@pytest.mark.fact("E20-42", "E20-43")
def test_the_rebalance_of_a_downgrade_continues_after_a_restart(
    driver: GroupDriver,
) -> None:
    driver.heartbeat("m", -1, instance_id="i")
    loaded = driver.reload()
    group = loaded.groups["g"]
    assert (group.state, group.generation) == (PREPARING, 3)
    assert group.members.keys() == driver.groups["g"].members.keys()
    assert heartbeat(loaded, "c", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    loaded.advance(60_000)
    assert loaded.groups["g"].state is GroupState.EMPTY


def test_committed_offsets_survive_a_protocol_change(driver: GroupDriver) -> None:
    by_c: dict[str, Any] = {"member_id": "c", "generation_id_or_member_epoch": 3}
    assert driver.commit({("foo", 1): 5}, **by_c) == {("foo", 1): 0}
    driver.heartbeat("m", -1, instance_id="i")
    assert driver.offsets({"foo": [1]}) == {("foo", 1): 5}
    by_c["generation_id_or_member_epoch"] = 3
    assert driver.commit({("foo", 1): 6}, **by_c) == {("foo", 1): 0}


# Conditions under which the group remains a consumer group.


@pytest.mark.fact("E20-01a")
@pytest.mark.parametrize("policy", ["disabled", "upgrade", "nonsense"])
def test_a_migration_policy_can_forbid_the_conversion(policy: str) -> None:
    driver = group_of_three()
    driver.settings = replace(AT_ONCE, group_consumer_migration_policy=policy)
    driver.heartbeat("m", -1, instance_id="i")
    assert {*driver.group.members} == {"c", "d"}
    assert driver.group.epoch == 4


@pytest.mark.fact("E20-01a")
def test_a_migration_policy_can_allow_the_conversion() -> None:
    driver = group_of_three("downgrade")
    driver.heartbeat("m", -1, instance_id="i")
    assert is_rebalancing(driver)


@pytest.mark.fact("E20-41")
def test_an_empty_group_is_not_converted(driver: GroupDriver) -> None:
    leave(driver, "c", "d")
    driver.heartbeat("m", -1, instance_id="i")
    assert driver.group.members == {}


@pytest.mark.fact("E20-41b")
def test_a_group_with_a_malformed_subscription_is_not_downgraded(
    driver: GroupDriver,
) -> None:
    replay_malformed_subscription(driver, "c")
    assert driver.heartbeat("m", -1, instance_id="i").error == (
        ErrorCode.GROUP_ID_NOT_FOUND
    )
    assert "m" in driver.group.members


def replay_malformed_subscription(driver: GroupDriver, member_id: str) -> None:
    """Replay a member record with a malformed subscription."""
    record = next(
        record
        for record in reversed(driver.log)
        if isinstance(record.key, ConsumerGroupMemberMetadataKey)
        and record.key.member_id == member_id
    )
    value: Any = record.value
    for protocol in value.classic_member_metadata.supported_protocols:
        protocol.metadata = b"\xff"
    replay(driver.state, record)
    driver.shard.changed.clear()


def test_a_fenced_member_is_removed_even_if_the_group_is_not_downgraded(
    driver: GroupDriver,
) -> None:
    replay_malformed_subscription(driver, "c")
    for _ in range(9):
        driver.advance(5_000)
        heartbeat(driver, "c", 3)
        heartbeat(driver, "d", 3)
    assert {*driver.group.members} == {"c", "d"}


# A classic static member replaces the last consumer protocol member.


def _classic_joins(driver: GroupDriver, *topics: str, **fields: Any) -> Sent:
    protocols = offers(*(topics or ("foo",)), names=["roundrobin"])
    return join(driver, protocols=protocols, **fields)


@pytest.mark.fact("H-137", "E9-05", "E20-40a", "E20-43a")
@pytest.mark.parametrize("has_left", [False, True])
def test_replacing_the_last_consumer_member_needs_no_rebalance(
    driver: GroupDriver, has_left: bool
) -> None:
    share = held(driver, "m")
    if has_left:
        driver.heartbeat("m", -2, instance_id="i")
    answer = _classic_joins(driver, group_instance_id="i")
    assert driver.wrote_types == WRITTEN
    member_id = answer.response.member_id
    assert answer.response.generation_id == 3
    assert answer.response.protocol_name == "roundrobin"
    group = driver.groups["g"]
    assert group.state is GroupState.STABLE
    assert {*group.members} == {"c", "d", member_id}
    # The group needs a leader that reacts to changed topics. Only the joining
    # member can become it, as only it receives a JoinGroup response.
    assert answer.response.leader == group.leader_id == member_id
    assert {each.member_id for each in answer.response.members} == {*group.members}
    assert answer.response.skip_assignment
    heartbeat_fields: dict[str, Any] = {
        "group_instance_id": "i",
        "protocol_name": "roundrobin",
    }
    given = sync(driver, member_id, 3, **heartbeat_fields)
    assert assigned(given.response.assignment) == share
    for each in ("c", "d", member_id):
        assert heartbeat(driver, each, 3) == ErrorCode.NONE
    assert ("join", "g") not in driver.timers
    assert driver.reload().groups["g"].state is GroupState.STABLE


@pytest.mark.fact("E20-40a", "E20-43a")
def test_the_last_consumer_member_may_switch_under_its_own_id(
    driver: GroupDriver,
) -> None:
    share = held(driver, "m")
    answer = _classic_joins(driver, member_id="m", group_instance_id="i")
    assert driver.wrote_types == WRITTEN
    response = answer.response
    assert (response.member_id, response.generation_id) == ("m", 3)
    assert (response.leader, response.protocol_name) == ("m", "roundrobin")
    group = driver.groups["g"]
    assert group.state is GroupState.STABLE
    assert {*group.members} == {"c", "d", "m"}
    assert assigned(group.members["m"].assignment) == share


def test_a_dynamic_member_that_switches_does_not_downgrade_the_group() -> None:
    driver = GroupDriver()
    driver.join("m")
    assert _classic_joins(driver, member_id="m").error == ErrorCode.NONE
    assert driver.group.classic_count == 1
    # Nor does a static one that does not send its instance id.
    driver = GroupDriver()
    driver.join("m", instance_id="i")
    assert _classic_joins(driver, member_id="m").error == ErrorCode.NONE
    assert driver.group.classic_count == 1
    again = _classic_joins(driver, member_id="m", group_instance_id="i")
    assert again.error == ErrorCode.NONE
    assert driver.group.classic_count == 1


def test_a_static_replacement_of_the_only_member_downgrades_the_group() -> None:
    driver = GroupDriver()
    driver.join("m", instance_id="i")
    answer = _classic_joins(driver, group_instance_id="i")
    group = driver.groups["g"]
    assert (group.state, group.generation) == (GroupState.STABLE, 1)
    assert group.leader_id == answer.response.member_id


def test_a_static_member_that_is_revoking_can_be_replaced() -> None:
    """Subscribe to a topic again before its revocation is reported."""
    driver = GroupDriver(settings=AT_ONCE)
    driver.join("m", instance_id="i")
    for topics in (["bar"], ["foo"]):
        heartbeat_fields: dict[str, Any] = {
            "instance_id": "i",
            "subscribed_topic_names": topics,
        }
        driver.heartbeat("m", 1, **heartbeat_fields)
    member = driver.member("m")
    assert member.pending_revocation.keys() == {FOO} == driver.group.target("m").keys()
    answer = _classic_joins(driver, group_instance_id="i")
    assert answer.error == ErrorCode.NONE
    group = driver.groups["g"]
    given = group.members[answer.response.member_id].assignment
    assert assigned(given) == {"foo": [0, 1, 2, 3, 4, 5]}


def test_a_replacement_with_other_topics_triggers_a_rebalance(
    driver: GroupDriver,
) -> None:
    answer = _classic_joins(driver, "bar", group_instance_id="i")
    assert answer.error == ErrorCode.NONE
    assert driver.groups["g"].state is PREPARING
    # The member has not got a generation of the group.
    member_id = answer.response.member_id
    assert (answer.response.generation_id, answer.response.leader) == (0, "")
    assert sync(driver, member_id, 0).error == ErrorCode.ILLEGAL_GENERATION
    assert sync(driver, member_id, 3).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_partitions_that_another_member_owns_are_not_assigned(
    driver: GroupDriver,
) -> None:
    """Let the last member wait for a partition that c has yet to revoke."""
    (first, second), share = held(driver, "c")["foo"], held(driver, "m")["foo"]
    driver.assigns(
        {
            "c": {"foo": [first]},
            "d": held(driver, "d"),
            "m": {"foo": [*share, second]},
        }
    )
    heartbeat_fields: dict[str, Any] = {
        "instance_id": "i",
        "subscribed_topic_names": ["bar", "foo"],
    }
    driver.heartbeat("m", 3, owned={"foo": share}, **heartbeat_fields)
    answer = _classic_joins(driver, "bar", "foo", group_instance_id="i")
    group = driver.groups["g"]
    assert group.state is PREPARING
    member = group.members[answer.response.member_id]
    assert assigned(member.assignment) == {"foo": share}


@pytest.mark.fact("E20-02")
@pytest.mark.parametrize("policy", ["disabled", "bidirectional"])
def test_an_empty_group_can_restart_with_the_other_protocol(policy: str) -> None:
    driver = GroupDriver(
        settings=replace(AT_ONCE, group_consumer_migration_policy=policy)
    )
    (first,) = classic_group(driver, {"-a": {"foo": [0, 1, 2, 3, 4, 5]}})
    by_first: dict[str, Any] = {"member_id": first, "generation_id_or_member_epoch": 1}
    assert driver.commit({("foo", 1): 5}, **by_first) == {("foo", 1): 0}
    leave(driver, first)
    assert driver.join("m").error == ErrorCode.NONE
    driver.heartbeat("m", -1)
    (second,) = classic_group(driver, {"-a": {"foo": [0, 1, 2, 3, 4, 5]}})
    leave(driver, second)
    assert driver.join("m").error == ErrorCode.NONE
    assert driver.offsets({"foo": [1]}) == {("foo", 1): 5}
