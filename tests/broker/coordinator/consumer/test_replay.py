"""Replay of a consumer group's records, and errors for inconsistent records (E22.4)."""

from __future__ import annotations

from itertools import permutations

import pytest

from coterie.broker.coordinator.classic.group import ClassicGroup
from coterie.broker.coordinator.consumer.group import UNASSIGNED, ResolvedRegex
from coterie.broker.coordinator.consumer.member import (
    ClassicMemberInfo,
    Member,
    MemberState,
)
from coterie.broker.coordinator.consumer.record_builders import (
    current_record,
    epoch_record,
    group_records,
    group_tombstones,
    member_record,
    member_tombstones,
    regex_record,
    target_epoch_record,
    target_record,
)
from coterie.broker.coordinator.consumer.replay import replay
from coterie.broker.coordinator.offsets.replay import replay as replay_offset
from coterie.broker.coordinator.records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.broker.coordinator.result import Origin, Record
from coterie.broker.coordinator.state import State
from sim.invariants import check
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.requests import topic_id

FOO = topic_id("foo")
MEMBER = Member(member_id="m", topic_names=("foo",), rebalance_timeout_ms=1_000)
AT_ONE = MEMBER._replace(epoch=1, assigned={FOO: {0: 1}})
VALUES = {
    "member": member_record("g", MEMBER),
    "epoch": epoch_record("g", 1, 7),
    "target": target_record("g", "m", {FOO: frozenset({0})}),
    "target epoch": target_epoch_record("g", 1, 5),
    "current": current_record("g", AT_ONE),
    "regex": regex_record("g", "f.*", ResolvedRegex(("foo",), 1, 2)),
    "old metadata": Record(
        ConsumerGroupPartitionMetadataKey(group_id="g"),
        ConsumerGroupPartitionMetadataValue(),
    ),
}
NO_METADATA = Record(ConsumerGroupPartitionMetadataKey(group_id="g"), None)


@pytest.fixture
def state() -> State:
    return State()


@pytest.mark.fact("E22-40a", "H-152")
@pytest.mark.parametrize("first", VALUES)
def test_any_first_record_creates_the_group(state: State, first: str) -> None:
    assert replay(state, VALUES[first]) == "g"
    assert state.consumer_groups.keys() == {"g"}


@pytest.mark.fact("E22-40a", "E22-40b", "E22-40c", "H-152")
def test_replay_does_not_depend_on_the_order_of_compacted_records(state: State) -> None:
    expected = None
    for order in permutations(["member", "epoch", "target", "target epoch", "current"]):
        state = State()
        for name in order:
            replay(state, VALUES[name])
        check(state)
        found = sorted(map(repr, group_records(state.consumer_groups["g"])))
        assert found == (expected := expected or found)


@pytest.mark.fact("E22-40b")
def test_a_current_assignment_may_precede_its_member_record(state: State) -> None:
    replay(state, VALUES["current"])
    assert state.consumer_groups["g"].owner_epoch(FOO, 0) == 1
    replay(state, VALUES["member"])
    member = state.consumer_groups["g"].members["m"]
    assert (member.epoch, member.topic_names) == (1, ("foo",))


def test_the_last_record_of_a_classic_member_has_its_subscription(
    state: State,
) -> None:
    first = MEMBER._replace(
        rebalance_timeout_ms=2_000,
        classic=ClassicMemberInfo(
            session_timeout_ms=5_000, protocols=(("range", b"foo"),)
        ),
    )
    second = first._replace(
        topic_names=("bar", "baz"),
        rebalance_timeout_ms=3_000,
        classic=ClassicMemberInfo(
            session_timeout_ms=6_000, protocols=(("range", b"bar"), ("sticky", b"baz"))
        ),
    )
    replay(state, member_record("g", first))
    assert state.consumer_groups["g"].members["m"] == first
    replay(state, member_record("g", second))
    group = state.consumer_groups["g"]
    assert group.members["m"] == second
    assert group.topic_counts == {"bar": 1, "baz": 1}
    assert group.classic_protocols == {"range": 1, "sticky": 1}
    check(state)


@pytest.mark.fact("E22-41a", "E22-41b", "H-150")
def test_a_tombstone_of_an_unknown_member_is_ignored(state: State) -> None:
    driver = GroupDriver()
    driver.join("m")
    for record in group_tombstones(driver.group):
        assert replay(state, record) == "g"
    assert not state.consumer_groups
    replay(state, VALUES["epoch"])
    for record in member_tombstones("g", "nobody"):
        replay(state, record)
    assert not state.consumer_groups["g"].members


