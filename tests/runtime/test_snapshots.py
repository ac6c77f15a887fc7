"""A restart from a snapshot and the tail is a restart from the whole log."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator import invariants
from coterie.coordinator.describe.delete_groups import DeleteGroup
from coterie.errors import LogError
from coterie.runtime import snapshotter
from coterie.runtime.shards import Phase
from coterie.runtime.snapshots import Snapshots
from coterie.runtime.snapshotter import Snapshotter
from coterie.settings import Settings
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.coordinator.shard_driver import whole
from tests.runtime.world import World, commit_request, join_request, txn_commit_request


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
    """The offsets that the log is read from, from now on."""
    offsets: list[int] = []
    read = world.log.read

    def noting(partition: Any, offset: int, bytes_max: int) -> Any:
        offsets.append(offset)
        return read(partition, offset, bytes_max)

    world.log.read = noting  # type: ignore[method-assign]
    return offsets


def test_after_a_snapshot_nothing_before_it_is_replayed() -> None:
    world = World(shard_count=1)
    for at in range(20):
        world.ask(commit_request("g", at), "g")
    write(world)
    reopened = world.reopened(starts=False)
    offsets = counts_reads(reopened)
    reopened.start()
    reopened.loop.settle()
    assert offsets == []
    assert reopened.offset("g") == 19


def test_the_tail_after_a_snapshot_is_replayed() -> None:
    world = World(shard_count=1)
    world.ask(commit_request("g", 1), "g")
    write(world)
    world.ask(commit_request("g", 2), "g")
    world.ask(commit_request("h", 3), "h")
    reopened = world.reopened()
    assert (reopened.offset("g"), reopened.offset("h")) == (2, 3)


def test_offsets_are_read_when_their_group_is_first_looked_at() -> None:
    world = World(shard_count=1)
    world.ask(commit_request("g", 1), "g")
    write(world)
    reopened = world.reopened()
    asked: list[str] = []
    get = reopened.log.get

    def noting(space: str, key: bytes) -> bytes | None:
        asked.append(space)
        return get(space, key)

    reopened.log.get = noting  # type: ignore[method-assign]
    assert "g" in reopened.driven("g").shard.state.classic_groups
    assert asked == []
    assert reopened.offset("g") == 1
    assert asked == ["snapshot/0/offsets"]


def test_a_snapshot_begun_before_a_write_and_ended_after_it_loses_nothing() -> None:
    world = World(shard_count=1)
    for name in "abc":
        world.ask(commit_request(name, 1), name)
    steps = steps_of(world)
    next(steps)
    for name in "abc":
        world.ask(commit_request(name, 2), name)
    for _ in steps:
        pass
    world.flusher.flush()
    reopened = world.reopened()
    assert [reopened.offset(name) for name in "abc"] == [2, 2, 2]


def test_a_transaction_that_ends_while_a_snapshot_is_written_is_kept() -> None:
    world = World(shard_count=1)
    world.ask(commit_request("a", 1), "a")
    world.ask(txn_commit_request("b", 9), "b", 5)
    steps = steps_of(world)
    next(steps)
    world.runtime.end_transaction(0, 7, 0, True)
    world.loop.settle()
    for _ in steps:
        pass
    world.flusher.flush()
    assert world.reopened().offset("b") == 9


def test_a_deleted_group_is_gone_from_the_next_snapshot() -> None:
    world = World(shard_count=1)
    world.ask(commit_request("g", 1), "g")
    write(world)
    assert world.ask(DeleteGroup("g"), "g").error_code == 0
    write(world)
    reopened = world.reopened()
    assert reopened.driven("g").shard.state.classic_groups == {}
    assert list(reopened.log.items("snapshot/0/groups")) == []


def test_a_snapshot_whose_flush_fails_is_as_if_it_had_never_been() -> None:
    world = World(shard_count=1)
    world.ask(commit_request("g", 1), "g")
    world.submit(commit_request("g", 2), "g")
    for _ in steps_of(world):
        pass
    world.disk_fails = LogError("no")
    world.loop.settle()
    world.disk_fails = None
    assert world.offset("g") == 1
    assert world.reopened().offset("g") == 1


def test_a_snapshot_that_does_not_say_up_to_where_it_goes_is_read() -> None:
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


def beat(
    world: World, member_id: str, epoch: int, *partitions: int, joins: bool = False
) -> int:
    """A heartbeat to group "c" that says what is owned of t; the epoch it is told."""
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
    answer = world.ask(request, "c", 1)
    assert answer.error_code == 0, answer
    told: int = answer.member_epoch
    return told


def kept_of(world: World) -> frozenset[int]:
    """The partitions of t that "m" shall keep."""
    [state] = states(world)
    [(_, kept)] = state.consumer_groups["c"].targets["m"].items()
    partitions: frozenset[int] = kept
    return partitions


def consumer_groups(world: World) -> list[Any]:
    return [whole(state) for state in states(world)]


@pytest.fixture
def sharing() -> World:
    """Member "m" has all of t, and "n" shall have half of it."""
    settings = Settings(group_consumer_assignment_interval_ms=0)
    world = World(shard_count=1, settings=settings)
    world.ask(commit_request("a", 1), "a")
    beat(world, "m", 0, joins=True)
    beat(world, "n", 0, joins=True)
    return world


@pytest.mark.fact("E22-46")
def test_a_consumer_group_is_taken_over_from_a_snapshot(sharing: World) -> None:
    world = sharing
    assert beat(world, "m", 1, *range(10)) == 1
    write(world)
    reopened = world.reopened(starts=False)
    offsets = counts_reads(reopened)
    reopened.start()
    reopened.loop.settle()
    assert offsets == []
    assert consumer_groups(reopened) == consumer_groups(world)
    invariants.check(states(reopened)[0])
    assert beat(reopened, "m", 1, *kept_of(reopened)) == 2


def test_a_consumer_group_does_not_go_back_in_time(sharing: World) -> None:
    """What the snapshot has of the group is newer than where the log is replayed from:
    there "m" has yet to revoke what "n" has by now."""
    world = sharing
    steps = steps_of(world)
    next(steps)
    world.ask(commit_request("a", 2), "a")
    assert beat(world, "m", 1, *range(10)) == 1
    assert beat(world, "m", 1, *kept_of(world)) == 2
    assert beat(world, "n", 2) == 2
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
    assert (reopened.offset("a"), beat(reopened, "n", 2)) == (2, 2)


def test_a_consumer_group_that_was_deleted_meanwhile_stays_so(sharing: World) -> None:
    world = sharing
    write(world)
    beat(world, "n", -1)
    steps = steps_of(world)
    beat(world, "m", -1)
    assert world.ask(DeleteGroup("c"), "c").error_code == 0
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
def test_snapshot_and_tail_are_the_whole_log(
    steps: list[tuple[str, Any, int]],
) -> None:
    world = World(shard_count=1)
    writing: Any = iter(())
    for what, which, number in steps:
        if what == "commit":
            world.ask(commit_request(which, number), which)
        elif what == "transaction":
            world.ask(txn_commit_request(which, number * 10, number), which, 5)
        elif what == "end":
            world.runtime.end_transaction(0, number, 0, which)
            world.loop.settle()
        else:  # some steps of a snapshot; the rest comes with the next
            for _ in range(number):
                if next(writing, None) is None:
                    writing = steps_of(world)
            world.flusher.flush()
    assert states(world.reopened()) == states(world)


class Everything:
    """Drives a snapshotter by hand."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.snapshotter = Snapshotter(
            world.snapshots, world.flusher, world.runtime.shards, world.loop
        )


