"""Frames are split correctly however the bytes arrive; headers have Kafka's layout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_header import RequestHeader as KafkaPythonHeader

from coterie.errors import MalformedFrame
from coterie.wire.framing import (
    FrameReader,
    RequestHeaderV0,
    read_client_id,
    read_header_v0,
    read_response,
    write_request,
    write_response,
)
from tests.wire.hand import NO_TAGS, int16, int32, text

FRONT = RequestHeaderV0(api_key=12, api_version=4, correlation_id=77)


def framed(*frames: bytes) -> bytes:
    return b"".join(int32(len(frame)) + frame for frame in frames)


@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(0, 200)))
def test_frames_do_not_depend_on_where_reads_end(
    frames: list[bytes], cuts: list[int]
) -> None:
    stream = framed(*frames)
    reader = FrameReader(30)
    found = []
    start = 0
    for end in [*sorted(cut for cut in cuts if cut < len(stream)), len(stream)]:
        found += reader.feed(stream[start:end])
        start = end
    assert found == frames
    assert reader.failure is None
    assert reader.waiting_bytes == 0


def test_buffered_bytes_are_counted() -> None:
    reader = FrameReader(30)
    stream = framed(b"whole", b"half")
    assert reader.feed(stream[:-2]) == [b"whole"]
    assert reader.waiting_bytes == 6
    assert reader.feed(stream[-2:]) == [b"half"]
    assert reader.waiting_bytes == 0


@given(
    st.lists(st.integers(-(2**15), 2**15 - 1), max_size=5),
    st.integers(0, 100),
    st.integers(0, 100),
)
def test_the_keys_of_complete_frames_are_read_without_taking_them(
    keys: list[int], first: int, end: int
) -> None:
    frames = [int16(key) + b"body" for key in keys]
    stream = framed(*frames)[:end]
    reader = FrameReader(30)
    reader.append(stream[:first])
    reader.append(stream[first:])

    count = len(stream) // len(framed(b"__body"))
    assert reader.complete_keys() == keys[:count]
    assert reader.feed(b"") == frames[:count]


@pytest.mark.parametrize("size", [-1, -(2**31), 31, 2**31 - 1])
def test_an_impossible_frame_size_is_reported_after_earlier_frames(size: int) -> None:
    reader = FrameReader(30)
    assert reader.feed(framed(b"good") + int32(size) + framed(b"more")) == [b"good"]
    assert reader.failure is not None
    assert str(size) in str(reader.failure)
    assert reader.waiting_bytes == 0
    assert reader.feed(framed(b"more")) == []


def test_the_largest_frame_is_read() -> None:
    assert FrameReader(30).feed(framed(bytes(30))) == [bytes(30)]


PRODUCE_KEY, OTHER_KEY = int16(0), int16(3)


def test_only_a_produce_request_may_be_larger_than_the_limit() -> None:
    produced = PRODUCE_KEY + bytes(98)
    assert FrameReader(30, 100).feed(framed(produced)) == [produced]
    for other in (OTHER_KEY + bytes(29), PRODUCE_KEY + bytes(99)):
        reader = FrameReader(30, 100)
        assert reader.feed(framed(b"good", other)) == [b"good"]
        assert str(len(other)) in str(reader.failure)


@pytest.mark.parametrize("cut", range(7))
def test_a_large_frame_is_refused_when_its_api_key_arrives(cut: int) -> None:
    front = int32(90) + OTHER_KEY
    reader = FrameReader(30, 100)
    assert reader.feed(front[:cut]) == []
    assert (reader.failure is None) == (cut < 5 + OTHER_KEY.startswith(b"\0"))
    assert reader.feed(front[cut:]) == []
    assert "90 bytes; at most 30" in str(reader.failure)


@pytest.mark.parametrize("cut", range(10))
def test_a_large_produce_request_may_arrive_in_pieces(cut: int) -> None:
    stream = framed(PRODUCE_KEY + bytes(88)) + framed(b"next")
    reader = FrameReader(30, 100)
    assert reader.feed(stream[:cut]) == []
    assert reader.feed(stream[cut:50]) == []
    assert reader.feed(stream[50:]) == [PRODUCE_KEY + bytes(88), b"next"]
    assert reader.failure is None


def test_a_frame_larger_than_every_limit_is_refused_by_its_size_alone() -> None:
    reader = FrameReader(30, 100)
    assert reader.feed(int32(101)) == []
    assert "101 bytes; at most 100" in str(reader.failure)


@pytest.mark.fact("G1-01a")
def test_a_request_header_has_key_version_correlation_id_and_client_id() -> None:
    frame = write_request(FRONT, "me", b"body", flexible=False)
    payload = int16(12) + int16(4) + int32(77) + text("me") + b"body"
    assert frame == int32(len(payload)) + payload
    assert read_header_v0(payload) == FRONT
    assert read_client_id(payload, flexible=False) == ("me", len(payload) - 4)


@pytest.mark.fact("G1-01a", "G1-01b")
def test_a_flexible_request_header_adds_tags_and_keeps_the_client_id_format() -> None:
    frame = write_request(FRONT, "me", b"body", flexible=True)
    payload = int16(12) + int16(4) + int32(77) + text("me") + NO_TAGS + b"body"
    assert frame == int32(len(payload)) + payload
    assert read_client_id(payload, flexible=True) == ("me", len(payload) - 4)


@pytest.mark.fact("G1-01a")
@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("client_id", ["", "kafka-python", "ü" * 40])
def test_kafka_python_encodes_the_same_header(client_id: str, flexible: bool) -> None:
    theirs = KafkaPythonHeader(
        request_api_key=12,
        request_api_version=4,
        correlation_id=77,
        client_id=client_id,
    ).encode(flexible=flexible)
    assert write_request(FRONT, client_id, b"", flexible=flexible)[4:] == theirs


@pytest.mark.fact("G1-01a")
@pytest.mark.parametrize("flexible", [False, True])
def test_the_client_id_may_be_null(flexible: bool) -> None:
    payload = write_request(FRONT, None, b"x", flexible=flexible)[4:]
    assert read_client_id(payload, flexible=flexible) == ("", len(payload) - 1)


def test_tags_of_a_request_header_are_skipped() -> None:
    payload = int16(12) + int16(4) + int32(77) + text("me") + b"\1\3\2ab" + b"body"
    assert read_client_id(payload, flexible=True) == ("me", len(payload) - 4)


@pytest.mark.fact("G1-01c", "G1-01a")
def test_a_response_header_has_correlation_id_and_tags_in_v1() -> None:
    assert write_response(77, b"body", tagged=False) == int32(8) + int32(77) + b"body"
    flexible = write_response(77, b"body", tagged=True)
    assert flexible == int32(9) + int32(77) + NO_TAGS + b"body"
    assert read_response(flexible[4:], tagged=True) == (77, 5)
    assert read_response(int32(77) + b"\1\3\2ab" + b"body", tagged=True) == (77, 9)
    assert read_response(int32(77) + b"body", tagged=False) == (77, 4)


@pytest.mark.parametrize("frame", [b"", bytes(7)])
def test_a_frame_without_a_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_header_v0(frame)


@pytest.mark.parametrize(
    "tail",
    [b"", b"\0", int16(-2), int16(3) + b"ab", int16(1) + b"\xff", int16(0), b"\0\0\1"],
)
def test_a_truncated_request_header_is_malformed(tail: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_client_id(bytes(8) + tail, flexible=True)


@pytest.mark.parametrize("frame", [b"", bytes(3), bytes(4), bytes(4) + b"\1"])
def test_a_truncated_response_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_response(frame, tagged=True)
