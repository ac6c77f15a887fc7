"""Loading of compacted logs: each form that a cleaner leaves restores the state.

A cleaner drops the records of a part of the log that have a later one with their key.
Our server's cleaner never runs while a shard is loaded, but it may end at any place,
with any place as the end of what it has read. Kafka's cleaner works while a node of the
gateway reads its shard: the first records are as they were, those of a later part have
been cleaned (KAFKA-19862, KAFKA-21117).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.result import Origin, Record
from coterie.broker.coordinator.state import State
from coterie.broker.log.compaction import compact
from coterie.broker.log.log import LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
    with_base_offset,
)
from sim import invariants
from tests.broker.coordinator.shard_driver import (
    Marker,
    ShardDriver,
    as_read,
    assert_same_durable,
)
from tests.broker.coordinator.test_shard_replay_property import superseded
from tests.broker.runtime.world import TOPIC_ID, World
from tests.gateway.log.shard_world import TOPIC, Node
from tests.scenarios.files import SCENARIOS, parameters_of
from tests.scenarios.play import Play, Scenario
from tests.scenarios.shard import ShardPlayer

History = list[tuple[Record | Marker, Origin]]
LOGS = {
    name: scenario
    for name, scenario in SCENARIOS.items()
    if not any(line.endswith("is corrupt") for line in scenario.lines)
}
BUGS = {
    name: each
    for name, each in LOGS.items()
    if any(bug in name for bug in ("KAFKA-17306", "KAFKA-19862", "KAFKA-21117"))
}


def played(scenario: Scenario) -> ShardPlayer:
    """Return the player of a scenario after its last line."""
    play = Play(ShardPlayer())
    scenario.play(play)
    player: ShardPlayer = play.driver
    return player


def compacted_while_read(history: History) -> Iterator[list[int]]:
    """Yield the positions of the records that a loader may see while the cleaner runs.

    A part is cleaned, by what is known at the end of this part or of the whole log.
    """
    everything = range(len(history))
    yielded = {frozenset[int]()}
    for start, end in combinations([*everything, len(history)], 2):
        for known in (end, len(history)):
            droppable = superseded(history[:known])
            gone = frozenset(at for at in droppable if start <= at < end)
            if gone not in yielded:
                yielded.add(gone)
                yield [at for at in everything if at not in gone]


def encoded(history: History) -> list[bytes]:
    """Return the log with a batch for each record, at the record's position."""
    return [_batch(entry, origin, at) for at, (entry, origin) in enumerate(history)]


def _batch(entry: Record | Marker, origin: Origin, at: int) -> bytes:
    if isinstance(entry, Marker):
        ended = entry.producer_id, 0
        return encode_marker(at, origin.timestamp_ms, *ended, commit=entry.commit)
    record = LogRecord(at, origin.timestamp_ms, *encode_record(entry))
    if origin.producer_id < 0:
        return encode_batch([record])
    producer = Producer(origin.producer_id, origin.producer_epoch, 0)
    return encode_batch([record], producer=producer, attributes=TRANSACTIONAL)


def assert_restored(player: ShardPlayer, loaded: State) -> None:
    invariants.check(loaded)
    assert_same_durable(player.state, loaded)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", parameters_of(LOGS))
def test_a_log_that_is_compacted_while_it_is_read_restores_the_state(
    scenario: Scenario,
) -> None:
    player = played(scenario)
    history = [(as_read(entry), origin) for entry, origin in player.history]
    for left in compacted_while_read(history):
        driver = ShardDriver(settings=player.settings, topics=player.topics)
        driver.shard.begin_load()
        for at in left:
            driver._keep_any(*history[at])
        driver.load()
        assert_restored(player, driver.state)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", parameters_of(BUGS))
def test_the_servers_log_restores_the_state_wherever_its_cleaner_ends(
    scenario: Scenario,
) -> None:
    player = played(scenario)
    batches = encoded(player.history)
    for known in range(len(batches) + 1):
        for done in range(known + 1):
            log = _cleaned(batches, known, done)
            world = World(
                log=log, shard_count=1, settings=player.settings, topics=player.topics
            )
            assert_restored(player, world.runtime.shards[0].shard.state)


def _cleaned(batches: Sequence[bytes], known: int, done: int) -> MemoryLog:
    """Return a log whose cleaner knew all keys before `known` and was killed at `done`,
    long after the time at which it drops tombstones."""
    log, partition = MemoryLog(), LogPartition(TOPIC_ID, 0)
    log.create(partition)
    for batch in batches:
        log.append(partition, batch)
    log.flush()
    steps = compact(log, partition, start=0, end=known, tombstones_before_ms=2**60)
    # It reads every batch before it replaces the first.
    for _ in range(known + done):
        next(steps, None)
    log.flush()
    return log


@pytest.mark.slow
@pytest.mark.parametrize("scenario", parameters_of(BUGS))
def test_the_gateways_log_restores_the_state_while_kafka_compacts_it(
    scenario: Scenario,
) -> None:
    player = played(scenario)
    batches = encoded(player.history)
    for left in compacted_while_read(player.history):
        node = Node(
            shard_count=1,
            topic=TOPIC._replace(partition_count=1),
            settings=player.settings,
            topics=player.topics,
        )
        partition = node.upstream.partitions[0]
        partition.batches = [with_base_offset(batches[at], at) for at in left]
        partition.end = len(batches)
        node.own()
        node.loop.advance(1)
        assert_restored(player, node.runtime.shards[0].shard.state)
