"""Segments to rows: held against the scalar decoder, cut and broken anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import LogError
from coterie.pipeline.segments import lockstep
from coterie.pipeline.segments.reader import Place, read_segment
from coterie.pipeline.segments.rows import scalar_rows
from coterie.pipeline.segments.transactions import Transactions, outcome
from coterie.wire.compression import Codec
from coterie.wire.record_batch import (
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    decode_records,
    encode_batch,
    encode_marker,
    split_batches,
)

content = st.none() | st.binary(max_size=200)
header_lists = st.lists(st.tuples(st.text(max_size=5), content), max_size=2)
records = st.tuples(st.integers(-1, 2**45), content, content, header_lists.map(tuple))


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Batches one after the other, with holes, as compaction leaves them."""
    offset, batches = 0, []
    for _ in range(draw(st.integers(1, 6))):
        rows = []
        for time, key, value, headers in draw(
            st.lists(records, min_size=1, max_size=9)
        ):
            offset += draw(st.integers(1, 4))
            rows.append(LogRecord(offset, time, key, value, headers))
        attributes = draw(st.sampled_from([0, LOG_APPEND_TIME, TRANSACTIONAL]))
        codec = draw(st.sampled_from(Codec))
        offset += 1
        batches.append(
            encode_batch(
                rows,
                producer=Producer(draw(st.integers(-1, 9)), 1, 0),
                attributes=attributes,
                codec=codec,
                base_offset=rows[0].offset - 1,
                last_offset=offset,
            )
        )
    return batches


def oracle(data: bytes) -> list[dict[str, Any]]:
    return [
        row
        for header, batch in split_batches(data)
        for row in scalar_rows(header, decode_records(batch, header)).to_pylist()
    ]


