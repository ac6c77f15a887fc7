"""The simulated log cleaner drops and keeps what Kafka's does, and whatever it
leaves of a shard's log, at any time, gives the same offsets as the whole log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.offsets.committed import CommittedOffset
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import OffsetCommitKey
from coterie.broker.coordinator.result import Record
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.snapshot import commit_record
from coterie.broker.runtime.loader import replay_batch
from coterie.settings import Settings
from coterie.types import ProducerId, TopicPartition
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    crc_matches,
    decode_records,
    encode_batch,
    split_batches,
)
from sim.gateway.cleaner import CleanerRun, LastRecord, Stored, clean, clean_at_random
from sim.gateway.partition import UpstreamPartition

_OWNER: Final = 1
_APPLICATIONS: Final = (7, 8)
_PASSED: Final = 2**61
_EARLIER, _LATER = 1_000, 5_000


@dataclass
class Log:
    """A partition with its producers."""

    partition: UpstreamPartition = field(default_factory=UpstreamPartition)
    producers: dict[ProducerId, Producer] = field(default_factory=dict)
    timestamp_ms: int = _EARLIER

    def append(
        self, producer_id: ProducerId, records: dict[bytes, bytes | None]
    ) -> None:
        producer = self.producers.get(producer_id, Producer(producer_id, 0, 0))
        batch = encode_batch(
            [
                LogRecord(at, self.timestamp_ms, key, value)
                for at, (key, value) in enumerate(records.items())
            ],
            producer=producer,
            attributes=0 if producer_id == _OWNER else TRANSACTIONAL,
        )
        sequence = producer.base_sequence + len(records)
        self.producers[producer_id] = producer._replace(base_sequence=sequence)
        self.partition.append(batch, self.timestamp_ms)
        self.partition.replicate(self.partition.end)

    def end(self, producer_id: ProducerId, *, commit: bool, bumps: bool) -> None:
        producer = self.producers.get(producer_id, Producer(producer_id, 0, 0))
        if bumps:
            producer = Producer(producer_id, producer.producer_epoch + 1, 0)
        self.producers[producer_id] = producer
        self.partition.append_marker(producer, self.timestamp_ms, commit=commit)
        self.partition.replicate(self.partition.end)

    def clean(self, **changes: int) -> None:
        self.partition.compact(CleanerRun(self.partition.end)._replace(**changes))

    def contents(self) -> list[Any]:
        """Return the keys of each batch, or the kind of batch without any."""
        return [
            [record.key for record in decode_records(batch, header)]
            if not header.is_control
            else f"marker of {header.record_count}"
            for header, batch in self.partition.stored
        ]


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_tombstone_goes_once_its_delete_horizon_has_passed(log: Log) -> None:
    log.append(_OWNER, {b"a": b"1"})
    log.append(_OWNER, {b"a": None})
    log.append(_OWNER, {b"b": b"1"})
    log.clean(horizon_ms=_LATER, passed_ms=_PASSED)
    assert log.contents() == [[b"a"], [b"b"]]
    log.clean(passed_ms=_LATER - 1)
    assert log.contents() == [[b"a"], [b"b"]]
    log.clean(passed_ms=_LATER)
    assert log.contents() == [[b"b"]]


def test_a_batch_with_a_delete_horizon_keeps_its_timestamps(log: Log) -> None:
    log.append(_OWNER, {b"a": None, b"b": b"1"})
    log.clean(horizon_ms=_LATER)
    ((header, batch),) = split_batches(log.partition.read(0, 1 << 20))
    assert header.base_timestamp_ms == _LATER
    assert header.max_timestamp_ms == _EARLIER
    assert [each.timestamp_ms for each in decode_records(batch, header)] == [
        _EARLIER,
        _EARLIER,
    ]
    assert crc_matches(batch)


def test_a_marker_stays_until_all_batches_of_its_transaction_are_gone(
    log: Log,
) -> None:
    log.append(7, {b"a": b"1"})
    log.end(7, commit=True, bumps=False)
    log.append(_OWNER, {b"b": b"1"})
    log.clean(passed_ms=_PASSED)
    assert log.contents() == [[b"a"], "marker of 1", [b"b"]]
    log.append(7, {b"a": b"2"})
    log.end(7, commit=True, bumps=False)
    log.append(_OWNER, {b"b": b"2"})
    log.clean(horizon_ms=_LATER)  # drops the batch
    assert log.contents()[0] == "marker of 1"
    log.clean(horizon_ms=_LATER)  # stamps its marker
    log.clean(passed_ms=_LATER)
    assert log.contents() == [[b"a"], "marker of 1", [b"b"]]


def test_the_last_marker_of_a_producer_with_a_new_epoch_stays_empty(log: Log) -> None:
    log.append(7, {b"a": b"1"})
    log.end(7, commit=False, bumps=True)
    log.append(_OWNER, {b"b": b"1"})
    for _ in range(3):
        log.clean(horizon_ms=_LATER, passed_ms=_LATER)
    assert log.contents() == ["marker of 0", [b"b"]]


def test_the_last_batch_of_a_run_stays_empty(log: Log) -> None:
    log.append(7, {b"a": b"1"})
    log.end(7, commit=False, bumps=False)
    log.append(7, {b"b": b"1"})
    log.clean(until=1)
    assert log.contents()[0] == []


def test_a_full_map_leaves_what_follows(log: Log) -> None:
    for value in (b"1", b"2", b"3"):
        log.append(_OWNER, {b"a": value})
    log.clean(mapped_until=2)
    assert log.contents() == [[b"a"], [b"a"]]


def test_a_cleaner_that_stops_has_replaced_the_first_segments(log: Log) -> None:
    for value in (b"1", b"2", b"3"):
        log.append(_OWNER, {b"a": value})
    log.clean(stopped_at=1)
    assert log.contents() == [[b"a"], [b"a"]]
    assert log.partition.stored[0].header.base_offset == 1


def test_nothing_after_the_start_of_an_open_transaction_changes(log: Log) -> None:
    log.append(_OWNER, {b"a": b"1"})
    log.append(7, {b"a": b"2"})
    log.append(_OWNER, {b"b": b"1"})
    log.append(_OWNER, {b"b": b"2"})
    log.clean()
    assert log.contents() == [[b"a"], [b"a"], [b"b"], [b"b"]]


def test_an_empty_log_can_be_cleaned() -> None:
    last = {7: LastRecord(None, 0)}
    assert clean([], CleanerRun(0), last) == []


# What is left of a shard's log.

_values = st.none() | st.integers(0, 99)
_offsets = st.dictionaries(
    st.tuples(st.sampled_from("gh"), st.integers(0, 1)), _values, min_size=1, max_size=3
)
_fresh = st.dictionaries(
    st.tuples(st.sampled_from("gh"), st.integers(0, 1)),
    st.integers(0, 99),
    min_size=1,
    max_size=2,
)
_applications = st.sampled_from(_APPLICATIONS)
_steps = st.one_of(
    st.tuples(st.just("commit"), _offsets),
    st.tuples(st.just("commit"), _fresh),
    st.tuples(st.just("transact"), _applications, _fresh),
    st.tuples(st.just("end"), _applications, st.booleans(), st.booleans()),
    st.tuples(st.just("clean"), st.randoms(use_true_random=False)),
    st.tuples(st.just("expire"), _applications),
)
_Offsets: TypeAlias = dict[tuple[str, int], int | None]


class _Replay:
    """A shard that replays batches."""

    def __init__(self) -> None:
        self.shard = Shard(Settings())
        self._partition = cast(Any, SimpleNamespace(name="0", records_since_snapshot=0))

    def take(self, each: Stored) -> None:
        if each.header.record_count:
            replay_batch(
                self._partition, self.shard, each.batch, each.header.base_offset
            )


class _History(Log):
    """A log of offsets, and the state of its owner."""

    def __init__(self) -> None:
        super().__init__()
        self.live = _Replay()

    def do_commit(self, offsets: _Offsets) -> None:
        self._append(_OWNER, offsets)

    def do_transact(self, producer_id: ProducerId, offsets: _Offsets) -> None:
        self._append(producer_id, offsets)

    def _append(self, producer_id: ProducerId, offsets: _Offsets) -> None:
        self.timestamp_ms += 1
        records = (_record(*name, value) for name, value in offsets.items())
        self.append(producer_id, dict(map(_encoded, records)))
        self.live.take(self.partition.stored[-1])

    def do_end(self, producer_id: ProducerId, commit: bool, bumps: bool) -> None:
        self.end(producer_id, commit=commit, bumps=bumps)
        self.live.take(self.partition.stored[-1])

    def do_clean(self, rng: Any) -> None:
        """Let the cleaner run on the log itself."""
        self.partition.stored = self.cleaned(rng)

    def do_expire(self, producer_id: ProducerId) -> None:
        """Let upstream forget an application that has no open transaction."""
        entry = self.partition.producers.entries.get(producer_id)
        if entry is not None and entry.transaction_start is None:
            del self.partition.producers.entries[producer_id]
            self.producers.pop(producer_id)

    def cleaned(self, rng: Any) -> list[Stored]:
        log = self.partition
        return clean_at_random(log.stored, log.stable_end, log.last_records(), rng)


def _record(group_id: str, partition: int, value: int | None) -> Record:
    if value is None:
        key = OffsetCommitKey(group=group_id, topic="t", partition=partition)
        return Record(key, None)
    name = TopicPartition("t", partition)
    return commit_record(group_id, name, CommittedOffset(value, -1, "", 1_000))


def _encoded(record: Record) -> tuple[bytes, bytes | None]:
    key, value = encode_record(record)
    return key, value


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(_steps, max_size=25), st.randoms(use_true_random=False))
def test_any_cleaned_log_of_any_prefix_gives_the_live_offsets(
    steps: list[tuple[Any, ...]], rng: Any
) -> None:
    history = _History()
    for name, *arguments in steps:
        getattr(history, f"do_{name}")(*arguments)
        for stored in (history.partition.stored, history.cleaned(rng)):
            loaded = _Replay()
            for each in stored:
                loaded.take(each)
            assert loaded.shard.state.offsets == history.live.shard.state.offsets
