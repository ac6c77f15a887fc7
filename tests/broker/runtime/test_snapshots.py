"""A restart from a snapshot restores the same state as replaying the whole log."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.snapshot import take_group
from coterie.broker.runtime import snapshots as snapshots_module
from coterie.broker.runtime.shards import Phase
from coterie.broker.runtime.snapshots import Snapshots, Snapshotter
from coterie.errors import LogError
from coterie.settings import Settings
from coterie.testing import invariants
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.broker.coordinator.shard_driver import whole
from tests.broker.runtime.world import (
    World,
    commit_request,
    join_request,
    txn_commit_request,
)


def steps_of(world: World, index: int = 0) -> Iterator[int]:
    driven = world.runtime.shards[index]
    changed = frozenset(driven.shard.changed)
    driven.shard.changed.clear()
    return Snapshots(world.log).write(driven, changed)


def write(world: World) -> None:
    for index in range(world.shard_count):
        list(steps_of(world, index))
    world.flusher.flush()


def states(world: World) -> list[Any]:
    return [driven.shard.state for driven in world.runtime.shards]


def counts_reads(world: World) -> list[int]:
    """Return a list that collects the offsets of later log reads."""
    offsets: list[int] = []
    read = world.log.read

    def noting(partition: Any, offset: int, bytes_max: int) -> Any:
        offsets.append(offset)
        return read(partition, offset, bytes_max)

    world.log.read = noting  # type: ignore[method-assign]
    return offsets


def test_records_before_a_snapshot_are_not_replayed() -> None:
    world = World(shard_count=1)
    for at in range(20):
        world.call(commit_request("g", at), "g")
    write(world)
    reopened = world.reopened(starts=False)
    offsets = counts_reads(reopened)
    reopened.start()
    reopened.loop.settle()
    assert offsets == []
    assert reopened.offset("g") == 19


def test_records_after_a_snapshot_are_replayed() -> None:
    world = World(shard_count=1)
    world.call(commit_request("g", 1), "g")
    write(world)
    world.call(commit_request("g", 2), "g")
    world.call(commit_request("h", 3), "h")
    reopened = world.reopened()
    assert (reopened.offset("g"), reopened.offset("h")) == (2, 3)


def test_offsets_are_loaded_when_they_are_first_fetched() -> None:
    world = World(shard_count=1)
    world.call(commit_request("g", 1), "g")
    write(world)
    reopened = world.reopened()
    spaces: list[str] = []
    get = reopened.log.get

    def noting(space: str, key: bytes) -> bytes | None:
        spaces.append(space)
        return get(space, key)

    reopened.log.get = noting  # type: ignore[method-assign]
    assert "g" in reopened.driven("g").shard.state.classic_groups
    assert spaces == []
    assert reopened.offset("g") == 1
    assert spaces == ["snapshot/0/offsets"]


def test_a_write_during_a_snapshot_is_not_lost() -> None:
    world = World(shard_count=1)
    for name in "abc":
        world.call(commit_request(name, 1), name)
    steps = steps_of(world)
    next(steps)
    for name in "abc":
        world.call(commit_request(name, 2), name)
    for _ in steps:
        pass
    world.flusher.flush()
    reopened = world.reopened()
    assert [reopened.offset(name) for name in "abc"] == [2, 2, 2]


def test_a_transaction_completed_during_a_snapshot_is_kept() -> None:
    world = World(shard_count=1)
    world.call(commit_request("a", 1), "a")
    world.call(txn_commit_request("b", 9), "b", 5)
    steps = steps_of(world)
    next(steps)
    world.runtime.end_transaction(0, 7, 0, True)
    world.loop.settle()
    for _ in steps:
        pass
    world.flusher.flush()
    assert world.reopened().offset("b") == 9


def test_a_deleted_group_is_removed_by_the_next_snapshot() -> None:
    world = World(shard_count=1)
    world.call(commit_request("g", 1), "g")
    write(world)
    assert world.call(DeleteGroup("g"), "g").error_code == 0
    write(world)
    reopened = world.reopened()
    assert reopened.driven("g").shard.state.classic_groups == {}
    assert list(reopened.log.items("snapshot/0/groups")) == []


def test_a_snapshot_whose_flush_fails_changes_nothing() -> None:
    world = World(shard_count=1)
    world.call(commit_request("g", 1), "g")
    world.submit(commit_request("g", 2), "g")
    for _ in steps_of(world):
        pass
    world.disk_fails = LogError("no")
    world.loop.settle()
    world.disk_fails = None
    assert world.offset("g") == 1
    assert world.reopened().offset("g") == 1


def test_a_snapshot_of_an_older_version_without_offsets_is_loaded() -> None:
    world = World(shard_count=1)
    world.submit(join_request("g"), "g", 3)
    world.loop.advance(4)
    write(world)
    [(key, value)] = world.log.items("snapshot/0/groups")
    old = value[:1] + struct.pack(">q", -1) + value[9:]
    world.log.put("snapshot/0/groups", key, old)
    world.flusher.flush()
    reopened = world.reopened()
    assert reopened.phases == {Phase.ACTIVE}
    assert "g" in states(reopened)[0].classic_groups


# Consumer groups.


def heartbeat(
    world: World, member_id: str, epoch: int, *partitions: int, joins: bool = False
) -> int:
    """Send a heartbeat of group "c" with owned partitions of t; return the epoch."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="c",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=10_000 if joins else -1,
        subscribed_topic_names=["t"] if joins else None,
        topic_partitions=[
            TopicPartitions(topic_id=b"t".ljust(16, b"\0"), partitions=[*partitions])
        ]
        if partitions
        else [],
    )
    answer = world.call(request, "c", 1)
    assert answer.error_code == 0, answer
    member_epoch: int = answer.member_epoch
    return member_epoch


