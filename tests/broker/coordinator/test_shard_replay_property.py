"""Replay of the log, of a compacted form of it, or of a snapshot and later records
restores the durable state of the live shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.classic.group import ClassicGroup
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.result import Origin, Record, Result, Ticket
from coterie.wire import messages as m
from tests.broker.coordinator.classic.members import join_request
from tests.broker.coordinator.consumer.classic_requests import assigns, offers
from tests.broker.coordinator.shard_driver import (
    WEEK_MS,
    Marker,
    ShardDriver,
    as_read,
    assert_same_durable,
    taken_over,
)

History = list[tuple[Record | Marker, Origin]]

GROUPS = ("g", "h")
CONSUMER_GROUP = "c"
with_offsets = st.sampled_from((*GROUPS, CONSUMER_GROUP))
members = st.sampled_from("mno")
partitions = st.tuples(st.sampled_from("tu"), st.integers(0, 1))
offsets = st.dictionaries(partitions, st.integers(0, 9), min_size=1, max_size=3)
producers = st.sampled_from((7, 8))

steps = st.one_of(
    st.tuples(st.just("commit"), with_offsets, offsets, st.sampled_from((4, 9, 10))),
    st.tuples(st.just("commit_expiring"), with_offsets, offsets),
    st.tuples(st.just("txn_commit"), with_offsets, offsets, producers),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("delete_offsets"), with_offsets, partitions),
    st.tuples(st.just("delete_group"), with_offsets),
    st.tuples(st.just("begin"), members, st.sampled_from(("t", "u", "tu", ""))),
    st.tuples(st.just("beat"), members, st.booleans()),
    st.tuples(st.just("quit"), members, st.sampled_from((-1, -2))),
    st.tuples(st.just("join"), with_offsets, st.sampled_from((3, 9))),
    st.tuples(st.just("rejoin"), with_offsets, st.booleans()),
    st.tuples(st.just("sync"), with_offsets),
    st.tuples(st.just("leave"), with_offsets),
    st.tuples(st.just("wait"), st.sampled_from((1_000, 3_000, 20_000, 70_000))),
    st.tuples(st.just("sweep"), st.sampled_from((1, WEEK_MS))),
)

migrations = st.one_of(
    st.tuples(st.just("begin"), members, st.sampled_from(("t", "tu"))),
    st.tuples(st.just("beat"), members, st.booleans()),
    st.tuples(st.just("quit"), members, st.sampled_from((-1, -2))),
    st.tuples(st.just("join"), st.just(CONSUMER_GROUP), st.sampled_from((3, 9))),
    st.tuples(st.just("rejoin"), st.just(CONSUMER_GROUP), st.booleans()),
    st.tuples(st.just("sync"), st.just(CONSUMER_GROUP)),
    st.tuples(st.just("leave"), st.just(CONSUMER_GROUP)),
    st.tuples(st.just("wait"), st.sampled_from((1_000, 3_000, 20_000))),
)
"""Steps of the group that has members of both protocols."""

share_steps = st.one_of(
    st.tuples(st.just("share"), members, st.sampled_from(("t", "u", "tu"))),
    st.tuples(st.just("share"), members, st.none()),
    st.tuples(st.just("share_quit"), members),
    st.tuples(st.just("delete_group"), st.just("s")),
    st.tuples(st.just("begin"), members, st.just("t")),
    st.tuples(st.just("quit"), members, st.just(-1)),
    st.tuples(st.just("wait"), st.sampled_from((0, 1_000, 46_000))),
)
"""Steps of a share group, and of a consumer group beside it."""


class World(ShardDriver):
    """A test driver that takes generated steps as clients of three groups.

    Two groups are classic ones; the third has members of both protocols. `batches` has
    the position in the log of the first record of each step.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.batches: list[int] = []

    def settle(self, result: Result, ticket: Ticket | None = None) -> None:
        self.batches.append(len(self.history))
        super().settle(result, ticket)

    def take(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        getattr(self, f"do_{name}")(*arguments)

    def do_commit(self, group_id: str, values: Any, version: int) -> None:
        group = self.state.group(group_id)
        member_id, generation = "", -1
        if isinstance(group, ConsumerGroup) and group.members:
            member_id, member = next(iter(group.members.items()))
            generation = member.epoch
        elif isinstance(group, ClassicGroup) and group.members:
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
        request = join_request(group_id=group_id, protocols=offers("t", version=0))
        sent = self.send(request, version=version)
        if not sent.parked and sent.error == 79:
            request.member_id = sent.response.member_id
            self.send(request, version=version)

    def do_rejoin(self, group_id: str, keeps: bool) -> None:
        """Rejoin all classic members; they report owned partitions only if `keeps`."""
        for member_id in self._classic_members(group_id):
            group = self.state.group(group_id)
            if isinstance(group, ClassicGroup) and member_id in group.joins:
                continue
            owned: dict[str, list[int]] = {}
            if isinstance(group, ConsumerGroup) and keeps:
                for each in (
                    group.members[member_id].assigned,
                    group.members[member_id].pending_revocation,
                ):
                    owned.update({self._name(t): [*held] for t, held in each.items()})
            protocols = offers("t", owned=owned)
            request = join_request(member_id, group_id=group_id, protocols=protocols)
            self.send(request)

    def do_sync(self, group_id: str) -> None:
        members = self._classic_members(group_id)
        given = [
            m.SyncGroupRequestAssignment(
                member_id=each, assignment=assigns({"t": range(at, 4, len(members))})
            )
            for at, each in enumerate(members)
        ]
        for member_id in members:
            group = self.state.group(group_id)
            generation = -1
            if isinstance(group, ClassicGroup):
                generation = group.generation
            elif group is not None and member_id in group.members:
                generation = group.members[member_id].epoch
            self.send(
                m.SyncGroupRequest(
                    group_id=group_id,
                    member_id=member_id,
                    generation_id=generation,
                    assignments=given,
                )
            )

    def do_leave(self, group_id: str) -> None:
        for member_id in self._classic_members(group_id)[:1]:
            identity = m.MemberIdentity(member_id=member_id)
            self.send(m.LeaveGroupRequest(group_id=group_id, members=[identity]))

    def _classic_members(self, group_id: str) -> list[str]:
        group = self.state.group(group_id)
        if isinstance(group, ConsumerGroup):
            return [key for key, member in group.members.items() if member.classic]
        return [] if group is None else [*group.members]

    def _name(self, topic_id: bytes) -> str:
        return self.topics.topic_name(topic_id) or ""

    def do_begin(self, member_id: str, topics: str) -> None:
        self._heartbeat(member_id, 0, topics=[*topics], owned={})

    def do_beat(self, member_id: str, obeys: bool) -> None:
        """Report the assigned partitions as owned; unless `obeys`, also the revoked."""
        group = self.state.consumer_groups.get(CONSUMER_GROUP)
        member = group.members.get(member_id) if group else None
        if member is None:
            return
        owned = {topic: {*held} for topic, held in member.assigned.items()}
        if not obeys:
            for topic, held in member.pending_revocation.items():
                owned.setdefault(topic, set()).update(held)
        self._heartbeat(member_id, max(member.epoch, 0), owned=owned)

    def do_quit(self, member_id: str, epoch: int) -> None:
        self._heartbeat(member_id, epoch)

    def _heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        topics: list[str] | None = None,
        owned: Any = None,
    ) -> None:
        """Send a heartbeat to the consumer group, in which "m" is a static member."""
        is_static = member_id == "m"
        self.send(
            m.ConsumerGroupHeartbeatRequest(
                group_id=CONSUMER_GROUP,
                member_id=member_id,
                member_epoch=epoch,
                instance_id="i" if is_static and epoch in (0, -2) else None,
                rebalance_timeout_ms=-1 if topics is None else 60_000,
                subscribed_topic_names=topics,
                topic_partitions=None
                if owned is None
                else [
                    m.TopicPartitions(topic_id=topic, partitions=[*some])
                    for topic, some in owned.items()
                ],
            )
        )

    def do_share(self, member_id: str, topics: str | None) -> None:
        """Send a heartbeat to the share group; an unknown member joins."""
        group = self.state.share_groups.get("s")
        member = group.members.get(member_id) if group else None
        epoch = 0 if member is None else member.epoch
        if epoch == 0 and topics is None:
            topics = "t"
        self._share_heartbeat(member_id, epoch, topics)

    def do_share_quit(self, member_id: str) -> None:
        self._share_heartbeat(member_id, -1, None)

    def _share_heartbeat(self, member_id: str, epoch: int, topics: str | None) -> None:
        request = m.ShareGroupHeartbeatRequest(
            group_id="s",
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else [*topics],
        )
        self.send(request)

    def do_wait(self, ms: int) -> None:
        self.advance(ms)

    def do_sweep(self, after_ms: int) -> None:
        self.sweep(after_ms)