def test_a_round_is_written_when_a_restart_would_have_much_to_replay(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(snapshotter, "RECORDS_MIN", 100)
    world = World(shard_count=2)
    every = Everything(world)
    for at in range(300):
        world.ask(commit_request(f"g{at % 7}", at), f"g{at % 7}")
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


def test_a_round_that_a_full_disk_swallowed_is_written_by_the_next(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(snapshotter, "RECORDS_MIN", 1)
    world = World(shard_count=1)
    every = Everything(world)
    world.ask(commit_request("g", 1), "g")
    for _ in range(64):
        every.snapshotter.consider()
    world.disk_fails = LogError("full")
    world.loop.advance(1)
    assert world.driven("g").phase is Phase.ACTIVE
    assert "g" in world.driven("g").shard.changed
    world.disk_fails = None
    world.ask(commit_request("h", 2), "h")
    every.snapshotter.write_all()
    world.flusher.flush()
    reopened = world.reopened()
    assert (reopened.offset("g"), reopened.offset("h")) == (1, 2)


def test_what_a_snapshot_needs_of_the_log_is_known() -> None:
    world = World(shard_count=1)
    snapshots = Snapshots(world.log)
    assert snapshots.replay_from(0) is None
    world.ask(commit_request("g", 1), "g")
    write(world)
    assert snapshots.replay_from(0) == 1


def test_write_all_leaves_no_tail() -> None:
    world = World(shard_count=3)
    for at in range(30):
        world.ask(commit_request(f"g{at}", at), f"g{at}")
    Everything(world).snapshotter.write_all()
    world.flusher.flush()
    reopened = world.reopened(starts=False)
    offsets = counts_reads(reopened)
    reopened.start()
    reopened.loop.settle()
    assert offsets == []
    assert [reopened.offset(f"g{at}") for at in range(30)] == list(range(30))
