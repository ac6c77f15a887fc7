"""Record batches of Coterie decoded by two client libraries, and the reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records
from kafka.record.memory_records import MemoryRecords

from coterie.errors import MalformedFrame
from coterie.wire.compression import Codec, DataTooLarge
from coterie.wire.record_batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    LogRecord,
    Marker,
    Producer,
    check_records,
    crc_matches,
    decode_marker,
    decode_records,
    encode_batch,
    encode_marker,
    iterate_records,
    read_header,
    split_batches,
    with_append_time,
    with_base_offset,
)

CLIENTS = [kafka_python_records, aiokafka_records]
RECORDS = [
    LogRecord(0, 1_700_000_000_000, b"key", b"value" * 100, (("h", b"1"), ("h", None))),
    LogRecord(1, 1_700_000_000_005, None, b"", ()),
    LogRecord(2, 1_699_999_999_990, b"", None, (("ü", b""),)),
    LogRecord(3, 1_700_000_000_000, b"k" * 200, b"v" * 20_000, ()),
]
PRODUCER = Producer(producer_id=2**40, producer_epoch=3, base_sequence=17)
clients = pytest.mark.parametrize("client", CLIENTS, ids=["kafka-python", "aiokafka"])
codecs = pytest.mark.parametrize("codec", Codec)


def read_by(client: Any, batch: bytes) -> list[LogRecord]:
    parsed = client.DefaultRecordBatch(bytearray(batch))
    assert parsed.validate_crc()
    return [
        LogRecord(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple((name, content) for name, content in record.headers),
        )
        for record in parsed
    ]


def written_by(client: Any, codec: Codec, *, transactional: bool) -> bytes:
    builder = client.DefaultRecordBatchBuilder(
        2, codec, transactional, *PRODUCER, 10**6
    )
    for record in RECORDS:
        headers = list(record.headers)
        builder.append(
            record.offset, record.timestamp_ms, record.key, record.value, headers
        )
    return bytes(builder.build())


@clients
@codecs
def test_other_clients_decode_coteries_batches(client: Any, codec: Codec) -> None:
    assert read_by(client, encode_batch(RECORDS, codec=codec)) == RECORDS


@clients
@codecs
def test_batches_of_other_clients_are_decoded(client: Any, codec: Codec) -> None:
    batch = written_by(client, codec, transactional=True)
    header = read_header(batch)
    assert crc_matches(batch)
    assert header.codec is codec
    assert header.is_transactional
    assert not header.is_control
    assert (header.record_count, header.last_offset, header.size_bytes) == (
        len(RECORDS),
        3,
        len(batch),
    )
    assert header[9:12] == PRODUCER
    assert header.last_sequence == 20
    assert decode_records(batch) == RECORDS


@clients
def test_uncompressed_batches_equal_those_of_other_clients(client: Any) -> None:
    theirs = written_by(client, Codec.NONE, transactional=True)
    ours = encode_batch(RECORDS, producer=PRODUCER, attributes=TRANSACTIONAL)
    # Producers write different values for the leader epoch, which the broker sets.
    assert ours[21:] == theirs[21:]
    assert ours[:12] == theirs[:12]


@pytest.mark.parametrize("commit", [True, False])
def test_clients_decode_coteries_markers(commit: bool) -> None:
    batch = encode_marker(9, 1_700_000_000_000, 5, 2, commit=commit)
    parsed = MemoryRecords(batch).next_batch()
    assert parsed.is_control_batch
    assert parsed.is_transactional
    (record,) = parsed
    assert record.commit is commit
    assert (parsed.producer_id, parsed.producer_epoch) == (5, 2)
    assert record.offset == 9


def test_a_marker_commits_or_aborts() -> None:
    (record,) = decode_records(encode_marker(0, 0, 5, 2, commit=True))
    assert decode_marker(record) == Marker(commit=True, coordinator_epoch=0)
    (record,) = decode_records(encode_marker(0, 0, 5, 2, commit=False))
    assert decode_marker(record) == Marker(commit=False, coordinator_epoch=0)
    other = record._replace(key=b"\0\0\0\2")
    assert decode_marker(other) is None
    for key, value in [(b"\0", record.value), (record.key, b""), (None, None)]:
        with pytest.raises(MalformedFrame):
            decode_marker(record._replace(key=key, value=value))


def test_another_base_offset_keeps_the_checksum_valid() -> None:
    batch = with_base_offset(encode_batch(RECORDS), 1000, leader_epoch=7)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (1000, 7)
    assert header.last_offset == 1003
    assert crc_matches(batch)
    assert [record.offset for record in decode_records(batch)] == [
        1000,
        1001,
        1002,
        1003,
    ]


@clients
def test_log_append_time_applies_to_every_record(client: Any) -> None:
    batch = with_append_time(encode_batch(RECORDS, codec=Codec.LZ4), 42)
    header = read_header(batch)
    assert header.is_log_append_time
    assert crc_matches(batch)
    assert {record.timestamp_ms for record in decode_records(batch, header)} == {42}
    assert read_by(client, batch) == decode_records(batch)


def test_log_append_time_may_be_set_when_encoding() -> None:
    batch = encode_batch(RECORDS, attributes=LOG_APPEND_TIME)
    newest = max(record.timestamp_ms for record in RECORDS)
    assert {record.timestamp_ms for record in decode_records(batch)} == {newest}


def test_a_compacted_batch_keeps_its_last_offset() -> None:
    batch = encode_batch(RECORDS[:1], last_offset=9)
    assert read_header(batch).last_offset == 9
    assert len(decode_records(batch)) == 1


def test_a_compacted_batch_keeps_its_base_offset() -> None:
    batch = encode_batch(RECORDS[2:], base_offset=0)
    assert read_header(batch).base_offset == 0
    assert decode_records(batch) == RECORDS[2:]


def test_the_last_sequence_wraps_and_may_be_absent() -> None:
    last = Producer(1, 0, 2**31 - 2)
    assert read_header(encode_batch(RECORDS, producer=last)).last_sequence == 1
    assert read_header(encode_batch(RECORDS)).last_sequence == -1


def test_consecutive_batches_are_split() -> None:
    one, two = encode_batch(RECORDS[:1]), encode_batch(RECORDS[1:])
    split = list(split_batches(one + two))
    assert [batch for _, batch in split] == [one, two]
    assert [header.record_count for header, _ in split] == [1, 3]
    assert next(iter(split_batches(one)))[1] is one


def test_a_flipped_bit_is_detected() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[100] ^= 1
    assert not crc_matches(bytes(batch))


@pytest.mark.parametrize("damage", ["short", "size", "magic", "tail"])
def test_an_invalid_batch_is_malformed(damage: str) -> None:
    batch = bytearray(encode_batch(RECORDS))
    if damage == "short":
        batch = batch[: HEADER_BYTES - 1]
    elif damage == "size":
        batch[8:12] = b"\xff\xff\xff\xff"
    elif damage == "magic":
        batch[16] = 1
    else:
        batch = batch[:-1]
    with pytest.raises(MalformedFrame):
        read_header(bytes(batch))


def test_an_unknown_codec_is_malformed() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[22] |= 7
    with pytest.raises(MalformedFrame):
        decode_records(bytes(batch))


def one_record(body: bytes) -> bytes:
    """Return a batch with a record count of one and these bytes as its records."""
    whole = bytearray(encode_batch(RECORDS[:1]))[:HEADER_BYTES] + body
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    return bytes(whole)


@pytest.mark.parametrize(
    "body",
    [
        b"",  # none at all
        b"\1",  # a negative size
        b"\x20\0",  # past the end
        b"\x0c\0\0\0\1\1\0x",  # a byte after the last record
        b"\x0e\0\0\0\1\1\0x",  # ends too early
        b"\x0c\0\0\0\x40\1\0",  # a key past the end
        b"\x0c\0\0\0\1\1\5",  # a negative number of headers
        b"\x0e\0\0\0\1\1\2\1",  # a header without a name
        b"\x12\0\0\0\1\1\2\2\xff\1",  # a name that is not UTF-8
        b"\x0c\0\0\0\1\1\x40",  # more headers than bytes
        b"\xff" * 10 + b"\1",  # a varint without end
    ],
)
def test_invalid_records_are_malformed(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_records(one_record(body))


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_an_impossible_record_count_is_malformed(count: int) -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(MalformedFrame):
        decode_records(bytes(batch))


def test_a_timestamp_beyond_64_bits_is_malformed() -> None:
    body = b"\0" + b"\xfe" + b"\xff" * 8 + b"\1" + b"\0\1\1\0"
    sized = bytes([len(body) << 1]) + body
    with pytest.raises(MalformedFrame):
        decode_records(one_record(sized))


@pytest.mark.parametrize("offset_delta", [b"\1", b"\x80\x80\x80\x80\x10"])
def test_an_impossible_offset_is_malformed(offset_delta: bytes) -> None:
    body = b"\0\0" + offset_delta + b"\1\1\0"
    with pytest.raises(MalformedFrame):
        decode_records(one_record(bytes([len(body) << 1]) + body))


contents = st.none() | st.binary(max_size=40)
names = st.text(max_size=8)
headers = st.lists(st.tuples(names, contents), max_size=3).map(tuple)
record_lists = st.lists(
    st.builds(
        LogRecord,
        offset=st.just(0),
        timestamp_ms=st.integers(-1, 2**50),
        key=contents,
        value=contents,
        headers=headers,
    ),
    min_size=1,
    max_size=8,
)


def numbered(records: list[LogRecord], base_offset: int) -> list[LogRecord]:
    return [
        record._replace(offset=base_offset + index)
        for index, record in enumerate(records)
    ]


@pytest.mark.slow
@given(record_lists, st.integers(0, 2**60), st.sampled_from(Codec))
def test_records_are_decoded_as_they_were_encoded(
    records: list[LogRecord], base_offset: int, codec: Codec
) -> None:
    records = numbered(records, base_offset)
    batch = encode_batch(records, codec=codec)
    assert decode_records(batch) == records


@pytest.mark.slow
@given(record_lists, st.data(), st.sampled_from([read_header, decode_records]))
def test_corrupted_records_are_malformed_or_records(
    records: list[LogRecord], data: st.DataObject, read: Callable[[bytes], Any]
) -> None:
    batch = bytearray(encode_batch(numbered(records, 0)))
    batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        read(bytes(batch))
    except MalformedFrame:
        return


# Comparing the records with the header.


def lied(
    bodies: list[bytes],
    count: int,
    codec: Codec = Codec.NONE,
    deltas: list[int] | None = None,
) -> bytes:
    """Return a batch of records with these offset deltas and a stated count."""
    steps = range(len(bodies)) if deltas is None else deltas
    records = [
        LogRecord(delta, 0, None, body)
        for delta, body in zip(steps, bodies, strict=True)
    ]
    batch = encode_batch(records, codec=codec, base_offset=0, last_offset=count - 1)
    return batch[:57] + count.to_bytes(4, "big") + batch[61:]


@pytest.mark.slow
@codecs
@given(st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 2**40)), min_size=1))
def test_records_that_agree_with_the_header_pass(
    codec: Codec, content: list[tuple[bytes, int]]
) -> None:
    records = [
        LogRecord(at, time, value or None, value, (("h", value),) if value else ())
        for at, (value, time) in enumerate(content)
    ]
    batch = encode_batch(records, codec=codec)
    times = [time for _, time in content]
    assert check_records(batch, read_header(batch)) == (min(times), max(times))


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 60, 130, 20_000])
def test_lengths_and_deltas_of_any_size_pass(size: int) -> None:
    count = 20_000 if size < 1_000 else 200
    records = [LogRecord(at, at << 20, None, b"x" * size) for at in range(count)]
    batch = encode_batch(records)
    check_records(batch, read_header(batch))


@codecs
@pytest.mark.parametrize(
    ("count", "deltas"),
    [
        (2, [0, 1, 2]),
        (4, [0, 1, 2]),
        (2**31 - 1, [0, 1, 2]),
        (3, [0, 0, 0]),
        (3, [5, 6, 7]),
        (3, [1, 2, 3]),
        (3, [0, 1, 300]),
        (3, [0, 1, 2**30]),
        (3, [-1, 0, 1]),
    ],
)
def test_records_that_disagree_with_the_header_are_malformed(
    codec: Codec, count: int, deltas: list[int]
) -> None:
    batch = lied([b"x"] * 3, count, codec, deltas)
    with pytest.raises(MalformedFrame):
        check_records(batch, read_header(batch))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x0c",
        b"\x0a\0\0\0\1\1",
        b"\x0b\0\0\0\1\1\0",
        b"\x0e\0\0\0\1\1\0",
        b"\x0c\0\0\0\1\1\0\0",
        b"\xff" * 30,
        b"\x0c\0" + b"\x80" * 30,
        b"\x0c\0\x80\x80\x80\0\0",
    ],
)
def test_lengths_that_disagree_with_the_batch_are_malformed(body: bytes) -> None:
    header = encode_batch([LogRecord(0, 0, None, None)])[:HEADER_BYTES]
    length = (HEADER_BYTES - 12 + len(body)).to_bytes(4, "big")
    batch = header[:8] + length + header[12:] + body
    with pytest.raises(MalformedFrame):
        check_records(batch, read_header(batch))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_records_are_decompressed_up_to_the_limit(codec: Codec) -> None:
    batch = encode_batch([LogRecord(0, 0, None, bytes(100_000))], codec=codec)
    check_records(batch, read_header(batch), 100_011)
    with pytest.raises(DataTooLarge):
        check_records(batch, read_header(batch), 100_010)


def test_records_are_decoded_one_by_one() -> None:
    batch = lied([b"x"] * 3, 9)
    records = iterate_records(batch)
    assert [next(records).offset for _ in range(3)] == [0, 1, 2]
    with pytest.raises(MalformedFrame):
        next(records)