def world_after(taken: Sequence[tuple[Any, ...]]) -> World:
    """Return a shard after these steps; its driver asserts that handlers do not change
    the state.
    """
    world = World()
    for step in taken:
        world.take(step)
    return world


def superseded(history: History) -> list[int]:
    """Return the positions of records that Kafka's log cleaner may drop.

    These are aborted records, and records with a later one of the same key that is not
    aborted. The cleaner stops at the first record of an open transaction.
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


def cleaned(world: World, runs: Sequence[tuple[int, int]]) -> History:
    """Return the log after cleaner runs. Each run reads up to the higher of two
    positions, and removes records only before the lower one.
    """
    left = [*range(len(world.history))]
    for stopped_at, until in map(sorted, runs):
        seen = [at for at in left if at < until]
        droppable = superseded([world.history[at] for at in seen])
        gone = {seen[number] for number in droppable}
        left = [at for at in left if at not in gone or at >= stopped_at]
    return [world.history[at] for at in left]


def open_from(history: History) -> int:
    """Return the position of the first open transaction, where compaction stops."""
    return min(_transactions(history)[1], default=len(history))


def is_tombstone(each: tuple[Record | Marker, Origin]) -> bool:
    """Return whether the record is a tombstone."""
    return isinstance(each[0], Record) and each[0].value is None


def _key(record: Record) -> bytes:
    return encode_record(record)[0]


def _transactions(history: History) -> tuple[set[int], list[int]]:
    """Return the positions of aborted records, and of the first record of each open
    transaction.
    """
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
@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_replaying_the_log_restores_the_state(taken: list[tuple[Any, ...]]) -> None:
    world = world_after(taken)
    assert_same_durable(world.state, world.reloaded().state)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25), st.data())
def test_replaying_any_compacted_log_restores_the_state(
    taken: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    compact_and_compare(world_after(taken), data)


@pytest.mark.slow
@pytest.mark.fact("E20-03")
@settings(max_examples=200, deadline=None)
@given(st.lists(migrations, min_size=10, max_size=40), st.data())
def test_replay_equals_live_state_when_groups_change_their_protocol(
    taken: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    compact_and_compare(world_after(taken), data)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(share_steps, max_size=30), st.data())
def test_replay_restores_share_groups(
    taken: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    world = world_after(taken)
    compact_and_compare(world, data)
    assert_same_durable(world.state, taken_over(world.state).state)


def compact_and_compare(world: World, data: st.DataObject) -> None:
    """Assert that the state is equal after loading the log compacted partly, fully, and
    without tombstones.
    """
    batch = st.sampled_from([*world.batches, len(world.history)])
    runs = data.draw(st.lists(st.tuples(batch, batch), min_size=1, max_size=3))
    compacted = cleaned(world, runs)
    assert_same_durable(world.state, world.reloaded(compacted).state)
    droppable = superseded(world.history)
    full = [each for at, each in enumerate(world.history) if at not in {*droppable}]
    assert_same_durable(world.state, world.reloaded(full).state)
    bare = full[open_from(full) :]
    bare = [each for each in full[: open_from(full)] if not is_tombstone(each)] + bare
    assert_same_durable(world.state, world.reloaded(bare).state)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(steps, max_size=20), st.lists(steps, max_size=10))
def test_a_snapshot_and_later_records_restore_the_state(
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
