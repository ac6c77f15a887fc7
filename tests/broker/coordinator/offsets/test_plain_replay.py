"""Reading the records of commits at once has the effects of their replay."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.offsets.plain_replay import DELTAS_MAX, read_commits
from coterie.broker.coordinator.record_serde import decode_record, encode_record
from coterie.broker.coordinator.records import OffsetCommitKey, OffsetCommitValue
from coterie.broker.coordinator.result import Origin, Record
from coterie.broker.coordinator.shard import Shard
from coterie.errors import LogCorrupt, MalformedFrame
from coterie.settings import Settings
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    decode_records,
    encode_batch,
    read_header,
)
from coterie.wire.schema import ZERO_UUID

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


def commit(
    group: str = "g",
    topic: str = "t",
    partition: int = 0,
    offset: int = 7,
    *,
    metadata: str = "",
    topic_id: bytes = ZERO_UUID,
    expire_ms: int = -1,
    time_ms: int = NOW,
    version: int = 4,
) -> Record:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=-1 if expire_ms != -1 else offset % 5,
        metadata=metadata,
        commit_timestamp=time_ms,
        expire_timestamp=expire_ms,
        topic_id=topic_id,
    )
    return Record(key, value, 1 if expire_ms != -1 else version)


def batch_of(records: Iterable[Record], base_offset: int = 40) -> bytes:
    return encode_batch(
        [
            LogRecord(base_offset + at, NOW, *encode_record(record))
            for at, record in enumerate(records)
        ]
    )


def replayed(batch: bytes) -> Shard:
    """Return a shard after the replay of each record. Raises as the loader does."""
    shard = Shard(Settings())
    for stored in decode_records(batch):
        record = decode_record(stored.key, stored.value)
        assert record is not None
        shard.replay(record, Origin(stored.offset, stored.timestamp_ms))
    return shard


def read(batch: bytes) -> Shard | None:
    """Return a shard with the commits of a batch; None if there is any other record."""
    commits = read_commits(batch, read_header(batch))
    if commits is None:
        return None
    shard = Shard(Settings())
    for each in commits:
        shard.replay_commits(*each)
    return shard


def is_same(one: Shard, other: Shard) -> bool:
    return (
        one.state.offsets.stored == other.state.offsets.stored
        and one.state.classic_groups.keys() == other.state.classic_groups.keys()
        and one.changed == other.changed
    )


commits = st.builds(
    commit,
    st.sampled_from(["g", "h", "group " * 30]),
    st.sampled_from(["t", "u", "t" * 249]),
    st.integers(0, 3),
    st.integers(-1, 2**63 - 1),
    metadata=st.sampled_from(["", "", "", "é", "m" * 126, "m" * 127, "m" * 5_000]),
    time_ms=st.sampled_from([NOW, NOW, 0]),
    # Version 3, which brokers before Kafka 4.2 wrote, has no topic id.
    topic_id=st.just(ZERO_UUID),
    version=st.sampled_from([3, 4]),
)
identified = st.builds(commit, topic_id=st.just(TOPIC_ID), metadata=st.text())


@settings(max_examples=100)
@given(st.lists(commits | identified, min_size=1, max_size=12), st.integers(0, 2**40))
def test_commits_have_the_effects_of_their_replay(
    records: list[Record], base_offset: int
) -> None:
    batch = batch_of(records, base_offset)
    shard = read(batch)
    assert shard is not None
    assert is_same(shard, replayed(batch))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200, 5_000])
def test_the_records_of_a_large_commit_are_read_in_few_runs(count: int) -> None:
    batch = batch_of(commit(partition=index, offset=index) for index in range(count))
    found = read_commits(batch, read_header(batch))
    assert found is not None
    assert len(found) <= 2
    shard = read(batch)
    assert shard is not None
    assert is_same(shard, replayed(batch))


@pytest.mark.parametrize(
    "other",
    [
        commit(expire_ms=NOW),
        Record(OffsetCommitKey(group="g", topic="t", partition=0), None),
    ],
)
def test_other_records_are_left_to_the_replay(other: Record) -> None:
    for records in ([other], [commit(), other], [other, commit(), commit()]):
        assert read(batch_of(records)) is None


def test_records_with_short_keys_are_left_to_the_replay() -> None:
    # As a gateway's barrier. Compiled code has no slices of a negative size.
    for size in range(8):
        batch = encode_batch([LogRecord(0, NOW, bytes(size), b"value")])
        assert read_commits(batch, read_header(batch)) is None


def test_transactional_and_very_large_batches_are_left_to_the_replay() -> None:
    key, value = encode_record(commit())
    batch = encode_batch(
        [LogRecord(0, NOW, key, value)],
        producer=Producer(1, 0),
        attributes=TRANSACTIONAL,
    )
    assert read(batch) is None
    large = [LogRecord(at, NOW, key, value) for at in range(DELTAS_MAX + 1)]
    assert read(encode_batch(large)) is None


def test_records_with_gaps_are_left_to_the_replay() -> None:
    """Compaction keeps the offsets of the records that remain."""
    key, value = encode_record(commit())
    gap = encode_batch([LogRecord(0, NOW, key, value), LogRecord(2, NOW, key, value)])
    assert read(gap) is None


def test_a_damaged_batch_is_read_as_it_is_replayed() -> None:
    dice = random.Random(3)
    records = [commit(partition=at, metadata="é" * (at // 3)) for at in range(6)]
    whole = batch_of([*records, commit(topic_id=TOPIC_ID)])
    readable = 0
    for _ in range(2_000):
        damaged = bytearray(whole)
        damaged[dice.randrange(61, len(whole))] = dice.randrange(256)
        shard = read(bytes(damaged))
        if shard is None:
            continue
        readable += 1
        try:
            assert is_same(shard, replayed(bytes(damaged)))
        except (MalformedFrame, LogCorrupt) as error:
            raise AssertionError("read, but not replayed") from error
    assert readable > 100
