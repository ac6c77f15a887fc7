"""The segment reader returns the rows of the scalar decoder, also for truncated and
corrupt files."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import LogError
from coterie.pipeline.segments import records
from coterie.pipeline.segments.batches import scan
from coterie.pipeline.segments.records import _LocalFile, read_segment, scalar_rows
from coterie.wire.compression import Codec, decompress
from coterie.wire.record_batch import (
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    decode_records,
    encode_batch,
    split_batches,
)

content = st.none() | st.binary(max_size=200)
header_lists = st.lists(st.tuples(st.text(max_size=5), content), max_size=2)
generated_records = st.tuples(
    st.integers(-1, 2**45), content, content, header_lists.map(tuple)
)


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Generate consecutive batches with gaps, as in a compacted log."""
    offset, batches = 0, []
    for _ in range(draw(st.integers(1, 6))):
        rows = []
        for time, key, value, headers in draw(
            st.lists(generated_records, min_size=1, max_size=9)
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


def expected_rows(data: bytes) -> list[dict[str, Any]]:
    return [
        row
        for header, batch in split_batches(data)
        for row in scalar_rows(header, decode_records(batch, header)).to_pylist()
    ]


def rows_of(chunks: Any) -> list[dict[str, Any]]:
    return [row for chunk in chunks for row in chunk.rows.to_pylist()]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "00000000000000000000.log"


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 10**6], ids=["together", "one by one"])
def test_rows_equal_those_of_the_scalar_decoder(few: int, file: Path) -> None:
    @settings(max_examples=40, deadline=None)
    @given(logs(), st.integers(1, 2_000))
    def check(log: list[bytes], chunk_bytes: int) -> None:
        data = b"".join(log)
        file.write_bytes(data)
        chunks = list(read_segment(file, chunk_bytes=chunk_bytes))
        assert rows_of(chunks) == expected_rows(data)
        assert not [fault for chunk in chunks for fault in chunk.faults]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_FEW", few)
        check()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_a_truncated_file_has_its_whole_batches_and_a_fault(
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
    assert rows_of(chunks) == expected_rows(kept)
    faults = [fault for chunk in chunks for fault in chunk.faults]
    if cut == len(kept):
        assert not faults
    else:
        assert (faults[0].position, faults[0].source) == (len(kept), str(file))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(logs(), st.data())
def test_a_corrupt_byte_loses_only_its_own_batch(
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
    assert rows_of(chunks) == expected_rows(others)
    faults = [fault for chunk in chunks for fault in chunk.faults]
    assert faults[0].position == len(b"".join(log[:broken]))
    assert faults[0].reason
    assert sum(fault.size_bytes for fault in faults) == len(bad)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_batches_after_invalid_bytes_are_found_in_chunks_of_any_size(
    file: Path, log: list[bytes], data: st.DataObject
) -> None:
    # Bytes that look like the magic byte of a batch.
    garbage = st.integers(0, 90).map(lambda count: (b"\2\xff\2\2\xff" * 18)[:count])
    begins = data.draw(st.lists(garbage, min_size=len(log), max_size=len(log)))
    pieces = [piece for pair in zip(begins, log, strict=True) for piece in pair]
    file.write_bytes(b"".join(pieces))
    chunk_bytes = data.draw(st.integers(1, 500))
    chunks = list(read_segment(file, chunk_bytes=chunk_bytes))
    assert rows_of(chunks) == expected_rows(b"".join(log))
    faults = [fault for chunk in chunks for fault in chunk.faults]
    assert sum(fault.size_bytes for fault in faults) == sum(map(len, begins))


@pytest.mark.parametrize("size", [63, 64, 8_180, 8_200, 2_000_000])
def test_large_and_small_records_are_read_together(size: int, file: Path) -> None:
    def batch(offset: int, value: bytes) -> bytes:
        rows = [LogRecord(offset + j, j, b"k", value) for j in range(3)]
        return encode_batch(rows)

    log = [batch(3 * j, b"v" * (size if j == 17 else j)) for j in range(40)]
    file.write_bytes(b"".join(log))
    (chunk,) = read_segment(file)
    assert rows_of([chunk]) == expected_rows(b"".join(log))
    assert not chunk.faults
    assert chunk.headers.base_offset.tolist() == list(range(0, 120, 3))


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_of_old_formats_are_faults(magic: int, file: Path) -> None:
    new = encode_batch([LogRecord(7, 1, b"k", b"v")])
    old = bytes(8) + (22).to_bytes(4, "big") + bytes([1, 2, 3, 4, magic]) + bytes(17)
    file.write_bytes(old + new)
    (chunk,) = read_segment(file)
    (fault,) = chunk.faults
    assert f"record format {magic}, of brokers before 0.11" in str(fault)
    assert (fault.position, fault.size_bytes) == (0, 34)
    assert rows_of([chunk]) == expected_rows(new)


def test_the_zeros_of_a_preallocated_file_are_a_fault(file: Path) -> None:
    new = encode_batch([LogRecord(7, 1, b"k", b"v")])
    file.write_bytes(new + bytes(500))
    (chunk,) = read_segment(file)
    assert "preallocated" in chunk.faults[0].reason
    assert rows_of([chunk]) == expected_rows(new)


def test_a_missing_file_is_named_in_the_error(file: Path) -> None:
    with pytest.raises(LogError, match=r"nowhere\.log"):
        list(read_segment(file.with_name("nowhere.log")))


def test_records_from_an_offset_are_read_with_their_batches(file: Path) -> None:
    batches = [encode_batch([LogRecord(at, 1, b"k", b"v")]) for at in range(4)]
    pair = encode_batch([LogRecord(at, 1, b"k", b"v") for at in (4, 5)])
    file.write_bytes(b"".join([*batches, pair]))
    (chunk,) = read_segment(file, from_offset=5)
    assert [row["record_offset"] for row in rows_of([chunk])] == [5]
    assert chunk.headers.base_offset.tolist() == [4]


def test_a_wrong_length_of_a_large_batch_hides_no_other_batch(file: Path) -> None:
    # Small big-endian integers in a record look like headers of batches.
    for padding in range(4):
        pattern = bytes(padding) + b"\0\0\1\0" * 300
        large = encode_batch([LogRecord(0, 1, b"k", pattern * 1_000)])
        others = [
            encode_batch([LogRecord(at, 1, b"k", pattern)]) for at in range(1, 99)
        ]
        for bit in (12, 14, 16):
            length = int.from_bytes(large[8:12], "big") ^ (1 << bit)
            wrong = large[:8] + length.to_bytes(4, "big") + large[12:]
            file.write_bytes(wrong + b"".join(others))
            with file.open("rb") as opened:
                chunks = list(scan(_LocalFile(opened), "file"))
            bases = [int(base) for chunk in chunks for base in chunk.bases]
            assert bases == list(range(1, 99)), (padding, bit)


# Batches that are larger than they seem.


def test_batches_are_decoded_in_pieces(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [
        encode_batch(
            [LogRecord(at + i, 0, None, bytes(1_000)) for i in range(5)],
            codec=Codec.ZSTD,
        )
        for at in range(0, 100, 5)
    ]
    garbage = log[7][:61] + bytes(len(log[7]) - 61)
    log[7] = garbage[:17] + crc32c(garbage[21:]).to_bytes(4, "big") + garbage[21:]
    file.write_bytes(b"".join([*log[:9], b"x" * 70, *log[9:]]))
    [whole] = read_segment(file)
    for name, limit, count in (("PIECE_RECORDS", 12, 9), ("BUFFER_BYTES_MAX", 9, 1)):
        with monkeypatch.context() as patch:
            patch.setattr(records, name, limit)
            parts = list(read_segment(file))
        assert len(parts) == count
        assert rows_of(parts) == rows_of([whole])
        assert [fault for part in parts for fault in part.faults] == [*whole.faults]
        positions = [at for part in parts for at in part.headers.position.tolist()]
        assert positions == whole.headers.position.tolist()
        assert parts[-1].end == whole.end


def test_a_batch_that_is_too_large_is_a_fault_with_its_place(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = encode_batch([LogRecord(0, 0, None, b"v")])
    many = encode_batch([LogRecord(at, 0, None, b"v") for at in range(1, 9)])
    bomb = encode_batch([LogRecord(9, 0, None, bytes(100_000))], codec=Codec.ZSTD)
    file.write_bytes(small + many + bomb + encode_batch([LogRecord(10, 0, None, None)]))
    monkeypatch.setattr(records, "RECORDS_MAX", 7)
    monkeypatch.setattr(
        records, "decompress", lambda codec, body: decompress(codec, body, 99_999)
    )
    chunks = list(read_segment(file))
    assert [row["record_offset"] for row in rows_of(chunks)] == [0, 10]
    first, second = (str(fault) for chunk in chunks for fault in chunk.faults)
    assert first.startswith(f"{file} at byte {len(small)}: ")
    assert "8 records in a batch, at most 7 are decoded (offset 1)" in first
    assert "decompresses to more than 99999 bytes (offset 9)" in second


def test_batches_and_faults_do_not_depend_on_chunks(file: Path) -> None:
    rng = Random(7)
    data = bytearray()
    for at in range(600):
        each = encode_batch([LogRecord(at, 7, b"k", rng.randbytes(12))])
        kind = rng.random()
        if kind < 0.01:
            each = each[: rng.randrange(len(each))]
        elif kind < 0.03:
            byte = rng.randrange(len(each))
            each = each[:byte] + bytes([each[byte] ^ 1]) + each[byte + 1 :]
        data += each
    file.write_bytes(data)
    whole, parts = list(read_segment(file)), list(read_segment(file, chunk_bytes=900))
    assert rows_of(parts) == rows_of(whole)
    faults, expected = ([x for c in cs for x in c.faults] for cs in (parts, whole))
    assert faults == expected
    assert len(faults) > 10
    assert sum(len(c.headers) for c in parts) == sum(len(c.headers) for c in whole)
