"""Sequences, epochs and open transactions of one partition."""

from __future__ import annotations

import json

import pytest

from coterie.broker.catalog import producer_state
from coterie.broker.catalog.producer_state import (
    BatchLocation,
    ProducerBatch,
    ProducerState,
)
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

PRODUCER = 7
INT_MAX = 2**31 - 1


def batch(
    first: int, last: int, *, epoch: int = 0, transactional: bool = False
) -> ProducerBatch:
    return ProducerBatch(PRODUCER, epoch, first, last, transactional)


def write(producers: ProducerState, new: ProducerBatch, offset: int) -> None:
    assert producers.check_append(new) is None
    size = new.last_sequence - new.first_sequence
    producers.record_append(new, BatchLocation(offset, offset + size, 1_000))


def refusal(producers: ProducerState, new: ProducerBatch) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        producers.check_append(new)
    return caught.value.code


def test_sequences_are_consecutive() -> None:
    producers = ProducerState()
    write(producers, batch(0, 4), 10)
    write(producers, batch(5, 5), 15)


def test_a_sequence_gap_is_out_of_order() -> None:
    producers = ProducerState()
    write(producers, batch(0, 4), 10)
    code = refusal(producers, batch(6, 6))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("repeated", range(5))
def test_duplicates_of_the_last_five_batches_are_recognized(repeated: int) -> None:
    producers = ProducerState()
    for at in range(5):
        write(producers, batch(at, at), 100 + at)
    found = producers.check_append(batch(repeated, repeated))
    assert found is not None
    assert found.base_offset == 100 + repeated


def test_the_sixth_last_batch_is_not_recognized() -> None:
    producers = ProducerState()
    for at in range(6):
        write(producers, batch(at, at), at)
    code = refusal(producers, batch(0, 0))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around() -> None:
    producers = ProducerState()
    write(producers, batch(INT_MAX, INT_MAX), 1)
    write(producers, batch(0, 0), 2)


def test_an_unknown_producer_may_begin_with_any_sequence() -> None:
    assert ProducerState().check_append(batch(41, 41)) is None


def test_a_new_epoch_begins_at_sequence_zero() -> None:
    producers = ProducerState()
    write(producers, batch(0, 4), 1)
    code = refusal(producers, batch(5, 5, epoch=1))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(producers, batch(0, 0, epoch=1), 6)


def test_an_older_epoch_is_fenced() -> None:
    producers = ProducerState()
    write(producers, batch(0, 0, epoch=3), 1)
    code = refusal(producers, batch(1, 1, epoch=2))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_fences_older_epochs() -> None:
    producers = ProducerState()
    write(producers, batch(0, 0, transactional=True), 1)
    producers.record_marker(
        PRODUCER, 1, committed=False, location=BatchLocation(2, 2, 1_000)
    )
    code = refusal(producers, batch(1, 1, transactional=True))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_non_transactional_batch_is_refused_while_a_transaction_is_open() -> None:
    producers = ProducerState()
    write(producers, batch(0, 0, transactional=True), 1)
    assert refusal(producers, batch(1, 1)) is ErrorCode.INVALID_TXN_STATE


def test_the_last_stable_offset_is_the_start_of_the_first_open_transaction() -> None:
    producers = ProducerState()
    assert producers.last_stable_offset(5) == 5
    write(producers, batch(0, 0, transactional=True), 5)
    assert producers.last_stable_offset(9) == 5


def test_the_last_stable_offset_advances_when_the_marker_is_flushed() -> None:
    producers = ProducerState()
    write(producers, batch(0, 0, transactional=True), 5)
    producers.record_marker(
        PRODUCER, 0, committed=True, location=BatchLocation(6, 6, 1_000)
    )
    assert producers.last_stable_offset(6) == 5
    assert producers.last_stable_offset(7) == 7


