"""The store of share partitions' states: writes, snapshots, pruning and failures."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.share.state_requests import (
    DeleteShareState,
    SharePartitions,
)
from coterie.broker.coordinator.share_partition.records import decode_record
from coterie.broker.coordinator.share_partition.state import (
    ShareKey,
    ShareState,
    StateBatch,
    StateUpdate,
)
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.share_state import (
    PRUNE_RECORDS,
    UPDATES_PER_SNAPSHOT,
    state_partition,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import decode_records
from tests.broker.server.apis.fake_broker import FakeBroker
from tests.broker.server.apis.share_member import GROUP, initialize

FENCED, UNAVAILABLE = ErrorCode.FENCED_STATE_EPOCH, ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=3)
    return made


def key_of(broker: FakeBroker, partition: int = 0) -> ShareKey:
    topic_id = broker.catalog.topic_id("a")
    assert topic_id is not None
    return ShareKey(GROUP, topic_id, partition)


def load(broker: FakeBroker, key: ShareKey) -> ShareState | None:
    codes: list[ErrorCode] = []
    broker.share_states.load(key, codes.append)
    broker.loop.end_turn()
    assert codes == [ErrorCode.NONE]
    return broker.share_states.state(key)


def write(
    broker: FakeBroker, key: ShareKey, *batches: StateBatch, start: int = 0
) -> ErrorCode:
    codes: list[ErrorCode] = []
    update = StateUpdate(start, 0, batches)
    broker.share_states.write(key, update, codes.append)
    broker.loop.end_turn()
    [code] = codes
    return code


def log_of(broker: FakeBroker, key: ShareKey) -> LogPartition:
    topic = broker.catalog.share_state_topic
    assert topic is not None
    return LogPartition(topic.topic_id, state_partition(key, topic.partition_count))


def records_of(broker: FakeBroker, key: ShareKey) -> list[object]:
    """Return the content of all records of the key's partition."""
    where = log_of(broker, key)
    start = broker.log.bounds(where).log_start_offset
    found: list[object] = []
    for batch in broker.log.read(where, start, 1 << 30):
        for stored in decode_records(batch):
            record = decode_record(stored.key, stored.value)
            assert record is not None
            found.append(record[1])
    return found


@pytest.mark.fact("SG-092")
def test_a_state_belongs_to_the_partition_of_its_hash() -> None:
    key = ShareKey("a:b", bytes(range(16)), 12)
    # Computed by SharePartitionKey of Apache Kafka 4.4.0.
    assert state_partition(key, 50) == 20


def test_the_topic_is_created_with_the_first_state(broker: FakeBroker) -> None:
    assert broker.catalog.share_state_topic is None
    assert initialize(broker) == [ErrorCode.NONE]
    topic = broker.catalog.share_state_topic
    assert topic is not None
    assert (topic.partition_count, topic.is_internal) == (50, True)


def test_a_state_survives_a_restart(broker: FakeBroker) -> None:
    initialize(broker, start_offset=7)
    key = key_of(broker)
    assert write(broker, key, StateBatch(8, 9, 2, 1), start=7) is ErrorCode.NONE
    before = broker.share_states.state(key)
    broker.restart()
    assert load(broker, key) == before
    assert before is not None
    assert (before.state_epoch, before.start_offset) == (2, 7)
    assert before.batches == (StateBatch(8, 9, 2, 1),)


@pytest.mark.fact("SG-331")
def test_a_newer_state_epoch_fences_an_initialization(broker: FakeBroker) -> None:
    initialize(broker, state_epoch=5, start_offset=3)
    assert initialize(broker, state_epoch=4, start_offset=9) == [FENCED]
    state = load(broker, key_of(broker))
    assert state is not None
    assert state.start_offset == 3
    assert initialize(broker, state_epoch=5, start_offset=9) == [ErrorCode.NONE]
    state = load(broker, key_of(broker))
    assert state is not None
    assert (state.start_offset, state.snapshot_epoch) == (9, 1)


def test_a_deleted_state_is_gone(broker: FakeBroker) -> None:
    initialize(broker, partitions=(0, 1))
    key = key_of(broker)
    topics = (SharePartitions(key.topic_id, "a", (0,)),)
    codes: list[ErrorCode] = []
    request = DeleteShareState(GROUP, topics, deletes_group=False)
    broker.share_states.handle(request, codes.append)
    broker.loop.end_turn()
    assert codes == [ErrorCode.NONE]
    broker.restart()
    assert load(broker, key) is None
    assert load(broker, key_of(broker, 1)) is not None


@pytest.mark.fact("SG-340")
def test_the_states_of_a_deleted_topic_are_deleted(broker: FakeBroker) -> None:
    initialize(broker, partitions=(0, 1))
    keys = [key_of(broker), key_of(broker, 1)]
    broker.restart()
    load(broker, keys[0])
    broker.data.stage([broker.catalog.delete_topic("a")])
    broker.loop.end_turn()
    # One state was in memory, the other is deleted when it is loaded.
    assert [load(broker, key) for key in keys] == [None, None]
    broker.restart()
    assert [load(broker, key) for key in keys] == [None, None]


@pytest.mark.fact("SG-333")
def test_a_snapshot_follows_many_updates(broker: FakeBroker) -> None:
    initialize(broker)
    key = key_of(broker)
    for at in range(UPDATES_PER_SNAPSHOT + 1):
        write(broker, key, StateBatch(2 * at, 2 * at, 2, 1), start=2 * at)
    records = records_of(broker, key)
    kinds = [type(record) for record in records]
    assert kinds == [ShareState, *[StateUpdate] * UPDATES_PER_SNAPSHOT, ShareState]
    snapshot = records[-1]
    assert isinstance(snapshot, ShareState)
    assert snapshot.snapshot_epoch == 1
    assert snapshot.start_offset == 2 * UPDATES_PER_SNAPSHOT


@pytest.mark.slow
def test_the_log_does_not_grow_without_bound(broker: FakeBroker) -> None:
    cold, hot = key_of(broker), None
    initialize(broker, partitions=(0, 1, 2))
    groups = (f"g{at}" for at in range(10_000))
    group = next(
        each
        for each in groups
        if log_of(broker, cold) == log_of(broker, cold._replace(group_id=each))
    )
    initialize(broker, group=group)
    hot = cold._replace(group_id=group)
    write(broker, cold, StateBatch(3, 4, 2, 1))
    before = load(broker, cold)
    for at in range(3 * PRUNE_RECORDS):
        write(broker, hot, StateBatch(at, at, 2, 1), start=at)
    bounds = broker.log.bounds(log_of(broker, hot))
    assert bounds.next_offset - bounds.log_start_offset < 2 * PRUNE_RECORDS
    states = [broker.share_states.state(key) for key in (cold, hot)]
    broker.restart()
    assert [load(broker, key) for key in (cold, hot)] == states
    assert before is not None
    assert states[0] is not None
    assert states[0].batches == before.batches


def test_a_failed_write_drops_what_is_not_in_the_log(broker: FakeBroker) -> None:
    initialize(broker)
    key = key_of(broker)
    before = load(broker, key)
    broker.fail_next_write()
    assert write(broker, key, StateBatch(0, 0, 2, 1)) is UNAVAILABLE
    assert not broker.share_states.is_loaded(key)
    assert load(broker, key) == before


def test_a_failed_write_refuses_an_initialization(broker: FakeBroker) -> None:
    broker.fail_next_write()
    assert initialize(broker) == [UNAVAILABLE]
    assert load(broker, key_of(broker)) is None
    assert initialize(broker) == [ErrorCode.NONE]
