"""Frames come out whole, however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.wire.framing import FrameReader
from tests.wire.hand import int32


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


def test_what_waits_is_counted() -> None:
    reader = FrameReader(30)
    stream = framed(b"whole", b"half")
    assert reader.feed(stream[:-2]) == [b"whole"]
    assert reader.waiting_bytes == 6
    assert reader.feed(stream[-2:]) == [b"half"]
    assert reader.waiting_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 31, 2**31 - 1])
def test_a_size_no_frame_can_have_ends_it_after_what_came_before(size: int) -> None:
    reader = FrameReader(30)
    assert reader.feed(framed(b"good") + int32(size) + framed(b"more")) == [b"good"]
    assert reader.failure is not None
    assert str(size) in str(reader.failure)
    assert reader.waiting_bytes == 0
    assert reader.feed(framed(b"more")) == []


def test_the_largest_frame_is_read() -> None:
    assert FrameReader(30).feed(framed(bytes(30))) == [bytes(30)]
