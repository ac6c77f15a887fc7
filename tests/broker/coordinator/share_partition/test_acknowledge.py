"""Acknowledgement: types, refusals, and all or nothing."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.share_partition.acknowledge import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    acknowledge,
)
from coterie.broker.coordinator.share_partition.acquire import (
    Acquisition,
    OffsetRange,
    acquire,
)
from coterie.broker.coordinator.share_partition.partition import (
    ShareLimits,
    SharePartition,
)
from coterie.broker.coordinator.share_partition.state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    StateBatch,
    StateUpdate,
)
from coterie.errors import ApiError

LIMITS = ShareLimits(100, 5, 2_000, can_renew=True)
INVALID_REQUEST, INVALID_RECORD_STATE = 42, 121


def acquired(last: int = 11, member: str = "m") -> SharePartition:
    partition = SharePartition(0)
    take(partition, 0, last, member)
    return partition


def take(partition: SharePartition, first: int, last: int, member: str) -> None:
    wants = Acquisition(member, 500, 500, False, 0)
    acquire(partition, first, [OffsetRange(first, last)], wants, LIMITS)


def send(
    partition: SharePartition, *batches: tuple[int, int, list[int]], member: str = "m"
) -> StateUpdate | None:
    acks = [Acknowledgement(*batch) for batch in batches]
    return acknowledge(partition, member, acks, LIMITS, 50)


def refusal(partition: SharePartition, *batch: tuple[int, int, list[int]]) -> int:
    before = partition.ranges.copy()
    with pytest.raises(ApiError) as refused:
        send(partition, *batch)
    assert partition.ranges == before
    return refused.value.code


def test_each_type_has_its_state() -> None:
    partition = acquired()
    update = send(
        partition,
        (0, 4, [ACCEPT]),
        (5, 9, [RELEASE]),
        (10, 11, [GAP, REJECT]),
    )
    assert update == StateUpdate(
        0,
        7,
        (
            StateBatch(0, 4, ACKNOWLEDGED, 1),
            StateBatch(5, 9, AVAILABLE, 1),
            StateBatch(10, 11, ARCHIVED, 1),
        ),
    )
    assert partition.start_offset == 0
    partition.written(partition.last_write)
    assert partition.start_offset == partition.next_fetch_offset() == 5


@pytest.mark.fact("SG-225")
def test_nothing_is_acquired_or_acknowledged_before_its_state_is_durable() -> None:
    partition = acquired()
    send(partition, (0, 4, [RELEASE]))
    assert partition.next_fetch_offset() == 12
    assert refusal(partition, (0, 4, [ACCEPT])) == INVALID_RECORD_STATE
    take(partition, 0, 4, "n")
    assert partition.ranges[0].member == ""


@pytest.mark.fact("SG-223")
def test_one_bad_batch_refuses_all_of_the_partition() -> None:
    partition = acquired()
    code = refusal(partition, (0, 4, [ACCEPT]), (4, 5, [ACCEPT]))
    assert code == INVALID_RECORD_STATE


@pytest.mark.fact("SG-222")
def test_records_of_another_member_are_refused() -> None:
    partition = acquired(member="n")
    assert refusal(partition, (0, 0, [ACCEPT])) == INVALID_RECORD_STATE


@pytest.mark.fact("SG-222")
@pytest.mark.parametrize(
    ("first", "last", "code"),
    [
        (12, 12, INVALID_REQUEST),
        (5, 12, INVALID_REQUEST),
        (0, 2**62, INVALID_REQUEST),
    ],
)
def test_offsets_behind_the_acquired_ones_are_refused(
    first: int, last: int, code: int
) -> None:
    assert refusal(acquired(), (first, last, [ACCEPT])) == code


def test_nothing_can_be_acknowledged_before_anything_was_acquired() -> None:
    assert refusal(SharePartition(0), (0, 0, [ACCEPT])) == INVALID_RECORD_STATE


@pytest.mark.fact("SG-222")
def test_offsets_below_the_start_offset_are_ignored() -> None:
    partition = acquired()
    partition.move_start(8)
    assert send(partition, (0, 7, [ACCEPT])) is None
    update = send(partition, (5, 9, [ACCEPT]))
    assert update == StateUpdate(8, 2, (StateBatch(8, 9, ACKNOWLEDGED, 1),))


def test_a_renewal_moves_the_lock_and_stores_nothing() -> None:
    partition = acquired()
    assert send(partition, (0, 4, [RENEW])) is None
    assert partition.expire(100, LIMITS) == StateUpdate(
        0, 0, (StateBatch(5, 11, AVAILABLE, 1),)
    )
    assert partition.next_deadline_ms() == 150
    assert partition.ranges[0].delivery_count == 1


def test_a_renewal_is_refused_when_the_group_disables_it() -> None:
    partition = acquired()
    limits = LIMITS._replace(can_renew=False)
    with pytest.raises(ApiError):
        acknowledge(partition, "m", [Acknowledgement(0, 0, [RENEW])], limits, 0)


def test_a_release_at_the_delivery_limit_archives() -> None:
    partition = SharePartition(0, [StateBatch(0, 0, AVAILABLE, 4)])
    take(partition, 0, 0, "m")
    send(partition, (0, 0, [RELEASE]))
    partition.written(partition.last_write)
    assert partition.start_offset == 1
    assert partition.next_fetch_offset() == 1


def test_single_acknowledgements_of_a_batch_become_one_range() -> None:
    partition = acquired(499)
    for at in range(500):
        send(partition, (at, at, [ACCEPT]))
        partition.written(partition.last_write)
    assert partition.start_offset == 500
    partition = acquired(499)
    send(partition, *[(at, at, [ACCEPT]) for at in range(1, 500)])
    assert len(partition.ranges) == 2