def rows_of(chunks: Any) -> list[dict[str, Any]]:
    return [
        row for chunk in chunks for table in chunk.tables for row in table.to_pylist()
    ]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "00000000000000000000.log"


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [0, 10**6], ids=["lockstep", "one by one"])
def test_rows_are_the_oracles_in_chunks_of_any_size(narrow: int, file: Path) -> None:
    @settings(max_examples=40, deadline=None)
    @given(logs(), st.integers(1, 2_000))
    def check(log: list[bytes], chunk_bytes: int) -> None:
        data = b"".join(log)
        file.write_bytes(data)
        chunks = list(read_segment(file, chunk_bytes=chunk_bytes))
        assert rows_of(chunks) == oracle(data)
        assert not [fault for chunk in chunks for fault in chunk.faults]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lockstep, "_NARROW", narrow)
        check()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_a_cut_leaves_the_whole_batches_and_says_what_is_missing(
    file: Path, log: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(log)
    cut = data.draw(st.integers(0, len(whole)))
    file.write_bytes(whole[:cut])
    chunks = list(read_segment(file))
    kept = b""
    for batch in log:
        if len(kept) + len(batch) > cut:
            break
        kept += batch
    assert rows_of(chunks) == oracle(kept)
    faults = [fault for chunk in chunks for fault in chunk.faults]
    if cut == len(kept):
        assert not faults
    else:
        assert (faults[0].position, faults[0].source) == (len(kept), str(file))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(logs(), st.data())
def test_a_broken_byte_costs_its_own_batch_only(
    file: Path, log: list[bytes], data: st.DataObject
) -> None:
    broken = data.draw(st.integers(0, len(log) - 1))
    byte = data.draw(
        st.integers(8, len(log[broken]) - 1).filter(lambda at: not 12 <= at < 16)
    )
    bit = 1 << data.draw(st.integers(0, 7))
    bad = bytearray(log[broken])
    bad[byte] ^= bit
    file.write_bytes(b"".join([*log[:broken], bytes(bad), *log[broken + 1 :]]))
    chunks = list(read_segment(file))
    others = b"".join([*log[:broken], *log[broken + 1 :]])
    assert rows_of(chunks) == oracle(others)
    faults = [fault for chunk in chunks for fault in chunk.faults]
    assert faults[0].position == len(b"".join(log[:broken]))
    assert faults[0].reason
    assert sum(fault.size_bytes for fault in faults) == len(bad)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(logs(), st.integers(1, 500))
def test_reading_goes_on_from_any_place(
    file: Path, log: list[bytes], chunk_bytes: int
) -> None:
    file.write_bytes(b"".join(log))
    chunks = list(read_segment(file, chunk_bytes=chunk_bytes))
    for number, chunk in enumerate(chunks):
        rest = read_segment(file, chunk.place, chunk.transactions)
        assert rows_of(rest) == rows_of(chunks[number + 1 :])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_batches_behind_bytes_that_are_none_are_found_in_chunks_of_any_size(
    file: Path, log: list[bytes], data: st.DataObject
) -> None:
    garbage = st.integers(0, 90).map(lambda count: (b"\2\xff\2\2\xff" * 18)[:count])
    begins = data.draw(st.lists(garbage, min_size=len(log), max_size=len(log)))
    pieces = [piece for pair in zip(begins, log, strict=True) for piece in pair]
    file.write_bytes(b"".join(pieces))
    chunk_bytes = data.draw(st.integers(1, 500))
    chunks = list(read_segment(file, chunk_bytes=chunk_bytes))
    assert rows_of(chunks) == oracle(b"".join(log))
    faults = [fault for chunk in chunks for fault in chunk.faults]
    assert sum(fault.size_bytes for fault in faults) == sum(map(len, begins))


@pytest.mark.parametrize("size", [63, 64, 8_180, 8_200, 2_000_000])
def test_records_of_any_size_chain_beside_small_ones(size: int, file: Path) -> None:
    def batch(offset: int, value: bytes) -> bytes:
        rows = [LogRecord(offset + j, j, b"k", value) for j in range(3)]
        return encode_batch(rows)

    log = [batch(3 * j, b"v" * (size if j == 17 else j)) for j in range(40)]
    file.write_bytes(b"".join(log))
    (chunk,) = read_segment(file)
    assert rows_of([chunk]) == oracle(b"".join(log))
    assert not chunk.faults
    assert [header.base_offset for header in chunk.headers] == list(range(0, 120, 3))


def test_a_place_in_a_file_that_was_compacted_goes_by_the_offset(file: Path) -> None:
    batches = [encode_batch([LogRecord(at, 1, b"k", b"v" * at)]) for at in range(9)]
    file.write_bytes(b"".join(batches[4:]))
    place = Place(len(batches[0]) + 3, 6)
    assert [row["record_offset"] for row in rows_of(read_segment(file, place))] == [
        6,
        7,
        8,
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_of_old_formats_are_set_apart_with_the_reason(
    magic: int, file: Path
) -> None:
    new = encode_batch([LogRecord(7, 1, b"k", b"v")])
    old = bytes(8) + (22).to_bytes(4, "big") + bytes([1, 2, 3, 4, magic]) + bytes(17)
    file.write_bytes(old + new)
    (chunk,) = read_segment(file)
    (fault,) = chunk.faults
    assert f"record format {magic}, of brokers before 0.11" in str(fault)
    assert (fault.position, fault.size_bytes) == (0, 34)
    assert rows_of([chunk]) == oracle(new)


def test_zeros_to_the_end_are_named(file: Path) -> None:
    new = encode_batch([LogRecord(7, 1, b"k", b"v")])
    file.write_bytes(new + bytes(500))
    (chunk,) = read_segment(file)
    assert "made longer in advance" in chunk.faults[0].reason
    assert rows_of([chunk]) == oracle(new)


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(LogError, match=r"nowhere\.log"):
        list(read_segment(file.with_name("nowhere.log")))


@pytest.mark.parametrize("chunk_bytes", [1, 10**6])
def test_transactional_batches_count_after_their_producers_commit(
    file: Path, chunk_bytes: int
) -> None:
    def batch(offset: int, producer: int) -> bytes:
        return encode_batch(
            [LogRecord(offset, 1, b"k", b"v")],
            producer=Producer(producer, 0, 0),
            attributes=TRANSACTIONAL,
        )

    log = [
        *(batch(0, 1), batch(1, 2), batch(2, 1), batch(3, 3)),
        encode_marker(4, 1, 2, 0, commit=False),
        encode_marker(5, 1, 1, 0, commit=True),
        encode_batch([LogRecord(6, 1, b"k", b"v")]),
        batch(7, 2),
    ]
    file.write_bytes(b"".join(log))
    chunks = list(read_segment(file, chunk_bytes=chunk_bytes))
    ended = [each for chunk in chunks for each in chunk.ended]
    found = [outcome(header, ended) for chunk in chunks for header in chunk.headers]
    assert found == [
        *("committed", "aborted", "committed", "open"),
        *(None, None, None, "open"),
    ]
    assert chunks[-1].transactions == Transactions({3: 3, 2: 7})


def test_a_torn_tail_that_was_written_to_its_end_ends_its_transaction_once(
    file: Path,
) -> None:
    """The file is read from its beginning again, but nothing is followed twice."""
    log = [
        encode_batch(
            [LogRecord(0, 1, b"k", b"v")],
            producer=Producer(1, 0, 0),
            attributes=TRANSACTIONAL,
        ),
        encode_marker(1, 1, 1, 0, commit=True),
        encode_batch(
            [LogRecord(2, 1, b"k", b"v")],
            producer=Producer(1, 0, 0),
            attributes=TRANSACTIONAL,
        ),
        encode_marker(3, 1, 1, 0, commit=False),
    ]
    file.write_bytes(b"".join(log)[:-5])
    (torn,) = read_segment(file)
    assert [tuple(each) for each in torn.ended] == [(1, 0, 1, True)]
    file.write_bytes(b"".join(log))
    (rest,) = read_segment(file, torn.place, torn.transactions)
    assert [tuple(each) for each in rest.ended] == [(1, 2, 3, False)]
    assert rest.transactions == Transactions()
