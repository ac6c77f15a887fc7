"""Headers: what comes before a body, and which of its forms."""

from __future__ import annotations

import pytest
from kafka.protocol.api_header import RequestHeader as KafkaPythonHeader

from coterie.errors import MalformedFrame
from coterie.wire.headers import (
    RequestFront,
    read_client_id,
    read_front,
    read_response,
    write_request,
    write_response,
)
from tests.wire.hand import NO_TAGS, int16, int32, text

FRONT = RequestFront(api_key=12, api_version=4, correlation_id=77)


@pytest.mark.fact("G1-01")
def test_a_request_is_size_key_version_correlation_and_client() -> None:
    frame = write_request(FRONT, "me", b"body", flexible=False)
    payload = int16(12) + int16(4) + int32(77) + text("me") + b"body"
    assert frame == int32(len(payload)) + payload
    assert read_front(payload) == FRONT
    assert read_client_id(payload, flexible=False) == ("me", len(payload) - 4)


@pytest.mark.fact("G1-01")
def test_a_flexible_request_adds_tags_and_keeps_the_client_id_as_it_was() -> None:
    frame = write_request(FRONT, "me", b"body", flexible=True)
    payload = int16(12) + int16(4) + int32(77) + text("me") + NO_TAGS + b"body"
    assert frame == int32(len(payload)) + payload
    assert read_client_id(payload, flexible=True) == ("me", len(payload) - 4)


@pytest.mark.fact("G1-01")
@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("client_id", ["", "kafka-python", "ü" * 40])
def test_kafka_python_writes_the_same_header(client_id: str, flexible: bool) -> None:
    theirs = KafkaPythonHeader(
        request_api_key=12,
        request_api_version=4,
        correlation_id=77,
        client_id=client_id,
    ).encode(flexible=flexible)
    assert write_request(FRONT, client_id, b"", flexible=flexible)[4:] == theirs


@pytest.mark.fact("G1-01")
@pytest.mark.parametrize("flexible", [False, True])
def test_a_client_may_have_no_name(flexible: bool) -> None:
    payload = write_request(FRONT, None, b"x", flexible=flexible)[4:]
    assert read_client_id(payload, flexible=flexible) == ("", len(payload) - 1)


def test_tags_of_a_request_header_are_skipped() -> None:
    payload = int16(12) + int16(4) + int32(77) + text("me") + b"\1\3\2ab" + b"body"
    assert read_client_id(payload, flexible=True) == ("me", len(payload) - 4)


@pytest.mark.fact("G1-01")
def test_a_response_is_size_correlation_and_tags_where_asked() -> None:
    assert write_response(77, b"body", tagged=False) == int32(8) + int32(77) + b"body"
    flexible = write_response(77, b"body", tagged=True)
    assert flexible == int32(9) + int32(77) + NO_TAGS + b"body"
    assert read_response(flexible[4:], tagged=True) == (77, 5)
    assert read_response(int32(77) + b"\1\3\2ab" + b"body", tagged=True) == (77, 9)
    assert read_response(int32(77) + b"body", tagged=False) == (77, 4)


@pytest.mark.parametrize("frame", [b"", bytes(7)])
def test_a_frame_without_a_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_front(frame)


@pytest.mark.parametrize(
    "tail",
    [b"", b"\0", int16(-2), int16(3) + b"ab", int16(1) + b"\xff", int16(0), b"\0\0\1"],
)
def test_a_header_that_breaks_off_is_malformed(tail: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_client_id(bytes(8) + tail, flexible=True)


@pytest.mark.parametrize("frame", [b"", bytes(3), bytes(4), bytes(4) + b"\1"])
def test_a_response_header_that_breaks_off_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_response(frame, tagged=True)
