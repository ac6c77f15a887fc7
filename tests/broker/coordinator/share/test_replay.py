"""Replay of the records of share groups that compaction has separated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coterie.broker.coordinator.records import GroupMetadataKey, GroupMetadataValue
from coterie.broker.coordinator.result import Origin, Record
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.share.group import (
    PartitionStates,
    ShareMember,
    ShareTopic,
)
from coterie.broker.coordinator.share.record_builders import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    partitions_record,
    target_epoch_record,
    target_record,
)
from sim import invariants
from tests.broker.coordinator.requests import topic_id
from tests.broker.coordinator.shard_driver import SETTINGS
from tests.broker.coordinator.share.share_groups import ShareDriver

FOO = topic_id("foo")
MEMBER = ShareMember("m", topic_names=("foo",), epoch=2, assigned={FOO: frozenset({0})})
VALUES = {
    "member": member_record("s", MEMBER),
    "epoch": epoch_record("s", 2, 7),
    "target": target_record("s", "m", {FOO: frozenset({0})}),
    "target epoch": target_epoch_record("s", 2, 5),
    "current": current_record("s", MEMBER),
    "partitions": partitions_record(
        "s", PartitionStates(initialized={FOO: ShareTopic("foo", frozenset({0}))})
    ),
}
CLASSIC = Record(
    GroupMetadataKey(group="s"),
    GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader=None
    ),
    3,
)


def loading() -> Shard:
    shard = Shard(SETTINGS)
    shard.state.is_loading = True
    return shard


def replay(shard: Shard, *records: Record) -> None:
    for offset, record in enumerate(records):
        shard.replay(record, Origin(offset, 1_000))


def tombstones() -> Sequence[Record]:
    driver = ShareDriver()
    driver.join()
    driver.beat(epoch=-1)
    return group_tombstones(driver.group)


@pytest.mark.fact("SG-167")
@pytest.mark.parametrize("name", VALUES)
def test_any_first_record_creates_the_group(name: str) -> None:
    shard = loading()
    replay(shard, VALUES[name])
    assert [*shard.state.share_groups] == ["s"]


@pytest.mark.fact("SG-168")
def test_tombstones_of_an_unknown_group_are_ignored() -> None:
    shard = Shard(SETTINGS)
    replay(shard, *member_tombstones("s", "m"), *tombstones())
    assert shard.state.share_groups == {}


def test_tombstones_of_an_unknown_member_are_ignored() -> None:
    shard = Shard(SETTINGS)
    replay(shard, VALUES["epoch"], *member_tombstones("s", "m"))
    assert shard.state.share_groups["s"].members == {}


@pytest.mark.fact("SG-167")
@pytest.mark.parametrize("count", [1, 2])
def test_tombstones_that_miss_others_are_accepted_only_while_a_log_is_loaded(
    count: int,
) -> None:
    # The tombstones of a member without the first one, or of a group without its
    # members'.
    last = (member_tombstones("s", "m")[2], tombstones()[-1])[count - 1]
    shard = Shard(SETTINGS)
    replay(shard, *VALUES.values())
    with pytest.raises(AssertionError):
        replay(shard, last)
    shard.state.is_loading = True
    replay(shard, last)
    invariants.check(shard.state)
    groups = shard.state.share_groups
    assert ("m" not in groups["s"].members) if count == 1 else not groups


@pytest.mark.parametrize("is_share_last", [True, False])
def test_a_record_of_another_type_ends_a_group_while_a_log_is_loaded(
    is_share_last: bool,
) -> None:
    driver = ShareDriver(group_id="s")
    driver.heartbeat(
        "m",
        0,
        rebalance_timeout_ms=1_000,
        owned={},
        subscribed_topic_names=["foo"],
    )
    of_consumer_group = driver.written
    for others in (of_consumer_group, (CLASSIC,)):
        first, second = [*others], [*VALUES.values()]
        if not is_share_last:
            first, second = second, first
        shard = loading()
        replay(shard, *first)
        if others is of_consumer_group or not is_share_last:
            shard.state.is_loading = False
            with pytest.raises(AssertionError):
                replay(shard, *second)
            shard = loading()
            replay(shard, *first)
        replay(shard, *second)
        assert (shard.state.offset_group("s") is None) is is_share_last
        assert bool(shard.state.share_groups) is is_share_last


def test_an_epoch_decreases_only_while_a_log_is_loaded() -> None:
    shard = Shard(SETTINGS)
    replay(shard, epoch_record("s", 5, 0))
    with pytest.raises(AssertionError):
        replay(shard, epoch_record("s", 4, 0))
    shard.state.is_loading = True
    replay(shard, epoch_record("s", 4, 0))
