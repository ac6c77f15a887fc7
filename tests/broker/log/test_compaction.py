"""Compaction retains the last value of every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from coterie.broker.log.compaction import compact
from coterie.broker.log.log import LogPartition, Truncate
from coterie.broker.log.memory import MemoryLog
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    BatchHeader,
    LogRecord,
    Producer,
    crc_matches,
    decode_marker,
    decode_records,
    encode_batch,
    encode_marker,
    read_header,
)
from tests.broker.log.logs import PARTITION

KEEP_TOMBSTONES = -1


@dataclass
class Writer:
    """A writer and reader of batches in a log in memory."""

    log: MemoryLog = field(default_factory=MemoryLog)

    def __post_init__(self) -> None:
        self.log.create(PARTITION)

    def write(
        self, *pairs: tuple[bytes | None, bytes | None], producer_id: int = -1
    ) -> None:
        base = self.log.bounds(PARTITION).next_offset
        records = [LogRecord(base + i, base + i, *pair) for i, pair in enumerate(pairs)]
        producer = Producer(producer_id, 0 if producer_id >= 0 else -1)
        attributes = TRANSACTIONAL if producer_id >= 0 else 0
        self.log.append(
            PARTITION, encode_batch(records, producer=producer, attributes=attributes)
        )

    def end(self, producer_id: int, *, commit: bool) -> None:
        base = self.log.bounds(PARTITION).next_offset
        self.log.append(
            PARTITION, encode_marker(base, base, producer_id, 0, commit=commit)
        )

    def compact(
        self,
        *,
        start: int = 0,
        end: int | None = None,
        horizon_ms: int = KEEP_TOMBSTONES,
    ) -> int:
        """Compact, flushing after every step; return the end offset of compaction."""
        self.log.flush()
        end = self.log.bounds(PARTITION).flushed_offset if end is None else end
        steps = compact(
            self.log, PARTITION, start=start, end=end, tombstones_before_ms=horizon_ms
        )
        result: Any = None
        while True:
            try:
                work = steps.send(result)
            except StopIteration as ended:
                self.log.flush()
                return int(ended.value)
            self.log.flush()
            result = None if work is None else work()

    def batches(self) -> list[bytes]:
        self.log.flush()
        return list(self.log.read(PARTITION, 0, 1 << 30))

    def last_values(self) -> dict[bytes, tuple[int, bytes | None]]:
        """Return offset and value of the last committed record of each key."""
        found: dict[bytes, tuple[int, bytes | None]] = {}
        opened: dict[int, list[LogRecord]] = {}
        for batch in self.batches():
            header, records = read_header(batch), decode_records(batch)
            if header.is_control:
                marker = decode_marker(records[0])
                assert marker is not None
                ended = opened.pop(header.producer_id, [])
                records = ended if marker.commit else []
            elif header.is_transactional:
                opened.setdefault(header.producer_id, []).extend(records)
                continue
            for record in records:
                if record.key and record.offset >= found.get(record.key, (0, None))[0]:
                    found[record.key] = (record.offset, record.value)
        return found

    def offsets(self) -> list[int]:
        return [r.offset for batch in self.batches() for r in decode_records(batch)]


def test_only_the_last_record_of_a_key_is_retained_at_its_offset() -> None:
    writer = Writer()
    writer.write((b"a", b"1"), (b"b", b"1"))
    writer.write((b"a", b"2"), (b"c", b"1"))
    writer.compact()
    assert writer.offsets() == [1, 2, 3]
    assert writer.last_values()[b"a"] == (2, b"2")


def test_encoding_a_batch_sets_offsets_and_checksum() -> None:
    writer = Writer()
    writer.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    writer.write((b"b", b"2"), (b"a", b"3"), (b"c", b"1"))
    writer.compact(end=3)
    [first, _] = writer.batches()
    assert read_header(first).base_offset == 0
    assert read_header(first).last_offset == 2
    assert crc_matches(first)
    assert [record.offset for record in decode_records(first)] == [1, 2]


def test_an_empty_batch_is_removed() -> None:
    writer = Writer()
    writer.write((b"a", b"1"))
    writer.write((b"a", b"2"))
    writer.compact()
    assert len(writer.batches()) == 1


@pytest.mark.parametrize(("before", "offsets"), [(1, [2]), (3, [])])
@pytest.mark.pure
def test_a_batch_truncated_by_another_thread_is_skipped(
    monkeypatch: pytest.MonkeyPatch, before: int, offsets: list[int]
) -> None:
    writer = Writer()
    for value in (b"1", b"2", b"3"):
        writer.write((b"a", value))
    writer.batches()
    writer.log = writer.log.reopen()
    look_up = writer.log.headers

    def raced(partition: LogPartition, offset: int = 0) -> Iterator[BatchHeader]:
        found = list(look_up(partition, offset))
        writer.log.store([Truncate(writer.log._parts[PARTITION], before)])
        yield from found

    monkeypatch.setattr(writer.log, "headers", raced)
    writer.compact()
    assert writer.offsets() == offsets


def test_compaction_does_not_change_batches_from_its_end_offset_on() -> None:
    writer = Writer()
    writer.write((b"a", b"1"))
    writer.write((b"a", b"2"))
    writer.write((b"a", b"3"))
    writer.compact(end=2)
    assert writer.offsets() == [1, 2]


def test_a_tombstone_older_than_the_horizon_is_removed() -> None:
    writer = Writer()
    writer.write((b"a", b"1"))
    writer.write((b"a", None))
    writer.compact(horizon_ms=0)
    assert writer.last_values() == {b"a": (1, None)}
    writer.compact(horizon_ms=1)
    assert writer.offsets() == []


def test_a_later_compaction_reads_only_new_batches() -> None:
    writer = Writer()
    writer.write((b"a", b"1"))
    writer.write((b"b", b"1"))
    writer.compact()
    writer.write((b"a", b"2"))
    writer.compact(start=2)
    assert writer.offsets() == [1, 2]


def test_aborted_records_replace_nothing_and_are_removed() -> None:
    writer = Writer()
    writer.write((b"a", b"1"))
    writer.write((b"a", b"2"), producer_id=7)
    writer.end(7, commit=False)
    writer.compact()
    assert writer.offsets() == [0, 2]


def test_a_committed_transactional_record_does_not_replace_a_later_record() -> None:
    writer = Writer()
    writer.write((b"a", b"1"), producer_id=7)
    writer.write((b"a", b"2"))
    writer.end(7, commit=True)
    writer.compact()
    assert writer.last_values() == {b"a": (1, b"2")}


def test_a_transaction_open_at_the_end_is_left_for_the_next_compaction() -> None:
    writer = Writer()
    writer.write((b"a", b"1"))
    writer.write((b"a", b"2"))
    writer.write((b"a", b"3"), producer_id=7)
    writer.write((b"b", b"1"))
    writer.end(7, commit=True)
    assert writer.compact(end=4) == 2
    assert writer.offsets() == [1, 2, 3, 4]
    assert writer.compact(start=2) == 5
    assert writer.offsets() == [2, 3, 4]


pairs = st.tuples(
    st.sampled_from([b"a", b"b", b"c"]), st.one_of(st.none(), st.binary(max_size=3))
)
writes = st.lists(
    st.tuples(
        st.sampled_from(["plain", "commit", "abort"]),
        st.lists(pairs, min_size=1, max_size=4),
    ),
    max_size=12,
)


@given(writes, st.data())
def test_compaction_keeps_the_last_value_of_every_key(
    history: list[tuple[str, list[tuple[bytes, bytes | None]]]], data: st.DataObject
) -> None:
    writer = Writer()
    ends = [0]
    for number, (kind, records) in enumerate(history):
        if kind == "plain":
            writer.write(*records)
        else:
            writer.write(*records, producer_id=number)
            writer.end(number, commit=kind == "commit")
        ends.append(writer.log.bounds(PARTITION).next_offset)
    before = writer.last_values()
    start = 0
    for end in sorted(data.draw(st.lists(st.sampled_from(ends), max_size=3))):
        writer.compact(start=start, end=end)
        start = end
    assert writer.last_values() == before
    assert writer.offsets() == sorted(writer.offsets())
