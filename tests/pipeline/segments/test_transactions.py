"""Tests for the outcomes of transactional batches."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import LogError
from coterie.pipeline.segments import transactions
from coterie.pipeline.segments.batches import BatchHeaders
from coterie.pipeline.segments.transactions import (
    BatchKind,
    EndedTransaction,
    MarkerOutcomes,
    OpenTransactions,
    StableOffset,
    TransactionBatch,
    transaction_batches,
)
from coterie.wire.compression import Codec
from coterie.wire.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
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
    """Read batches one by one, as from a log of each."""
    headers = (BatchHeaders.read(each, np.array([0])) for each in log)
    return [
        batch
        for data, header in zip(log, headers, strict=True)
        for batch in transaction_batches(data, header)
    ]


@pytest.mark.parametrize("chunk", [1, 100])
def test_batches_are_committed_by_the_next_commit_marker_of_their_producer(
    chunk: int,
) -> None:
    chunks = [transactional(LOG[at : at + chunk]) for at in range(0, len(LOG), chunk)]
    outcomes = MarkerOutcomes(iter(chunks))
    asked = transactional([LOG[at] for at in (0, 1, 2, 4, 5)])
    found = [outcomes.outcome(each) for each in asked]
    assert found == ["committed", "aborted", "committed", None, None]


def test_the_outcome_of_an_open_transaction_is_an_error() -> None:
    outcomes = MarkerOutcomes(iter([transactional(LOG)]))
    with pytest.raises(LogError, match="producer 3 at offset 3 has not ended"):
        outcomes.outcome(*transactional([LOG[3]]))


@pytest.mark.parametrize("chunk", [1, 100])
def test_open_transactions_do_not_depend_on_how_the_log_is_divided(chunk: int) -> None:
    found = OpenTransactions()
    ended: list[EndedTransaction] = []
    for at in range(0, len(LOG), chunk):
        ended += found.add(transactional(LOG[at : at + chunk]))
    assert found.first_offsets == {3: 3, 2: 7}
    assert [tuple(each) for each in ended] == [(2, 1, 4, False), (1, 0, 5, True)]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_the_last_stable_offset_is_at_the_first_open_transaction(chunk: int) -> None:
    stable = StableOffset()
    for at in range(0, len(LOG), chunk):
        bases = np.arange(at, min(at + chunk, len(LOG)))
        stable.add(transactional(LOG[at : at + chunk]), bases, bases + 1, at)
    assert stable.get(len(LOG)) == 3
    assert StableOffset().get(8) == 8


def control(key: bytes | None, value: bytes | None, time_ms: int = 1) -> bytes:
    record = LogRecord(9, time_ms, key, value)
    return encode_batch(
        [record], producer=Producer(1, 0, 0), attributes=TRANSACTIONAL | CONTROL
    )


UNUSUAL = [
    control(b"\0\0\0\1", bytes(6)),
    control(b"\0\0\0\2", bytes(6)),
    control(b"\0\1\0\0", bytes(7)),
    control(b"\0\0\0\1", bytes(5)),
    control(b"\0\0\0\1", None),
    control(None, bytes(10)),
    control(b"\0" * 10, None),
    encode_batch(
        [LogRecord(9, 1, b"\0\0\0\1", bytes(6))],
        producer=Producer(1, 0, 0),
        attributes=TRANSACTIONAL | CONTROL,
        codec=Codec.LZ4,
    ),
]


def test_many_batches_are_read_as_single_ones_are() -> None:
    log = [*LOG, *UNUSUAL, *LOG, *UNUSUAL]
    positions = np.cumsum([0, *(len(each) for each in log)])[:-1]
    data = b"".join(log)
    found = transaction_batches(data, BatchHeaders.read(data, positions))
    assert found == transactional(log)
    kinds = [BatchKind(each.kind).name for each in found[7:15]]
    others = ["OTHER_MARKER"] * 5
    assert kinds == ["COMMIT", "OTHER_MARKER", "ABORT", *others[:4], "COMMIT"]


def test_usual_markers_are_not_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = [encode_marker(at, 1, at, 0, commit=True) for at in range(300)]
    data = b"".join(log)
    positions = np.arange(0, len(data), len(log[0]))
    monkeypatch.setattr(transactions, "decode_records", None)
    found = transaction_batches(data, BatchHeaders.read(data, positions))
    assert {each.kind for each in found} == {BatchKind.COMMIT}
