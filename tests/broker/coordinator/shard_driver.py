"""A test driver for a whole shard: transaction markers, expiration and reloads.

In addition to the checks of `Driver`, it checks the invariants of the state after every
step. `assert_same_durable` compares two states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.offsets.deletion import TIMER_KEY, ExpireOffsets
from coterie.broker.coordinator.offsets.store import GroupOffsets
from coterie.broker.coordinator.record_serde import decode_record, encode_record
from coterie.broker.coordinator.result import Origin, Record, Result, Ticket
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.share import group as share_group
from coterie.broker.coordinator.share import record_builders as share_records
from coterie.broker.coordinator.snapshot import (
    entries,
    read_offsets,
    take_group,
    take_transactions,
)
from coterie.broker.coordinator.state import State
from coterie.settings import Settings
from sim import invariants
from tests.broker.coordinator.driver import Driver, Topics
from tests.broker.coordinator.requests import GroupRequests

SETTINGS = Settings()
WEEK_MS = SETTINGS.offsets_retention_minutes * 60_000
SWEEP_MS = SETTINGS.offsets_retention_check_interval_ms


class Marker(NamedTuple):
    """A control record that ends a producer's transaction."""

    producer_id: int
    commit: bool


@dataclass
class ShardDriver(Driver, GroupRequests):
    """A `Driver` of a whole shard. Topics t and u have 4 partitions.

    `history` is the log with transaction markers; `log` has only the records.
    """

    topics: Topics = field(default_factory=lambda: Topics({"t": 4, "u": 4}))
    history: list[tuple[Record | Marker, Origin]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.shard is None:
            self.shard = Shard(self.settings)

    @property
    def state(self) -> State:
        state: State = self.shard.state
        return state

    def settle(self, result: Result, ticket: Ticket | None = None) -> None:
        super().settle(result, ticket)
        invariants.check(self.state)

    def end_transaction(self, producer_id: int = 7, *, commit: bool) -> None:
        """Write a marker, as the transaction coordinator does."""
        marker = Marker(producer_id, commit)
        self._keep_any(marker, Origin(len(self.history), self.now_ms, producer_id, 0))
        invariants.check(self.state)

    def sweep(self, after_ms: int = 0) -> None:
        """Advance the clock without firing other timers, and expire offsets."""
        self.now_ms += after_ms
        self.fire(ExpireOffsets())
        while self.timers[TIMER_KEY].fires_at_ms == self.now_ms:
            self.fire(self.timers.pop(TIMER_KEY).request)

    def reloaded(self, history: Any = None) -> ShardDriver:
        """Return another driver whose shard loaded `history`, by default this log."""
        driver = ShardDriver(
            settings=self.settings, topics=self.topics, now_ms=self.now_ms
        )
        driver.shard.begin_load()
        for entry, origin in self.history if history is None else history:
            driver._keep_any(as_read(entry), origin)
        driver.load()
        return driver

    def _keep(self, record: Record, origin: Origin) -> None:
        self._keep_any(record, origin._replace(log_offset=len(self.history)))

    def _keep_any(self, entry: Record | Marker, origin: Origin) -> None:
        if isinstance(entry, Marker):
            self.shard.replay_marker(
                entry.producer_id,
                origin.producer_epoch,
                commit=entry.commit,
                log_offset=origin.log_offset,
            )
        else:
            self.shard.replay(entry, origin)
            self.log.append(entry)
            self.origins.append(origin)
        self.history.append((entry, origin))

    @property
    def written(self) -> tuple[Record, ...]:
        """The records of the newest step."""
        return self.results[-1].records


def as_read(entry: Record | Marker) -> Record | Marker:
    """Encode the record and return the decoded result; return a marker unchanged."""
    if isinstance(entry, Marker):
        return entry
    record = decode_record(*encode_record(entry))
    assert record is not None
    return record


def taken_over(state: State, as_of: int = 0) -> Shard:
    """Return another shard, loaded from a snapshot of this state in the same way as by
    the runtime.
    """
    shard = Shard(SETTINGS)
    for group_id in (
        *state.classic_groups,
        *state.consumer_groups,
        *state.share_groups,
    ):
        kept = take_group(state, group_id, as_of)
        if kept is None:
            continue
        for record, origin in entries(kept.metadata):
            shard.replay(record, origin)
            shard.skip_records_before(group_id, origin.log_offset)
        if kept.offsets:
            adopt(shard.state, group_id, kept.offsets)
    for record, origin in entries(take_transactions(state)):
        shard.replay(record, origin)
    shard.changed.clear()
    return shard


def adopt(state: State, group_id: str, offsets: bytes) -> list[str]:
    """Defer decoding of a group's offsets; the returned list records each decoding."""
    reads: list[str] = []

    def load() -> GroupOffsets:
        reads.append(group_id)
        return read_offsets(offsets)

    state.ensure_group(group_id)
    state.offsets.stored.adopt(group_id, load)
    return reads


def assert_same_durable(live: State, loaded: State) -> None:
    """Assert that the durable state is the same; rebalances in progress may be lost."""
    assert loaded.group_records == live.group_records
    assert loaded.offsets == live.offsets
    durable = _durable(live)
    assert _durable(loaded) == durable
    assert whole(loaded) == whole(live)
    assert loaded.topic_index == live.topic_index
    assert _share_groups(loaded) == _share_groups(live)
    for group_id in durable:
        group = live.classic_groups[group_id]
        if group.state in (GroupState.EMPTY, GroupState.STABLE):
            assert _settled(loaded.classic_groups[group_id]) == _settled(group)


def _durable(state: State) -> set[str]:
    """Return the classic groups that any form of the log restores.

    One that a commit created and that has no offsets any more is restored only by a log
    that still has the commit.
    """
    return {
        group_id
        for group_id in state.classic_groups
        if group_id in state.group_records or state.offsets.has(group_id)
    }


def whole(state: State) -> list[tuple[bytes, bytes | None]]:
    """Return the encoded records of all consumer and share groups, sorted."""
    groups = state.consumer_groups.values()
    records = [record for group in groups for record in group_records(group)]
    for each in state.share_groups.values():
        records += share_records.group_records(each)
    return sorted(map(encode_record, records))


def _share_groups(state: State) -> dict[str, list[Any]]:
    """Return the durable fields of all share groups."""
    own = {"partitions", "refresh"}
    names = [name for name in share_group.FIELDS if name not in own]
    return {
        group_id: [
            *(getattr(group, name) for name in names),
            # The time of the record is that of a snapshot.
            group.partitions and group.partitions[:3],
        ]
        for group_id, group in state.share_groups.items()
    }


def _settled(group: ClassicGroup) -> tuple[Any, ...]:
    members = [
        (member.member_id, member.group_instance_id, member.assignment)
        for member in group.members.values()
    ]
    about = (group.state, group.generation, group.protocol_type, group.protocol_name)
    return (*about, group.leader_id, group.state_timestamp_ms, members)
