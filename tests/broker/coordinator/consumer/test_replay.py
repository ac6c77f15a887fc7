"""Replay of a consumer group's records, and errors for inconsistent records (E22.4)."""

from __future__ import annotations

from itertools import permutations

import pytest

from coterie.broker.coordinator.classic.group_metadata import empty_record
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
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.state import State
from coterie.settings import Settings
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


@pytest.mark.bug("KAFKA-21102")
@pytest.mark.parametrize("last", ["member", "target epoch", "epoch"])
def test_a_tombstone_removes_what_belongs_to_its_object(
    state: State, last: str
) -> None:
    """Compaction may have removed the tombstones before it."""
    for name in ("member", "epoch", "target", "target epoch", "current"):
        replay(state, VALUES[name])
    with pytest.raises(AssertionError, match="has"):
        replay(state, Record(VALUES[last].key, None))
    state.is_loading = True
    replay(state, Record(VALUES[last].key, None))
    group = state.consumer_groups.get("g")
    assert group is None or not group.targets
    assert group is None or last != "member" or group.owner_epoch(FOO, 0) == -1
    assert (group is None) is (last == "epoch")
    assert group is not None or not len(state.topic_index)


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


@pytest.mark.bug("KAFKA-21117")
def test_a_record_ends_the_group_of_the_other_protocol() -> None:
    """Compaction may have removed the tombstones of the group that ended."""
    shard = Shard(Settings())
    shard.begin_load()
    classic = empty_record("g", protocol_type="consumer", generation=3, at_ms=7)
    for records, types in (
        ([classic, VALUES["member"]], (0, 1)),
        ([classic], (1, 0)),
    ):
        for at, record in enumerate(records):
            shard.replay(record, Origin(at, 1))
        found = len(shard.state.classic_groups), len(shard.state.consumer_groups)
        assert found == types


@pytest.mark.fact("H-51", "E2-06b")
def test_replaying_a_second_owner_of_a_partition_fails(state: State) -> None:
    replay(state, VALUES["current"])
    other = AT_ONE._replace(member_id="n")
    with pytest.raises(AssertionError, match="still owned"):
        replay(state, current_record("g", other))


@pytest.mark.bug("KAFKA-19862")
def test_two_members_may_own_a_partition_while_a_log_is_loaded() -> None:
    """Compaction has removed the record by which the first one revoked it."""
    shard = Shard(Settings())
    shard.begin_load()
    other = AT_ONE._replace(member_id="n", epoch=2, assigned={FOO: {0: 2}})
    revoked = AT_ONE._replace(epoch=2, assigned={})
    for at, record in enumerate(
        [
            target_epoch_record("g", 2, 5),
            *(member_record("g", each) for each in (AT_ONE, other)),
            *(current_record("g", each) for each in (AT_ONE, other, revoked)),
        ]
    ):
        shard.replay(record, Origin(at, 1))
    group = shard.state.consumer_groups["g"]
    group.end_load()
    assert group.owner_epoch(FOO, 0) == 2


@pytest.mark.bug("KAFKA-19862")
def test_a_loaded_group_with_two_owners_of_a_partition_fails() -> None:
    shard = Shard(Settings())
    shard.begin_load()
    for at, member in enumerate((AT_ONE, AT_ONE._replace(member_id="n", epoch=2))):
        shard.replay(current_record("g", member), Origin(at, 1))
    with pytest.raises(AssertionError, match="still owned"):
        shard.state.consumer_groups["g"].end_load()


@pytest.mark.parametrize(
    ("before", "record", "message"),
    [
        (epoch_record("g", 2, 0), epoch_record("g", 1, 0), "epoch decreases"),
        (
            target_epoch_record("g", 2, 0),
            target_epoch_record("g", 1, 0),
            "epoch decreases",
        ),
    ],
)
def test_an_epoch_decreases_only_while_a_log_is_loaded(
    state: State, before: Record, record: Record, message: str
) -> None:
    replay(state, before)
    with pytest.raises(AssertionError, match=message):
        replay(state, record)
    state.is_loading = True
    replay(state, record)


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
