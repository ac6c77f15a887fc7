"""Merging of staged batches."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.gateway.log.shard_writer import (
    RECORDS_MAX,
    batch_at,
    has_records_of,
    merged,
    runs,
)
from coterie.wire.compression import Codec
from coterie.wire.record_batch import (
    HEADER_BYTES,
    LogRecord,
    Producer,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
)

PRODUCER = Producer(7, 3, 11)

contents = st.lists(
    st.tuples(
        st.integers(-1_000, 100_000),
        st.none() | st.binary(max_size=80),
        st.none() | st.binary(max_size=90),
        st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=12,
)


def batch_of(base: int, records: list[tuple[int, object, object, object]]) -> bytes:
    return encode_batch(
        [
            LogRecord(base + at, 1_000_000 + time, key, value, tuple(headers))  # type: ignore[arg-type]
            for at, (time, key, value, headers) in enumerate(records)
        ]
    )


@settings(max_examples=10)
@given(st.lists(contents, min_size=1, max_size=5), st.integers(0, 2**40))
def test_a_merged_batch_has_the_records_of_all_in_order(
    parts: list[list[tuple[int, object, object, object]]], base: int
) -> None:
    batches, expected, at = [], [], base
    for part in parts:
        batches.append(batch_of(at, part))
        expected += decode_records(batches[-1])
        at += len(part)
    if len(parts) > 1:
        time_ms = expected[0].timestamp_ms
        expected = [each._replace(timestamp_ms=time_ms) for each in expected]
    batch = merged(batches, PRODUCER)
    header = read_header(batch)
    assert crc_matches(batch)
    assert header.base_offset == 0
    assert header.record_count == header.last_offset_delta + 1 == len(expected)
    assert header[9:12] == PRODUCER
    assert header.max_timestamp_ms == max(each.timestamp_ms for each in expected)
    assert decode_records(batch)[0].timestamp_ms == header.base_timestamp_ms
    found = [each._replace(offset=each.offset + base) for each in decode_records(batch)]
    assert found == expected
    sizes = [(len(each), len(part)) for each, part in zip(batches, parts, strict=True)]
    size = sum(len(each) for each in batches) + 5 * len(expected)
    assert runs(sizes, size) == [len(parts)]
    at = 0
    for count in runs(sizes, 500):
        one = merged(batches[at : at + count], PRODUCER)
        assert count == 1 or len(one) <= 500
        at += count
    assert at == len(batches)


def test_deltas_of_many_records_need_more_bytes() -> None:
    one = batch_of(0, [(0, None, None, [])] * 70)
    batches = [batch_of(70 * i, [(0, None, None, [])] * 70) for i in range(130)]
    assert len(merged(batches, PRODUCER)) > 130 * (len(one) - HEADER_BYTES)
    found = decode_records(merged(batches, PRODUCER))
    assert [each.offset for each in found] == list(range(9_100))


def test_a_batch_that_is_too_large_alone_is_not_merged() -> None:
    assert runs([(HEADER_BYTES + 900, 1), (200, 1), (200, 1)], 500) == [1, 2]


def test_a_merged_batch_has_a_limited_number_of_records() -> None:
    assert runs([(20_000, RECORDS_MAX // 2)] * 5, 10_000_000) == [2, 2, 1]


def test_a_compressed_batch_has_the_records_of_what_was_sent() -> None:
    records = [LogRecord(0, 1_000, b"k", b"v" * 100)]
    sent = encode_batch(records)
    assert has_records_of(encode_batch(records, codec=Codec.GZIP), sent)
    other = [LogRecord(0, 1_000, b"k", b"w")]
    assert not has_records_of(encode_batch(other), sent)


def test_a_batch_is_found_by_its_first_offset() -> None:
    first, second = (
        encode_batch([LogRecord(at, 0, b"k", b"v")], base_offset=at) for at in (4, 5)
    )
    assert batch_at(first + second, 5) == second
    assert batch_at(first + second, 3) is None
