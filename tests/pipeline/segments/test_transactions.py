"""Tests for the outcomes of transactional batches."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import LogError
from coterie.pipeline.segments.transactions import (
    EndedTransaction,
    MarkerOutcomes,
    OpenTransactions,
    StableOffset,
    TransactionBatch,
    read_transaction_batch,
)
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
    read_header,
)


def batch(offset: int, producer: int) -> bytes:
    return encode_batch(
        [LogRecord(offset, 1, b"k", b"v")],
        producer=Producer(producer, 0, 0),
        attributes=TRANSACTIONAL,
    )


LOG = [
    *(batch(0, 1), batch(1, 2), batch(2, 1), batch(3, 3)),
    encode_marker(4, 1, 2, 0, commit=False),
    encode_marker(5, 1, 1, 0, commit=True),
    encode_batch([LogRecord(6, 1, b"k", b"v")]),
    batch(7, 2),
]


def transactional(log: list[bytes]) -> list[TransactionBatch]:
    found = [read_transaction_batch(each) for each in log]
    return [each for each in found if each is not None]


@pytest.mark.parametrize("chunk", [1, 100])
def test_batches_are_committed_by_the_next_commit_marker_of_their_producer(
    chunk: int,
) -> None:
    chunks = [transactional(LOG[at : at + chunk]) for at in range(0, len(LOG), chunk)]
    outcomes = MarkerOutcomes(iter(chunks))
    found = [outcomes.outcome(read_header(LOG[at])) for at in (0, 1, 2, 4, 5, 6)]
    assert found == ["committed", "aborted", "committed", None, None, None]


def test_the_outcome_of_an_open_transaction_is_an_error() -> None:
    outcomes = MarkerOutcomes(iter([transactional(LOG)]))
    with pytest.raises(LogError, match="producer 3 at offset 3 has not ended"):
        outcomes.outcome(read_header(LOG[3]))


@pytest.mark.parametrize("chunk", [1, 100])
def test_open_transactions_do_not_depend_on_how_the_log_is_divided(chunk: int) -> None:
    transactions = OpenTransactions()
    ended: list[EndedTransaction] = []
    for at in range(0, len(LOG), chunk):
        transactions, more = transactions.apply(transactional(LOG[at : at + chunk]))
        ended += more
    assert transactions == OpenTransactions({3: 3, 2: 7})
    assert [tuple(each) for each in ended] == [(2, 1, 4, False), (1, 0, 5, True)]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_the_last_stable_offset_is_at_the_first_open_transaction(chunk: int) -> None:
    stable = StableOffset()
    for at in range(0, len(LOG), chunk):
        bases = np.arange(at, min(at + chunk, len(LOG)))
        stable.add(transactional(LOG[at : at + chunk]), bases, bases + 1, at)
    assert stable.get(len(LOG)) == 3
    assert StableOffset().get(8) == 8
