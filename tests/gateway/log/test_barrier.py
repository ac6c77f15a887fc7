"""Barriers and the owners that a reader of the log accepts."""

from __future__ import annotations

import pytest

from coterie.errors import LogCorrupt
from coterie.gateway.log.barrier import (
    Barrier,
    Lineage,
    encode_barrier,
    read_barrier,
)
from coterie.wire.record_batch import (
    BatchHeader,
    LogRecord,
    Producer,
    encode_batch,
    read_header,
    stamped,
)


def barrier(time_ms: int, *, is_repeated: bool = False) -> Barrier:
    return Barrier(
        cluster_id="cluster",
        node="node-1",
        partition_count=50,
        time_ms=time_ms,
        is_repeated=is_repeated,
    )


BARRIER = barrier(1_000)


def header_of(producer_id: int, epoch: int) -> BatchHeader:
    batch = encode_barrier(BARRIER, 0)
    return read_header(stamped(batch, Producer(producer_id, epoch, 0)))


def test_a_barrier_is_read_as_it_was_written() -> None:
    for each in (BARRIER, barrier(1_000, is_repeated=True)):
        batch = encode_barrier(each, 5)
        assert read_barrier(batch, read_header(batch)) == each


def test_other_batches_are_no_barriers() -> None:
    for key in (b"k", b"\x7c\x02k", None):
        batch = encode_batch([LogRecord(0, 0, key, b"\x7c\x01")])
        assert read_barrier(batch, read_header(batch)) is None


def test_a_barrier_of_a_newer_gateway_is_refused() -> None:
    batch = encode_batch([LogRecord(0, 0, b"\x7c\x01", b"\0\x01")])
    with pytest.raises(LogCorrupt, match="upgrade this node"):
        read_barrier(batch, read_header(batch))


def test_every_batch_before_the_first_barrier_is_accepted() -> None:
    lineage = Lineage(9, 9_000)
    assert lineage.accepts(header_of(1, 0))
    assert lineage.observe(header_of(2, 0), BARRIER)
    assert not lineage.accepts(header_of(1, 0))
    assert lineage.accepts(header_of(2, 0))


def test_a_higher_epoch_supersedes_a_lower_one() -> None:
    lineage = Lineage(9, 9_000)
    assert lineage.observe(header_of(1, 5), BARRIER)
    assert not lineage.observe(header_of(1, 4), barrier(2_000))
    assert lineage.accepts(header_of(1, 5))
    assert lineage.observe(header_of(1, 6), BARRIER)
    assert not lineage.accepts(header_of(1, 5))


def test_another_producer_id_supersedes_by_the_time_of_its_epoch() -> None:
    lineage = Lineage(9, 9_000)
    lineage.observe(header_of(1, 5), BARRIER)
    assert lineage.observe(header_of(2, 0), barrier(2_000))
    late = barrier(1_500)
    assert not lineage.observe(header_of(1, 6), late)
    assert not lineage.accepts(header_of(1, 6))


def test_a_repeated_barrier_supersedes_no_other_producer() -> None:
    lineage = Lineage(9, 9_000)
    lineage.observe(header_of(1, 5), BARRIER)
    lineage.observe(header_of(2, 0), barrier(2_000))
    zombie = barrier(3_000, is_repeated=True)
    assert not lineage.observe(header_of(1, 5), zombie)
    assert lineage.accepts(header_of(2, 0))


def test_the_readers_producer_id_supersedes_an_earlier_owners_late_barrier() -> None:
    lineage = Lineage(2, 3_000)
    lineage.observe(header_of(1, 6), barrier(1_500))
    assert lineage.accepts(header_of(2, 0)), "compaction has removed its barrier"
    assert not lineage.accepts(header_of(1, 6))
    assert not lineage.observe(header_of(1, 7), barrier(1_600))
    assert lineage.observe(header_of(2, 1), barrier(3_000))


def test_a_late_barrier_after_the_readers_own_batches_supersedes_nothing() -> None:
    lineage = Lineage(2, 3_000)
    assert lineage.accepts(header_of(2, 1)), "compaction has removed its barrier"
    assert not lineage.observe(header_of(1, 5), barrier(1_000))
    assert not lineage.accepts(header_of(1, 5))
    assert lineage.accepts(header_of(2, 1))


def test_a_late_reader_does_not_supersede_a_later_owner() -> None:
    lineage = Lineage(1, 1_500)
    lineage.observe(header_of(2, 0), barrier(2_000))
    assert not lineage.accepts(header_of(1, 5))
    assert not lineage.observe(header_of(1, 6), barrier(1_500))
