"""Acquisition: limits, batches, throttled delivery, compaction and transactions."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.share_partition.acknowledge import (
    Acknowledgement,
    acknowledge,
)
from coterie.broker.coordinator.share_partition.acquire import (
    Acquired,
    Acquisition,
    OffsetRange,
    acquire,
    archive_aborted,
)
from coterie.broker.coordinator.share_partition.partition import (
    ShareLimits,
    SharePartition,
)
from coterie.broker.coordinator.share_partition.state import (
    ACKNOWLEDGED,
    ARCHIVING,
    AVAILABLE,
    StateBatch,
)

LIMITS = ShareLimits(100, 5, 2_000, can_renew=True)


def fetch(
    partition: SharePartition,
    *read: tuple[int, int],
    records_max: int = 500,
    batch_size: int = 500,
    exact: bool = False,
    limits: ShareLimits = LIMITS,
    member: str = "m",
) -> list[Acquired]:
    wants = Acquisition(member, records_max, batch_size, exact, 0)
    batches = [OffsetRange(*each) for each in read]
    return acquire(partition, partition.next_fetch_offset(), batches, wants, limits)


def settle(partition: SharePartition, first: int, last: int, kind: int) -> None:
    batch = Acknowledgement(first, last, [kind])
    acknowledge(partition, "m", [batch], LIMITS, 0)
    partition.written(partition.last_write)


@pytest.mark.fact("SG-219")
def test_the_last_record_batch_is_acquired_whole() -> None:
    partition = SharePartition(0)
    assert fetch(partition, (0, 14), records_max=10) == [(0, 14, 1)]


@pytest.mark.fact("SG-219")
def test_record_limit_acquires_exactly_as_many_and_leaves_the_rest() -> None:
    partition = SharePartition(0)
    read = (0, 14)
    assert fetch(partition, read, records_max=10, exact=True) == [(0, 9, 1)]
    assert partition.next_fetch_offset() == 10
    assert fetch(partition, read, records_max=10, exact=True) == [(10, 14, 1)]


@pytest.mark.fact("SG-218")
def test_batches_are_cut_at_the_record_batch_after_the_batch_size() -> None:
    acquired = fetch(SharePartition(0), (0, 3), (4, 7), (8, 11), (12, 40), batch_size=6)
    assert acquired == [(0, 7, 1), (8, 40, 1)]


@pytest.mark.fact("SG-221")
def test_at_the_limit_of_locks_only_known_records_are_acquired() -> None:
    limits = LIMITS._replace(record_locks_max=10)
    partition = SharePartition(0)
    assert fetch(partition, (0, 9), (10, 19), limits=limits) == [(0, 9, 1)]
    assert not partition.can_acquire(limits)
    assert fetch(partition, (10, 19), limits=limits) == []
    settle(partition, 4, 5, 2)
    assert partition.can_acquire(limits)
    assert fetch(partition, (0, 9), (10, 19), limits=limits) == [(4, 5, 2)]


def test_a_fetch_skips_records_of_other_members() -> None:
    partition = SharePartition(0)
    fetch(partition, (0, 9))
    settle(partition, 0, 1, 2)
    settle(partition, 8, 9, 2)
    assert fetch(partition, (0, 9), (10, 12), member="n") == [
        (0, 1, 2),
        (8, 9, 2),
        (10, 12, 1),
    ]


@pytest.mark.fact("SG-272")
def test_offsets_that_were_acquired_before_a_restart_are_delivered_again() -> None:
    partition = SharePartition(0, [StateBatch(5, 9, ACKNOWLEDGED, 1)])
    assert partition.next_fetch_offset() == 0
    assert fetch(partition, (0, 9)) == [(0, 4, 1)]
    settle(partition, 0, 4, 1)
    assert partition.start_offset == 10


def test_the_soft_limit_counts_in_unread_offsets_too() -> None:
    partition = SharePartition(0, [StateBatch(100, 100, AVAILABLE, 1)])
    read = [(at, at + 4) for at in range(0, 105, 5)]
    assert fetch(partition, *read, records_max=7) == [(0, 9, 1)]
    assert partition.next_fetch_offset() == 10


def test_offsets_that_compaction_removed_are_finished() -> None:
    partition = SharePartition(0, [StateBatch(3, 9, AVAILABLE, 1)])
    assert fetch(partition, (5, 9)) == [(5, 9, 2)]
    assert partition.start_offset == 5


def test_the_start_offset_moves_to_the_first_record_of_a_compacted_log() -> None:
    partition = SharePartition(0)
    assert fetch(partition, (7, 9)) == [(7, 9, 1)]
    assert partition.start_offset == 7


def fail(partition: SharePartition, size: int, times: int) -> None:
    for _ in range(times):
        for first, last, _ in fetch(partition, (0, size - 1)):
            settle(partition, first, last, 2)


@pytest.mark.fact("SG-288", "SG-290")
def test_records_that_failed_are_delivered_in_ever_smaller_parts() -> None:
    partition = SharePartition(0)
    fail(partition, 500, 3)
    assert fetch(partition, (0, 499)) == [(0, 249, 4)]
    settle(partition, 0, 249, 2)
    # The first offset is at its last attempt.
    assert fetch(partition, (0, 499)) == [(0, 0, 5)]


def test_a_throttled_batch_is_not_joined_to_other_records() -> None:
    partition = SharePartition(0, [StateBatch(10, 19, AVAILABLE, 3)])
    assert fetch(partition, (0, 9), (10, 19), (20, 29)) == [(0, 9, 1)]
    assert fetch(partition, (10, 19), (20, 29)) == [(10, 14, 4)]


def test_with_a_limit_of_two_no_record_is_delivered_alone() -> None:
    limits = LIMITS._replace(delivery_count_limit=2)
    partition = SharePartition(0, [StateBatch(0, 9, AVAILABLE, 1)])
    assert fetch(partition, (0, 9), limits=limits) == [(0, 9, 2)]


def test_aborted_records_are_archived_and_left_out() -> None:
    partition = SharePartition(0)
    acquired = fetch(partition, (0, 2), (3, 4), (5, 5), (6, 9))
    aborted = [OffsetRange(3, 4), OffsetRange(6, 9)]
    assert archive_aborted(partition, acquired, aborted) == [(0, 2, 1), (5, 5, 1)]
    settle(partition, 0, 2, 1)
    assert partition.start_offset == 5
    settle(partition, 5, 5, 0)
    assert partition.start_offset == 10


def test_aborted_records_alone_do_not_stop_the_share_partition() -> None:
    partition = SharePartition(0)
    acquired = fetch(partition, (0, 9))
    assert archive_aborted(partition, acquired, [OffsetRange(0, 20)]) == []
    assert partition.start_offset == partition.next_fetch_offset() == 10


def test_a_million_records_in_flight_are_few_ranges() -> None:
    limits = LIMITS._replace(record_locks_max=2_000_000)
    partition = SharePartition(0)
    for first in range(0, 1_000_000, 500):
        fetch(partition, (first, first + 499), limits=limits)
    assert partition.in_flight_count == 1_000_000
    assert len(partition.ranges) == 2_000


def test_records_whose_dead_letters_kafka_had_to_write_are_finished() -> None:
    partition = SharePartition(0, [StateBatch(0, 4, ARCHIVING, 5)])
    assert partition.start_offset == 5
