"""The contract of `Log`, tested with all implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.broker.log.log import Bounds
from coterie.wire.record_batch import CONTROL, TRANSACTIONAL, Producer, read_header
from tests.broker.log.logs import (
    OTHER,
    PARTITION,
    Store,
    append,
    journal_store,
    make_batch,
    memory_store,
    small_journal_store,
)


@pytest.fixture(
    params=[memory_store, journal_store, small_journal_store],
    ids=["memory", "journal", "small-journal"],
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    make: Callable[[Path], Store] = request.param
    made = make(tmp_path)
    made.log.create(PARTITION)
    made.log.flush()
    yield made
    made.log.close()


def test_a_new_partition_is_empty(store: Store) -> None:
    assert store.log.bounds(PARTITION) == Bounds(0, 0, 0)
    assert store.log.partitions() == [PARTITION]
    assert list(store.log.headers(PARTITION)) == []


def test_an_unknown_partition_is_an_error(store: Store) -> None:
    with pytest.raises(KeyError):
        store.log.bounds(OTHER)


def test_staged_batches_have_offsets_and_are_not_readable(store: Store) -> None:
    append(store.log, records=3)
    assert store.log.bounds(PARTITION) == Bounds(0, 0, 3)
    assert store.log.has_staged()
    assert store.log.read(PARTITION, 0, 1_000) == []


def test_flushed_batches_can_be_read(store: Store) -> None:
    batch = append(store.log, records=3)
    store.log.flush()
    assert not store.log.has_staged()
    assert store.log.bounds(PARTITION) == Bounds(0, 3, 3)
    assert store.log.next_offset(PARTITION) == 3
    assert store.log.read(PARTITION, 0, 1_000) == [batch]


@pytest.mark.parametrize(
    ("offset", "bytes_max", "sizes"),
    [
        (0, 1, [100]),
        (0, 300, [100, 200]),
        (2, 500, [200, 300]),
        (3, 599, [200, 300]),
        (6, 10_000, [400, 500]),
        (10, 10_000, []),
    ],
)
@pytest.mark.parametrize("cold", [False, True], ids=["tail", "store"])
def test_reads_begin_at_the_batch_with_the_offset(
    store: Store, offset: int, bytes_max: int, sizes: list[int], cold: bool
) -> None:
    for size in range(100, 600, 100):
        append(store.log, size, records=2)
    store.log.flush()
    log = store.reopen() if cold else store.log
    found = log.read(PARTITION, offset, bytes_max)
    assert [len(batch) for batch in found] == sizes


def test_a_new_process_reads_flushed_data(store: Store) -> None:
    batches = [append(store.log, size, at_ms=size) for size in (105, 106)]
    store.log.put("space", b"key", b"value")
    store.log.flush()
    log = store.reopen()
    assert log.bounds(PARTITION) == Bounds(0, 2, 2)
    assert list(log.headers(PARTITION)) == [read_header(each) for each in batches]
    assert log.get("space", b"key") == b"value"


def test_the_fields_of_a_batch_survive_a_restart(store: Store) -> None:
    producer, attributes = Producer(9, 2, 100), TRANSACTIONAL | CONTROL
    batch = make_batch(0, 4, 77, 99, producer=producer, attributes=attributes)
    store.log.append(PARTITION, batch)
    store.log.flush()
    assert list(store.reopen().headers(PARTITION)) == [read_header(batch)]


def test_an_append_at_an_unexpected_offset_is_an_assertion_error(store: Store) -> None:
    with pytest.raises(AssertionError):
        store.log.append(PARTITION, make_batch(1, 1, 0, 100))


def test_appends_after_take_belong_to_the_next_flush(store: Store) -> None:
    append(store.log)
    first = store.log.take()
    append(store.log)
    first.write()
    store.log.settle(first)
    assert store.log.bounds(PARTITION) == Bounds(0, 1, 2)
    store.log.flush()
    assert store.log.bounds(PARTITION) == Bounds(0, 2, 2)


def test_abandoned_appends_are_discarded(store: Store) -> None:
    append(store.log)
    store.log.flush()
    append(store.log)
    store.log.create(OTHER)
    lost = store.log.take()
    append(store.log)
    store.log.abandon(lost)
    assert not store.log.has_staged()
    assert store.log.bounds(PARTITION) == Bounds(0, 1, 1)
    assert store.log.partitions() == [PARTITION]
    append(store.log)
    store.log.flush()
    assert store.reopen().bounds(PARTITION) == Bounds(0, 2, 2)


def test_truncation_drops_whole_batches_and_advances_the_log_start(
    store: Store,
) -> None:
    for _ in range(3):
        append(store.log, records=2)
    store.log.flush()
    store.log.truncate(PARTITION, 3)
    store.log.flush()
    assert store.log.bounds(PARTITION) == Bounds(3, 6, 6)
    assert [each.base_offset for each in store.log.headers(PARTITION)] == [2, 4]
    assert store.reopen().bounds(PARTITION) == Bounds(3, 6, 6)


def test_an_empty_partition_keeps_its_next_offset(store: Store) -> None:
    append(store.log, records=4)
    store.log.flush()
    store.log.truncate(PARTITION, 4)
    store.log.flush()
    assert store.reopen().bounds(PARTITION) == Bounds(4, 4, 4)


def test_a_replaced_batch_is_read_instead_of_the_original(store: Store) -> None:
    *_, last = [append(store.log, size) for size in (105, 106, 107)]
    store.log.flush()
    smaller = make_batch(1, 1, 0, 80)
    store.log.replace(PARTITION, 0, None)
    store.log.replace(PARTITION, 1, smaller)
    store.log.flush()
    for open_log in (lambda: store.log, store.reopen):
        log = open_log()
        assert log.read(PARTITION, 0, 1_000) == [smaller, last]
        assert [each.size_bytes for each in log.headers(PARTITION)] == [80, 107]
        assert log.size_bytes(PARTITION) == 187


def test_a_batch_truncated_during_compaction_is_not_replaced(store: Store) -> None:
    for _ in range(3):
        append(store.log)
    store.log.flush()
    store.log.truncate(PARTITION, 2)
    store.log.replace(PARTITION, 0, make_batch(0, 0, 0, 80))
    store.log.replace(PARTITION, 1, None)
    store.log.flush()
    assert [each.base_offset for each in store.log.headers(PARTITION)] == [2]
    assert store.reopen().bounds(PARTITION) == Bounds(2, 3, 3)


def test_offsets_do_not_decrease_after_compaction_of_the_last_batch(
    store: Store,
) -> None:
    append(store.log, records=4)
    store.log.flush()
    store.log.replace(PARTITION, 0, None)
    store.log.flush()
    assert store.reopen().bounds(PARTITION) == Bounds(0, 4, 4)


def test_deleting_a_partition_deletes_its_bytes(store: Store) -> None:
    append(store.log)
    store.log.flush()
    store.log.delete(PARTITION)
    with pytest.raises(KeyError):
        store.log.bounds(PARTITION)
    store.log.flush()
    assert store.log.read(PARTITION, 0, 100) == []
    assert store.reopen().partitions() == []


def test_the_size_is_the_sum_of_appended_bytes(store: Store) -> None:
    assert store.log.size_bytes(PARTITION) == 0
    append(store.log, 105)
    append(store.log, 106)
    store.log.flush()
    assert store.log.size_bytes(PARTITION) == 211
    assert store.reopen().size_bytes(PARTITION) == 211


def test_a_timestamp_lookup_returns_the_first_batch_at_or_after_it(
    store: Store,
) -> None:
    for at_ms in (10, 30, 20, 40):
        append(store.log, at_ms=at_ms)
    store.log.flush()
    found = store.log.find_timestamp(PARTITION, 15)
    assert found is not None
    assert found.base_offset == 1
    assert store.log.find_timestamp(PARTITION, 41) is None
    later = store.log.find_timestamp(PARTITION, 15, found.last_offset + 1)
    assert later is not None
    assert later.base_offset > found.base_offset


def test_headers_begin_at_the_batch_with_the_offset(store: Store) -> None:
    for _ in range(3):
        append(store.log, records=2)
    store.log.flush()
    assert [each.base_offset for each in store.log.headers(PARTITION, 3)] == [2, 4]


def test_values_of_a_namespace_are_sorted_and_can_be_deleted(store: Store) -> None:
    for key in (b"b", b"a", b"c"):
        store.log.put("space", key, key * 2)
    store.log.put("other", b"a", b"x")
    store.log.flush()
    store.log.put("space", b"c", None)
    store.log.put("space", b"b", b"new")
    store.log.flush()
    assert list(store.log.items("space")) == [(b"a", b"aa"), (b"b", b"new")]
    assert store.log.get("space", b"c") is None
