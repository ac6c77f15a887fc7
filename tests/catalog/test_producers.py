"""Sequences, epochs and open transactions of one partition."""

from __future__ import annotations

import json

import pytest

from coterie.catalog.producers import ProducerBatch, Producers, Written
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

PRODUCER = 7
INT_MAX = 2**31 - 1


def batch(
    first: int, last: int, *, epoch: int = 0, transactional: bool = False
) -> ProducerBatch:
    return ProducerBatch(PRODUCER, epoch, first, last, transactional)


def write(producers: Producers, new: ProducerBatch, offset: int) -> None:
    assert producers.check(new) is None
    size = new.last_sequence - new.first_sequence
    producers.written(new, Written(offset, offset + size, 1_000))


def refusal(producers: Producers, new: ProducerBatch) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        producers.check(new)
    return caught.value.code


def test_sequences_go_on_one_by_one() -> None:
    producers = Producers()
    write(producers, batch(0, 4), 10)
    write(producers, batch(5, 5), 15)


def test_a_gap_is_out_of_order() -> None:
    producers = Producers()
    write(producers, batch(0, 4), 10)
    code = refusal(producers, batch(6, 6))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("repeated", range(5))
def test_each_of_the_last_five_batches_is_known_again(repeated: int) -> None:
    producers = Producers()
    for at in range(5):
        write(producers, batch(at, at), 100 + at)
    found = producers.check(batch(repeated, repeated))
    assert found is not None
    assert found.base_offset == 100 + repeated


def test_the_sixth_last_batch_is_forgotten() -> None:
    producers = Producers()
    for at in range(6):
        write(producers, batch(at, at), at)
    code = refusal(producers, batch(0, 0))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around() -> None:
    producers = Producers()
    write(producers, batch(INT_MAX, INT_MAX), 1)
    write(producers, batch(0, 0), 2)


def test_a_producer_not_known_here_may_begin_anywhere() -> None:
    assert Producers().check(batch(41, 41)) is None


def test_a_new_epoch_begins_at_sequence_zero() -> None:
    producers = Producers()
    write(producers, batch(0, 4), 1)
    code = refusal(producers, batch(5, 5, epoch=1))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(producers, batch(0, 0, epoch=1), 6)


def test_an_older_epoch_is_fenced() -> None:
    producers = Producers()
    write(producers, batch(0, 0, epoch=3), 1)
    code = refusal(producers, batch(1, 1, epoch=2))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_fences_the_epochs_before_its_own() -> None:
    producers = Producers()
    write(producers, batch(0, 0, transactional=True), 1)
    producers.ended(PRODUCER, 1, committed=False, where=Written(2, 2, 1_000))
    code = refusal(producers, batch(1, 1, transactional=True))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_plain_batch_in_an_open_transaction_is_refused() -> None:
    producers = Producers()
    write(producers, batch(0, 0, transactional=True), 1)
    assert refusal(producers, batch(1, 1)) is ErrorCode.INVALID_TXN_STATE


def test_the_stable_offset_stops_at_the_first_open_transaction() -> None:
    producers = Producers()
    assert producers.last_stable_offset(5) == 5
    write(producers, batch(0, 0, transactional=True), 5)
    assert producers.last_stable_offset(9) == 5


def test_the_stable_offset_waits_until_the_marker_is_flushed() -> None:
    producers = Producers()
    write(producers, batch(0, 0, transactional=True), 5)
    producers.ended(PRODUCER, 0, committed=True, where=Written(6, 6, 1_000))
    assert producers.last_stable_offset(6) == 5
    assert producers.last_stable_offset(7) == 7


def test_an_aborted_transaction_is_listed_for_readers_it_concerns() -> None:
    producers = Producers()
    write(producers, batch(0, 1, transactional=True), 5)
    producers.ended(PRODUCER, 0, committed=False, where=Written(7, 7, 1_000))
    assert [found.first_offset for found in producers.aborted(0, 8)] == [5]
    assert [found.first_offset for found in producers.aborted(7, 8)] == [5]
    assert producers.aborted(8, 20) == ()
    assert producers.aborted(0, 5) == ()


def test_a_committed_transaction_is_not_listed() -> None:
    producers = Producers()
    write(producers, batch(0, 1, transactional=True), 5)
    producers.ended(PRODUCER, 0, committed=True, where=Written(7, 7, 1_000))
    assert producers.aborted(0, 8) == ()


def test_a_marker_without_batches_is_no_transaction() -> None:
    producers = Producers()
    producers.ended(PRODUCER, 0, committed=False, where=Written(7, 7, 1_000))
    assert producers.aborted(0, 8) == ()
    assert producers.last_stable_offset(8) == 8


def test_truncation_drops_what_is_aborted_before_it() -> None:
    producers = Producers()
    write(producers, batch(0, 1, transactional=True), 5)
    producers.ended(PRODUCER, 0, committed=False, where=Written(7, 7, 1_000))
    producers.truncate(8)
    assert producers.aborted(0, 9) == ()


def test_a_silent_producer_is_forgotten_unless_its_transaction_is_open() -> None:
    producers = Producers()
    write(producers, batch(0, 0), 1)
    other = ProducerBatch(8, 0, 0, 0, True)
    producers.written(other, Written(2, 2, 1_000))
    producers.expire(1_001)
    assert [producer_id for producer_id, _ in producers] == [8]


def test_the_brokers_own_writes_have_no_sequences() -> None:
    producers = Producers()
    own = ProducerBatch(PRODUCER, 0, -1, -1, True)
    write(producers, own, 1)
    write(producers, own, 2)
    assert producers.has_open(PRODUCER)


def test_what_is_known_survives_a_snapshot() -> None:
    producers = Producers()
    write(producers, batch(0, 1, transactional=True), 5)
    producers.ended(PRODUCER, 0, committed=False, where=Written(7, 7, 1_000))
    write(producers, batch(2, 2, transactional=True), 8)
    producers.written(ProducerBatch(3, 0, 0, 0, True), Written(9, 9, 1_000))
    value = json.loads(json.dumps(producers.to_value()))
    again = Producers.from_value(value)
    assert again.to_value() == producers.to_value()
    assert again.last_stable_offset(10) == producers.last_stable_offset(10) == 8
    assert again.aborted(0, 10) == producers.aborted(0, 10)
    repeated = again.check(batch(0, 1, transactional=True))
    assert repeated == Written(5, 6, 1_000)
