"""Lag, plans, writes and undo of share groups and streams groups."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.groups import (
    GroupState,
    GroupType,
    MemberDescription,
    Subtopology,
    Topology,
)
from coterie.client.admin.share_groups import ShareOffset
from coterie.errors import ApiError, UnsupportedGroupType
from coterie.operations.apply import apply_items, check_items
from coterie.operations.expiry import ExpiryClock, expiry_clock
from coterie.operations.lag import LagStatus, group_lag, with_time_lags
from coterie.operations.plan_files import Action, Verdict
from coterie.operations.plans import (
    GroupPlan,
    items_of,
    plan_clone,
    plan_delete_groups,
    plan_delete_offsets,
    plan_offsets,
    plan_remove_members,
)
from coterie.operations.resets import ToEarliest, ToExact
from coterie.operations.selection import TopicSelector
from coterie.operations.undo import plan_undo
from coterie.types import TopicPartition
from tests.operations.fake_admin import FakeLog, group, member
from tests.operations.share_cluster import ShareCluster
from tests.operations.small_cluster import MemorySnapshot

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def cluster() -> ShareCluster:
    """A cluster with a share group, and a log of 10 records a partition."""
    made = ShareCluster(known_logs={at: FakeLog.of(0, 10) for at in (A0, A1, B0)})
    starts = {A0: ShareOffset(4, 1, 3), A1: None, B0: ShareOffset(7, 2, None)}
    made.add_share_group("s", dict(starts))
    return made


def apply(cluster: ShareCluster, *plans: GroupPlan) -> MemorySnapshot:
    """Apply plans, which must succeed; return the snapshot."""
    snapshot = MemorySnapshot()
    results = asyncio.run(apply_items(cluster, items_of(plans), snapshot))
    assert [each.verdict for each in results] == [Verdict.DONE] * len(plans)
    return snapshot


def starts_of(cluster: ShareCluster, group_id: str = "s") -> dict[TopicPartition, int]:
    found = cluster.starts[group_id]
    return {at: each.start for at, each in sorted(found.items()) if each}


def test_the_lag_of_a_share_group_is_the_brokers(cluster: ShareCluster) -> None:
    report = asyncio.run(group_lag(cluster, ["s"]))
    assert not report.errors
    lags = {each.topic_partition: each for each in report.rows}
    assert (lags[A0].lag, lags[A0].lag_raw) == (3, 6)
    assert lags[A0].committed == CommittedOffset(4, 1)
    assert lags[A0].lag_status is LagStatus.NORMAL
    assert (lags[A1].lag, lags[A1].lag_status) == (None, LagStatus.NO_COMMIT)
    assert (lags[B0].lag, lags[B0].lag_status) == (None, LagStatus.UNKNOWN)
    assert report.groups[0].total == 3


def test_the_time_lag_of_a_share_group_is_that_of_its_first_record(
    cluster: ShareCluster,
) -> None:
    async def measure() -> int | None:
        report = await group_lag(cluster, ["s"], topics={"a"})
        timed = await with_time_lags(cluster, report, now_ms=10_000)
        return timed.rows[0].time_lag_ms

    # The record at the start offset 4, not the one at the end minus the lag.
    assert asyncio.run(measure()) == 6_000


def test_a_share_group_is_read_only_when_there_is_one(cluster: ShareCluster) -> None:
    cluster.add(group("c", member("m", ("a", 0))), a=5)
    asyncio.run(group_lag(cluster, ["c"]))
    assert "list_share_groups_offsets" not in cluster.calls
    report = asyncio.run(group_lag(cluster, ["c", "s"]))
    assert not report.errors
    assert cluster.calls.count("list_share_groups_offsets") == 1


def test_members_of_a_share_group_own_no_partition(cluster: ShareCluster) -> None:
    sharing = [member("m", ("a", 0)), member("n", ("a", 0))]
    described = cluster.known_groups["s"]
    cluster.known_groups["s"] = replace(described, members=tuple(sharing))
    report = asyncio.run(group_lag(cluster, ["s"]))
    assert [each.member_id for each in report.rows] == [None] * 3


def test_a_task_without_a_partition_of_a_topic_has_no_row() -> None:
    cluster = ShareCluster(known_logs={A0: FakeLog.of(0, 10), A1: FakeLog.of(0, 10)})
    b1 = TopicPartition("b", 1)
    owner = MemberDescription("m", "c", "/h", (A0, A1, b1))
    kind = GroupType.STREAMS
    cluster.add(group("k", owner, type=kind, protocol_type="streams"), a=5)
    report = asyncio.run(group_lag(cluster, ["k"]))
    assert [each.topic_partition for each in report.rows] == [A0, A1]


def test_start_offsets_are_reset_and_restored(cluster: ShareCluster) -> None:
    scenarios = {"s": ToEarliest()}
    plans = asyncio.run(plan_offsets(cluster, Action.RESET, scenarios))
    snapshot = apply(cluster, *plans)
    assert starts_of(cluster) == {A0: 0, B0: 0}
    apply(cluster, *asyncio.run(plan_undo(cluster, snapshot.content)))
    assert starts_of(cluster) == {A0: 4, B0: 7}


def test_an_applied_reset_of_a_share_group_is_done(cluster: ShareCluster) -> None:
    wanted = ToExact({A0: 5}, "metadata")
    (plan,) = asyncio.run(plan_offsets(cluster, Action.SET, {"s": wanted}))
    assert plan.item is not None
    assert plan.item.wanted == {A0: CommittedOffset(5)}
    apply(cluster, plan)
    (again,) = asyncio.run(check_items(cluster, [plan.item]))
    assert again.verdict is Verdict.ALREADY


def test_a_new_start_offset_is_undone_without_loss_of_its_topic(
    cluster: ShareCluster,
) -> None:
    wanted = ToExact({A1: 1})
    plans = asyncio.run(plan_offsets(cluster, Action.SET, {"s": wanted}))
    snapshot = apply(cluster, *plans)
    assert starts_of(cluster) == {A0: 4, A1: 1, B0: 7}
    apply(cluster, *asyncio.run(plan_undo(cluster, snapshot.content)))
    assert starts_of(cluster) == {A0: 4, B0: 7}


def test_offsets_of_a_share_group_are_deleted_by_topic(cluster: ShareCluster) -> None:
    cluster.starts["s"][A1] = ShareOffset(1)
    some = asyncio.run(plan_delete_offsets(cluster, ["s"], (TopicSelector("a", (0,)),)))
    assert isinstance(some[0].error, UnsupportedGroupType)
    assert "--partitions a" in str(some[0].error)
    whole = asyncio.run(plan_delete_offsets(cluster, ["s"], (TopicSelector("a"),)))
    apply(cluster, *whole)
    assert starts_of(cluster) == {B0: 7}


def test_offsets_of_a_share_group_with_members_are_not_deleted(
    cluster: ShareCluster,
) -> None:
    cluster.add_share_group("live", {A0: ShareOffset(1)}, GroupState.STABLE)
    (plan,) = asyncio.run(plan_delete_offsets(cluster, ["live"], (TopicSelector("a"),)))
    assert isinstance(plan.error, ApiError)
    assert str(plan.error).endswith("stop them first")


def test_a_deleted_share_group_is_created_again_by_undo(cluster: ShareCluster) -> None:
    snapshot = apply(cluster, *asyncio.run(plan_delete_groups(cluster, ["s"])))
    assert "s" not in cluster.known_groups
    apply(cluster, *asyncio.run(plan_undo(cluster, snapshot.content)))
    assert cluster.known_groups["s"].type is GroupType.SHARE
    assert starts_of(cluster) == {A0: 4, B0: 7}


def test_a_clone_of_a_share_group_is_a_share_group(cluster: ShareCluster) -> None:
    plan = asyncio.run(plan_clone(cluster, "s", "copy"))
    snapshot = apply(cluster, plan)
    assert cluster.known_groups["copy"].type is GroupType.SHARE
    assert starts_of(cluster, "copy") == {A0: 4, B0: 7}
    apply(cluster, *asyncio.run(plan_undo(cluster, snapshot.content)))
    assert "copy" not in cluster.known_groups


@pytest.mark.parametrize("kind", [GroupType.SHARE, GroupType.STREAMS])
def test_members_of_share_and_streams_groups_are_not_removed(kind: GroupType) -> None:
    cluster = ShareCluster()
    cluster.add(group("g", member("m"), type=kind, protocol_type=kind.value))
    if kind is GroupType.SHARE:
        cluster.starts["g"] = {}
    plan = asyncio.run(plan_remove_members(cluster, "g", None))
    assert isinstance(plan.error, UnsupportedGroupType)
    assert f"g is a {kind.value} group" in str(plan.error)


def test_offsets_of_a_streams_group_expire_like_those_of_consumer_groups() -> None:
    described = replace(
        group("k", member("m"), type=GroupType.STREAMS, protocol_type="streams"),
        topology=Topology(1, (Subtopology("0", ("a",), ("r",)),)),
    )
    assert expiry_clock(described, "a") is ExpiryClock.STOPPED
    assert expiry_clock(described, "r") is ExpiryClock.STOPPED
    assert expiry_clock(described, "b") is ExpiryClock.SINCE_COMMIT
    empty = replace(described, state=GroupState.EMPTY, members=())
    assert expiry_clock(empty, "a") is ExpiryClock.SINCE_COMMIT


def test_offsets_of_share_groups_do_not_expire(cluster: ShareCluster) -> None:
    assert expiry_clock(cluster.known_groups["s"], "a") is None
