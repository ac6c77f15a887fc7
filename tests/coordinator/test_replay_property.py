"""The log is the state: replaying it, or any compacted form, or a snapshot and what
came after, gives what the live shard holds durably."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coordinator.records.serde import encode_record
from coterie.coordinator.result import Origin, Record
from coterie.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.classic.members import join_request
from tests.coordinator.shard_driver import (
    WEEK_MS,
    Marker,
    ShardDriver,
    as_read,
    assert_same_durable,
    taken_over,
)

History = list[tuple[Record | Marker, Origin]]

GROUPS = ("g", "h")
groups = st.sampled_from(GROUPS)
partitions = st.tuples(st.sampled_from("tu"), st.integers(0, 1))
offsets = st.dictionaries(partitions, st.integers(0, 9), min_size=1, max_size=3)
producers = st.sampled_from((7, 8))

steps = st.one_of(
    st.tuples(st.just("commit"), groups, offsets, st.sampled_from((4, 9, 10))),
    st.tuples(st.just("commit_expiring"), groups, offsets),
    st.tuples(st.just("txn_commit"), groups, offsets, producers),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("delete_offsets"), groups, partitions),
    st.tuples(st.just("delete_group"), groups),
    st.tuples(st.just("join"), groups, st.sampled_from((3, 9))),
    st.tuples(st.just("rejoin"), groups),
    st.tuples(st.just("sync"), groups),
    st.tuples(st.just("leave"), groups),
    st.tuples(st.just("wait"), st.sampled_from((1_000, 3_000, 20_000, 70_000))),
    st.tuples(st.just("sweep"), st.sampled_from((1, WEEK_MS))),
)


class World(ShardDriver):
    """Takes the steps that hypothesis thinks of, as clients of two groups."""

    def take(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        getattr(self, f"do_{name}")(*arguments)

    def do_commit(self, group_id: str, values: Any, version: int) -> None:
        group = self.groups.get(group_id)
        member_id, generation = "", -1
        if group is not None and group.members:
            member_id, generation = next(iter(group.members)), group.generation
        self.commit(
            values,
            version=version,
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
        )

    def do_commit_expiring(self, group_id: str, values: Any) -> None:
        self.commit(values, version=2, group_id=group_id, retention_time_ms=50_000)

    def do_txn_commit(self, group_id: str, values: Any, producer_id: int) -> None:
        self.txn_commit(values, version=2, group_id=group_id, producer_id=producer_id)

    def do_end(self, producer_id: int, commit: bool) -> None:
        self.end_transaction(producer_id, commit=commit)

    def do_delete_offsets(self, group_id: str, name: tuple[str, int]) -> None:
        self.delete_offsets({name[0]: [name[1]]}, group_id=group_id)

    def do_delete_group(self, group_id: str) -> None:
        self.delete_group(group_id)

    def do_join(self, group_id: str, version: int) -> None:
        sent = self.send(join_request(group_id=group_id), version=version)
        if not sent.parked and sent.error == 79:
            member_id = sent.response.member_id
            self.send(join_request(member_id, group_id=group_id), version=version)

    def do_rejoin(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        for member_id in tuple(group.members) if group else ():
            if member_id in group.members and member_id not in group.joins:  # type: ignore[union-attr]
                self.send(join_request(member_id, group_id=group_id))

    def do_sync(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        for member_id in tuple(group.members) if group else ():
            generation = self.groups[group_id].generation
            self.send(
                SyncGroupRequest(
                    group_id=group_id, member_id=member_id, generation_id=generation
                )
            )

    def do_leave(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is None or not group.members:
            return
        identity = MemberIdentity(member_id=next(iter(group.members)))
        self.send(LeaveGroupRequest(group_id=group_id, members=[identity]))

    def do_wait(self, ms: int) -> None:
        self.advance(ms)

    def do_sweep(self, after_ms: int) -> None:
        self.sweep(after_ms)


def world_after(taken: Sequence[tuple[Any, ...]]) -> World:
    """A world in which these steps were taken. Handlers are checked to be pure."""
    world = World()
    for step in taken:
        world.take(step)
    return world


def superseded(history: History) -> list[int]:
    """The positions that Kafka's cleaner may drop, tombstones, which it drops after a
    time, apart.

    It stops at the first record of an open transaction. Before it, a record may go
    when a later one that counts has the same key, and so may what was aborted.
    """
    aborted, _ = _transactions(history)
    end = open_from(history)
    newest = {
        _key(entry): at
        for at, (entry, _) in enumerate(history[:end])
        if isinstance(entry, Record) and at not in aborted
    }
    return [
        at
        for at, (entry, _) in enumerate(history[:end])
        if isinstance(entry, Record) and (at in aborted or newest[_key(entry)] > at)
    ]


def open_from(history: History) -> int:
    """Where the first open transaction begins; nothing from there on is compacted."""
    return min(_transactions(history)[1], default=len(history))


def is_tombstone(each: tuple[Record | Marker, Origin]) -> bool:
    """Whether it is a record that says that something is gone."""
    return isinstance(each[0], Record) and each[0].value is None


def _key(record: Record) -> bytes:
    return encode_record(record)[0]


def _transactions(history: History) -> tuple[set[int], list[int]]:
    """Positions of aborted records, and where each open transaction began."""
    aborted: set[int] = set()
    ongoing: dict[int, list[int]] = {}
    for at, (entry, origin) in enumerate(history):
        if isinstance(entry, Marker):
            of_transaction = ongoing.pop(entry.producer_id, [])
            aborted.update(() if entry.commit else of_transaction)
        elif origin.producer_id >= 0:
            ongoing.setdefault(origin.producer_id, []).append(at)
    return aborted, [positions[0] for positions in ongoing.values()]


@pytest.mark.slow
@pytest.mark.fact("E22-46", "E22-47", "H-92")
@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_replaying_the_log_gives_the_state(taken: list[tuple[Any, ...]]) -> None:
    world = world_after(taken)
    assert_same_durable(world.state, world.reloaded().state)


@pytest.mark.slow
@pytest.mark.fact("E22-46")
@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25), st.data())
def test_replaying_any_compacted_log_gives_the_state(
    taken: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    world = world_after(taken)
    droppable = superseded(world.history)
    dropped = data.draw(st.sets(st.sampled_from(droppable))) if droppable else set()
    compacted = [each for at, each in enumerate(world.history) if at not in dropped]
    assert_same_durable(world.state, world.reloaded(compacted).state)
    full = [each for at, each in enumerate(world.history) if at not in {*droppable}]
    assert_same_durable(world.state, world.reloaded(full).state)
    bare = full[open_from(full) :]
    bare = [each for each in full[: open_from(full)] if not is_tombstone(each)] + bare
    assert_same_durable(world.state, world.reloaded(bare).state)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(steps, max_size=20), st.lists(steps, max_size=10))
def test_a_snapshot_and_the_log_since_give_the_state(
    before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    world = world_after(before)
    shard = taken_over(world.state)
    start = len(world.history)
    for step in after:
        world.take(step)
    for entry, origin in world.history[start:]:
        if isinstance(entry, Marker):
            shard.replay_marker(
                entry.producer_id, 0, commit=entry.commit, log_offset=origin.log_offset
            )
        else:
            record = as_read(entry)
            assert isinstance(record, Record)
            shard.replay(record, origin)
    assert_same_durable(world.state, shard.state)