def target_of(world: World) -> frozenset[int]:
    """Return the target partitions of member "m"."""
    [state] = states(world)
    [(_, kept)] = state.consumer_groups["c"].targets["m"].items()
    partitions: frozenset[int] = kept
    return partitions


def consumer_groups(world: World) -> list[Any]:
    return [whole(state) for state in states(world)]


@pytest.fixture
def sharing() -> World:
    """A group where "m" owns all of t, and half of t is assigned to "n" next."""
    settings = Settings(group_consumer_assignment_interval_ms=0)
    world = World(shard_count=1, settings=settings)
    world.call(commit_request("a", 1), "a")
    heartbeat(world, "m", 0, joins=True)
    heartbeat(world, "n", 0, joins=True)
    return world


@pytest.mark.fact("E22-46")
def test_a_consumer_group_is_loaded_from_a_snapshot(sharing: World) -> None:
    world = sharing
    assert heartbeat(world, "m", 1, *range(10)) == 1
    write(world)
    reopened = world.reopened(starts=False)
    offsets = counts_reads(reopened)
    reopened.start()
    reopened.loop.settle()
    assert offsets == []
    assert consumer_groups(reopened) == consumer_groups(world)
    invariants.check(states(reopened)[0])
    assert heartbeat(reopened, "m", 1, *target_of(reopened)) == 2


def test_older_records_do_not_replace_the_state_of_a_snapshot(sharing: World) -> None:
    # The snapshot of the group is newer than the offset where replay starts. At that
    # offset "m" still owns partitions that "n" owns in the snapshot.
    world = sharing
    steps = steps_of(world)
    next(steps)
    world.call(commit_request("a", 2), "a")
    assert heartbeat(world, "m", 1, *range(10)) == 1
    assert heartbeat(world, "m", 1, *target_of(world)) == 2
    assert heartbeat(world, "n", 2) == 2
    for _ in steps:
        pass
    world.flusher.flush()
    start = Snapshots(world.log).replay_from(0)
    assert start is not None
    assert start < world.log.bounds(world.driven("c").where).next_offset
    reopened = world.reopened()
    assert reopened.phases == {Phase.ACTIVE}
    assert consumer_groups(reopened) == consumer_groups(world)
    invariants.check(states(reopened)[0])
    assert (reopened.offset("a"), heartbeat(reopened, "n", 2)) == (2, 2)


def test_a_consumer_group_deleted_during_a_snapshot_stays_deleted(
    sharing: World,
) -> None:
    world = sharing
    write(world)
    heartbeat(world, "n", -1)
    steps = steps_of(world)
    heartbeat(world, "m", -1)
    assert world.call(DeleteGroup("c"), "c").error_code == 0
    for _ in steps:
        pass
    world.flusher.flush()
    reopened = world.reopened()
    assert reopened.phases == {Phase.ACTIVE}
    assert states(reopened)[0].consumer_groups == {}


