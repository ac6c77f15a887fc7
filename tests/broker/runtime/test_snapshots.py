"""A restart from a snapshot restores the same state as replaying the whole log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.snapshot import take_group
from coterie.broker.log.log import StagedWrite
from coterie.broker.runtime import snapshots as snapshots_module
from coterie.broker.runtime.shards import Phase
from coterie.broker.runtime.snapshots import (
    BYTES_PER_RECORD,
    CHECK_EVERY_BYTES,
    RECORDS_MIN,
    SHARD_RECORDS_MAX,
    SHARD_RECORDS_MIN,
    SLICE_BYTES,
    RoundSchedule,
    Snapshots,
    Snapshotter,
)
from coterie.errors import LogError
from coterie.settings import Settings
from coterie.wire import messages as m
from sim import invariants
from tests.broker.coordinator.driver import Topics
from tests.broker.coordinator.shard_driver import whole
from tests.broker.runtime.world import (
    World,
    commit_request,
    txn_commit_request,
)
from tests.support.compiled import skip_if_compiled


def steps_of(world: World, index: int = 0) -> Iterator[int]:
    partition = world.runtime.shards[index]
    changed = frozenset(partition.shard.changed)
    partition.shard.changed.clear()
    return Snapshots(world.log).write(partition, changed)


def write(world: World) -> None:
    for index in range(world.shard_count):
        list(steps_of(world, index))
    world.flusher.flush()


def states(world: World) -> list[Any]:
    return [partition.shard.state for partition in world.runtime.shards]


def counts_reads(world: World) -> list[int]:
    """Return a list that collects the offsets of later log reads."""
    offsets: list[int] = []
    read = world.log.read

    def noting(partition: Any, offset: int, bytes_max: int) -> Any:
        offsets.append(offset)
        return read(partition, offset, bytes_max)

    skip_if_compiled(world.log)
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
    skip_if_compiled(reopened.log)
    get = reopened.log.get

    def noting(space: str, key: bytes) -> bytes | None:
        spaces.append(space)
        return get(space, key)

    skip_if_compiled(reopened.log)
    reopened.log.get = noting  # type: ignore[method-assign]
    assert "g" in reopened.partition("g").shard.state.classic_groups
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
    assert reopened.partition("g").shard.state.classic_groups == {}
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


# Consumer groups.


def heartbeat(
    world: World, member_id: str, epoch: int, *partitions: int, joins: bool = False
) -> int:
    """Send a heartbeat of group "c" with owned partitions of t; return the epoch."""
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="c",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=10_000 if joins else -1,
        subscribed_topic_names=["t"] if joins else None,
        topic_partitions=[
            m.TopicPartitions(topic_id=b"t".ljust(16, b"\0"), partitions=[*partitions])
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
    assert start < world.log.bounds(world.partition("c").log_partition).next_offset
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
    reopened = world.reopened()
    for each in (reopened, world):
        forget_groups_without_content(each)
    assert states(reopened) == states(world)


def forget_groups_without_content(world: World) -> None:
    """Remove the groups of aborted transactions: no record holds them, so a snapshot
    loses them, as compaction does in Kafka."""
    for state in states(world):
        pending = {
            group_id
            for transaction in state.offsets.pending.transactions.values()
            for group_id in transaction.groups
        }
        for group_id, group in [*state.classic_groups.items()]:
            stored = state.offsets.stored.group(group_id)
            if group.protocol_type is None and not stored and group_id not in pending:
                del state.classic_groups[group_id]


class Rounds:
    """The snapshots of a world by a schedule, and the bytes that they stage."""

    def __init__(self, world: World, **schedule: int) -> None:
        self.world = world
        self.staged: list[tuple[str, int]] = []
        """The space and the size of each value of a snapshot."""
        self.snapshotter = Snapshotter(
            world.snapshots,
            world.flusher,
            world.runtime.shards,
            world.loop,
            RoundSchedule(**{"records_min": 1, "shard_min": 1, **schedule}),
        )
        skip_if_compiled(world.log)
        put = world.log.put

        def counting(space: str, key: bytes, value: bytes | None) -> None:
            if space.startswith("snapshot/"):
                self.staged.append((space, len(value or b"")))
            put(space, key, value)

        world.log.put = counting  # type: ignore[method-assign]

    def consider(self) -> None:
        """Check now whether a round is due, and run it."""
        log_partition = self.world.runtime.shards[0].log_partition
        self.snapshotter.consider(log_partition, CHECK_EVERY_BYTES)
        self.world.loop.advance(1)

    @property
    def shards(self) -> list[int]:
        """The shards with a snapshot, once for each round."""
        names = [space.removeprefix("snapshot/") for space, _ in self.staged]
        return [int(name) for name in names if name.isdecimal()]


def group_of(world: World, index: int) -> str:
    """Return the id of a group in a shard."""
    return next(
        f"g{at}" for at in range(1_000) if world.runtime.shard_of(f"g{at}") == index
    )


def test_a_round_starts_when_a_restart_would_replay_many_records() -> None:
    world = World(shard_count=2)
    rounds = Rounds(world, records_min=100)
    for at in range(300):
        world.call(commit_request(f"g{at % 7}", at), f"g{at % 7}")
        rounds.consider()
    assert sum(each.records_since_snapshot for each in world.runtime.shards) < 100
    reopened = world.reopened(starts=False)
    offsets = counts_reads(reopened)
    reopened.start()
    reopened.loop.settle()
    assert offsets
    assert min(offsets) > 0
    assert reopened.phases == {Phase.ACTIVE}


def test_a_round_writes_the_shards_that_are_due_and_no_others() -> None:
    world = World(shard_count=2)
    rounds = Rounds(world, records_min=20)
    hot, cold = group_of(world, 0), group_of(world, 1)
    world.call(commit_request(cold, 1), cold)
    for at in range(100):
        world.call(commit_request(hot, at), hot)
        rounds.consider()
    assert rounds.shards == [0] * 10
    assert world.runtime.shards[1].records_since_snapshot == 1


def test_the_due_shards_are_searched_once_for_many_bytes_of_growth() -> None:
    world = World(shard_count=1)
    rounds = Rounds(world)
    world.call(commit_request("g", 1), "g")
    for _ in range(8):
        assert not rounds.staged
        log_partition = world.runtime.shards[0].log_partition
        rounds.snapshotter.consider(log_partition, CHECK_EVERY_BYTES // 8)
        world.loop.advance(1)
    assert rounds.shards == [0]


@given(
    st.lists(st.tuples(st.integers(1, 5_000), st.integers(0, 50_000_000))),
    st.integers(1, 1_000),
)
def test_bytes_of_rounds_are_in_proportion_to_records(
    loads: list[tuple[int, int]], shard_count: int
) -> None:
    schedule = RoundSchedule(shard_max=10**9)
    unwritten = records = round_bytes = last = 0
    for more_records, size_bytes in loads:
        unwritten += more_records
        records += more_records
        if unwritten >= schedule.records_due(3, shard_count):
            assert unwritten >= SHARD_RECORDS_MIN
            unwritten, last = 0, size_bytes
            schedule.written(3, size_bytes)
            round_bytes += size_bytes
    # What the last round wrote counts for the records after it.
    assert round_bytes - last <= records * BYTES_PER_RECORD + len(loads) * 32


@given(st.integers(0, 1 << 40), st.integers(1, 1_000))
def test_a_restart_replays_a_bounded_number_of_records(
    size_bytes: int, shard_count: int
) -> None:
    schedule = RoundSchedule()
    first = schedule.records_due(0, shard_count)
    assert first * shard_count <= max(RECORDS_MIN, SHARD_RECORDS_MIN * shard_count)
    schedule.written(0, size_bytes)
    assert first <= schedule.records_due(0, shard_count) <= SHARD_RECORDS_MAX
    assert schedule.records_due(1, shard_count) == first


@pytest.mark.parametrize(("groups", "offsets"), [(1, 50), (40, 50), (1, 300)])
def test_snapshots_of_a_load_stay_below_their_part_of_the_log(
    groups: int, offsets: int
) -> None:
    world = World(shard_count=1, topics=Topics({"t": offsets}))
    rounds = Rounds(world, shard_min=100)
    names = [f"g{at}" for at in range(groups)]
    records = 0
    for at in range(60):
        name = names[at % groups]
        world.call(whole_commit(name, at, offsets), name)
        records += offsets
        rounds.consider()
    largest = groups * offsets * 100
    staged = sum(size for _, size in rounds.staged)
    assert staged <= records * BYTES_PER_RECORD + 2 * largest
    assert len(rounds.shards) > 2


def whole_commit(group_id: str, offset: int, partitions: int) -> m.OffsetCommitRequest:
    """Return a commit of all partitions of the topic."""
    parts = [
        m.OffsetCommitRequestPartition(
            partition_index=at, committed_offset=offset, committed_metadata=""
        )
        for at in range(partitions)
    ]
    topic = m.OffsetCommitRequestTopic(name="t", partitions=parts)
    return m.OffsetCommitRequest(group_id=group_id, topics=[topic])


def test_a_large_round_is_staged_in_slices_each_in_its_own_write() -> None:
    world = World(shard_count=1, topics=Topics({"t": 1_000}))
    rounds = Rounds(world)
    for at in range(9):
        world.call(whole_commit(f"g{at}", at, 1_000), f"g{at}")
    before = world.writes
    largest: list[int] = []
    take = world.log.take

    def measured() -> StagedWrite:
        taken = take()
        largest.append(taken.size_bytes)
        return taken

    world.log.take = measured  # type: ignore[method-assign]
    rounds.consider()
    assert rounds.shards == [0]
    group_bytes = max(size for _, size in rounds.staged)
    assert world.writes - before > 1
    assert max(largest) <= SLICE_BYTES + group_bytes + 100


def test_groups_of_a_failed_round_are_written_by_the_next_round() -> None:
    world = World(shard_count=1)
    rounds = Rounds(world)
    world.call(commit_request("g", 1), "g")
    world.disk_fails = LogError("full")
    rounds.consider()
    assert world.partition("g").phase is Phase.ACTIVE
    assert "g" in world.partition("g").shard.changed
    assert world.partition("g").records_since_snapshot == 1
    world.disk_fails = None
    assert rounds.snapshotter._round is None
    world.call(commit_request("h", 2), "h")
    rounds.snapshotter.write_all()
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
    Rounds(world).snapshotter.write_all()
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
    world = World(shard_count=2)
    names = {world.partition(f"g{at}").index: f"g{at}" for at in range(20)}
    for name in names.values():
        world.call(commit_request(name, 1), name)
    rounds = Rounds(world)

    def take_or_bug(state: Any, group_id: str, as_of: int) -> Any:
        assert group_id != names[0], "a bug"
        return take_group(state, group_id, as_of)

    with monkeypatch.context() as patched:
        patched.setattr(snapshots_module, "take_group", take_or_bug)
        rounds.consider()
    assert [world.snapshots.replay_from(index) for index in range(2)] == [None, 1]
    assert caplog.text.count("a bug in writing a snapshot") == 1
    rounds.snapshotter.write_all()
    world.flusher.flush()
    assert world.snapshots.replay_from(0) == 1