def test_an_aborted_transaction_is_listed_for_overlapping_fetches() -> None:
    producers = ProducerState()
    write(producers, batch(0, 1, transactional=True), 5)
    producers.record_marker(
        PRODUCER, 0, committed=False, location=BatchLocation(7, 7, 1_000)
    )
    assert [found.first_offset for found in producers.aborted_transactions(0, 8)] == [5]
    assert [found.first_offset for found in producers.aborted_transactions(7, 8)] == [5]
    assert producers.aborted_transactions(8, 20) == ()
    assert producers.aborted_transactions(0, 5) == ()


def test_a_committed_transaction_is_not_listed() -> None:
    producers = ProducerState()
    write(producers, batch(0, 1, transactional=True), 5)
    producers.record_marker(
        PRODUCER, 0, committed=True, location=BatchLocation(7, 7, 1_000)
    )
    assert producers.aborted_transactions(0, 8) == ()


def test_a_marker_without_a_transaction_aborts_nothing() -> None:
    producers = ProducerState()
    producers.record_marker(
        PRODUCER, 0, committed=False, location=BatchLocation(7, 7, 1_000)
    )
    assert producers.aborted_transactions(0, 8) == ()
    assert producers.last_stable_offset(8) == 8


def test_truncation_drops_earlier_aborted_transactions() -> None:
    producers = ProducerState()
    write(producers, batch(0, 1, transactional=True), 5)
    producers.record_marker(
        PRODUCER, 0, committed=False, location=BatchLocation(7, 7, 1_000)
    )
    producers.truncate(8)
    assert producers.aborted_transactions(0, 9) == ()


def test_an_idle_producer_expires_unless_its_transaction_is_open() -> None:
    producers = ProducerState()
    write(producers, batch(0, 0), 1)
    other = ProducerBatch(8, 0, 0, 0, True)
    producers.record_append(other, BatchLocation(2, 2, 1_000))
    producers.remove_expired(1_001)
    assert [producer_id for producer_id, _ in producers] == [8]


def test_a_partition_removes_the_oldest_of_too_many_producers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    producers = ProducerState()
    for number in range(25):
        new = ProducerBatch(number, 0, 0, 0, is_transactional=number == 0)
        producers.record_append(new, BatchLocation(number, number, number))
    kept = [producer_id for producer_id, _ in producers]
    assert kept == [0, *range(7, 25)]
    unknown = ProducerBatch(1, 0, 77, 77, is_transactional=False)
    assert producers.check_append(unknown) is None


def test_any_number_of_producers_may_have_open_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    producers = ProducerState()
    for number in range(100):
        new = ProducerBatch(number, 0, 0, 0, is_transactional=True)
        producers.record_append(new, BatchLocation(number, number, number))
    assert len([*producers]) == 100


def test_batches_written_by_the_broker_have_no_sequence_numbers() -> None:
    producers = ProducerState()
    own = ProducerBatch(PRODUCER, 0, -1, -1, True)
    write(producers, own, 1)
    write(producers, own, 2)
    assert PRODUCER in producers._open


def test_a_snapshot_restores_the_state_of_producers() -> None:
    producers = ProducerState()
    write(producers, batch(0, 1, transactional=True), 5)
    producers.record_marker(
        PRODUCER, 0, committed=False, location=BatchLocation(7, 7, 1_000)
    )
    write(producers, batch(2, 2, transactional=True), 8)
    producers.record_append(ProducerBatch(3, 0, 0, 0, True), BatchLocation(9, 9, 1_000))
    value = json.loads(json.dumps(producers.to_value()))
    again = ProducerState.from_value(value)
    assert again.to_value() == producers.to_value()
    assert again.last_stable_offset(10) == producers.last_stable_offset(10) == 8
    assert again.aborted_transactions(0, 10) == producers.aborted_transactions(0, 10)
    repeated = again.check_append(batch(0, 1, transactional=True))
    assert repeated == BatchLocation(5, 6, 1_000)