GROUPS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), GROUPS, st.integers(0, 99)),
        st.tuples(st.just("transaction"), GROUPS, st.integers(7, 8)),
        st.tuples(st.just("end"), st.booleans(), st.integers(7, 8)),
        st.tuples(st.just("snapshot"), st.none(), st.integers(1, 5)),
    ),
    max_size=25,
)


@pytest.mark.slow
@given(STEPS)
def test_loading_a_snapshot_and_the_rest_of_the_log_equals_replaying_the_log(
    steps: list[tuple[str, Any, int]],
) -> None:
    world = World(shard_count=1)
    writing: Any = iter(())
    for what, which, number in steps:
        if what == "commit":
            world.call(commit_request(which, number), which)
        elif what == "transaction":
            world.call(txn_commit_request(which, number * 10, number), which, 5)
        elif what == "end":
            world.runtime.end_transaction(0, number, 0, which)
            world.loop.settle()
        else:  # continue the snapshot by a number of steps
            for _ in range(number):
                if next(writing, None) is None:
                    writing = steps_of(world)
            world.flusher.flush()
    assert states(world.reopened()) == states(world)


class Everything:
    """A snapshotter whose rounds the test starts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.snapshotter = Snapshotter(
            world.snapshots, world.flusher, world.runtime.shards, world.loop
        )


def test_a_round_starts_when_a_restart_would_replay_many_records(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(snapshots_module, "RECORDS_MIN", 100)
    world = World(shard_count=2)
    every = Everything(world)
    for at in range(300):
        world.call(commit_request(f"g{at % 7}", at), f"g{at % 7}")
        every.snapshotter.consider()
        world.loop.advance(0.001)
    world.loop.advance(1)
    assert sum(each.records_since_snapshot for each in world.runtime.shards) < 200
    reopened = world.reopened(starts=False)
    offsets = counts_reads(reopened)
    reopened.start()
    reopened.loop.settle()
    assert offsets
    assert min(offsets) > 0
    assert reopened.phases == {Phase.ACTIVE}


def test_groups_of_a_failed_round_are_written_by_the_next_round(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(snapshots_module, "RECORDS_MIN", 1)
    world = World(shard_count=1)
    every = Everything(world)
    world.call(commit_request("g", 1), "g")
    for _ in range(64):
        every.snapshotter.consider()
    world.disk_fails = LogError("full")
    world.loop.advance(1)
    assert world.driven("g").phase is Phase.ACTIVE
    assert "g" in world.driven("g").shard.changed
    world.disk_fails = None
    world.call(commit_request("h", 2), "h")
    every.snapshotter.write_all()
    world.flusher.flush()
    reopened = world.reopened()
    assert (reopened.offset("g"), reopened.offset("h")) == (1, 2)


def test_replay_from_is_the_first_offset_after_the_snapshot() -> None:
    world = World(shard_count=1)
    snapshots = Snapshots(world.log)
    assert snapshots.replay_from(0) is None
    world.call(commit_request("g", 1), "g")
    write(world)
    assert snapshots.replay_from(0) == 1


def test_write_all_leaves_no_record_to_replay() -> None:
    world = World(shard_count=3)
    for at in range(30):
        world.call(commit_request(f"g{at}", at), f"g{at}")
    Everything(world).snapshotter.write_all()
    world.flusher.flush()
    reopened = world.reopened(starts=False)
    offsets = counts_reads(reopened)
    reopened.start()
    reopened.loop.settle()
    assert offsets == []
    assert [reopened.offset(f"g{at}") for at in range(30)] == list(range(30))


def test_a_bug_in_one_shards_snapshot_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshots_module, "RECORDS_MIN", 1)
    world = World(shard_count=2)
    names = {world.driven(f"g{at}").index: f"g{at}" for at in range(20)}
    for name in names.values():
        world.call(commit_request(name, 1), name)
    every = Everything(world)

    def take_or_bug(state: Any, group_id: str, as_of: int) -> Any:
        assert group_id != names[0], "a bug"
        return take_group(state, group_id, as_of)

    with monkeypatch.context() as patched:
        patched.setattr(snapshots_module, "take_group", take_or_bug)
        for _ in range(64):
            every.snapshotter.consider()
        world.loop.advance(1)
    assert [world.snapshots.replay_from(index) for index in range(2)] == [None, 1]
    assert caplog.text.count("a bug in writing a snapshot") == 1
    every.snapshotter.write_all()
    world.flusher.flush()
    assert world.snapshots.replay_from(0) == 1