@pytest.mark.fact("E22-42a", "E22-42b")
def test_a_member_tombstone_must_follow_the_tombstones_of_its_assignments(
    state: State,
) -> None:
    for name in ("member", "target", "current"):
        replay(state, VALUES[name])
    current, target, member = member_tombstones("g", "m")
    with pytest.raises(AssertionError, match="assignment"):
        replay(state, member)
    replay(state, current)
    with pytest.raises(AssertionError, match="target"):
        replay(state, member)
    replay(state, target)
    replay(state, member)
    assert not state.consumer_groups["g"].members
    check(state)


@pytest.mark.fact("E22-43a", "H-151")
def test_a_group_tombstone_must_follow_the_tombstones_of_its_members() -> None:
    driver = GroupDriver()
    driver.join("m")
    state, tombstones = driver.state, group_tombstones(driver.group)
    with pytest.raises(AssertionError, match="members"):
        replay(state, tombstones[-1])
    for record in tombstones:
        replay(state, record)
    assert not state.consumer_groups
    assert not len(state.topic_index)


@pytest.mark.fact("E22-43b")
def test_a_group_with_a_target_epoch_cannot_be_removed(state: State) -> None:
    replay(state, VALUES["target epoch"])
    gone = Record(VALUES["epoch"].key, None)
    with pytest.raises(AssertionError, match="target epoch"):
        replay(state, gone)


@pytest.mark.fact("E22-43c")
def test_the_target_epoch_of_a_group_with_targets_cannot_be_removed(
    state: State,
) -> None:
    for name in ("target", "target epoch"):
        replay(state, VALUES[name])
    gone = Record(VALUES["target epoch"].key, None)
    with pytest.raises(AssertionError, match="has targets"):
        replay(state, gone)


@pytest.mark.fact("E22-44a", "E22-44b")
def test_each_tombstone_removes_only_the_state_of_its_record(state: State) -> None:
    for name in ("member", "epoch", "target epoch", "current"):
        replay(state, VALUES[name])
    replay(state, Record(VALUES["current"].key, None))
    replay(state, Record(VALUES["target epoch"].key, None))
    group = state.consumer_groups["g"]
    member = group.members["m"]
    assert (member.epoch, member.state) == (-1, MemberState.STABLE)
    assert not member.assigned
    assert group.owner_epoch(FOO, 0) == -1
    assert group.assignment_epoch == UNASSIGNED


@pytest.mark.fact("E22-44c")
def test_partition_metadata_records_of_older_kafka_are_decoded_and_ignored(
    state: State,
) -> None:
    replay(state, VALUES["epoch"])
    before = group_records(state.consumer_groups["g"])
    replay(state, VALUES["old metadata"])
    replay(state, NO_METADATA)
    assert group_records(state.consumer_groups["g"]) == before


@pytest.mark.fact("E22-45a", "H-153")
def test_a_group_with_only_offsets_becomes_a_consumer_group(state: State) -> None:
    key = OffsetCommitKey(group="g", topic="foo", partition=0)
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    replay_offset(state, key, value, Origin(0, 1))
    assert "g" in state.classic_groups
    replay(state, VALUES["member"])
    assert "g" not in state.classic_groups
    committed = state.offsets.stored.get("g", "foo", 0)
    assert committed is not None
    assert committed.offset == 5


@pytest.mark.fact("E22-45b")
def test_replaying_a_consumer_member_into_a_classic_group_fails(state: State) -> None:
    group = ClassicGroup("g", protocol_type="consumer")
    state.classic_groups["g"] = group
    with pytest.raises(AssertionError, match="classic"):
        replay(state, VALUES["member"])


@pytest.mark.fact("H-51", "E2-06b")
def test_replaying_a_second_owner_of_a_partition_fails(state: State) -> None:
    replay(state, VALUES["current"])
    other = AT_ONE._replace(member_id="n")
    with pytest.raises(AssertionError, match="still owned"):
        replay(state, current_record("g", other))


def test_replaying_a_decreasing_epoch_fails(state: State) -> None:
    replay(state, epoch_record("g", 2, 0))
    with pytest.raises(AssertionError, match="decreases"):
        replay(state, epoch_record("g", 1, 0))
    replay(state, target_epoch_record("g", 2, 0))
    with pytest.raises(AssertionError, match="decreases"):
        replay(state, target_epoch_record("g", 1, 0))


def test_partitions_without_assignment_epochs_get_the_member_epoch(
    state: State,
) -> None:
    record = VALUES["current"]
    value = record.value
    assert value is not None
    for topic in value.assigned_partitions:  # type: ignore[attr-defined]
        topic.assignment_epochs = None
    replay(state, record)
    assert state.consumer_groups["g"].members["m"].assigned == {FOO: {0: 1}}
    for topic in value.assigned_partitions:  # type: ignore[attr-defined]
        topic.assignment_epochs = [1]
