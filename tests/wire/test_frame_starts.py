"""The starts of frames, at every length of what has arrived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import MalformedFrame
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import encode
from coterie.wire.frame_starts import REQUEST_HEAD, read_acks
from coterie.wire.framing import RequestHeaderV0, frame_of, write_request


@given(
    version=st.integers(3, 13),
    client_id=st.none() | st.text(max_size=200),
    transactional_id=st.none() | st.text(max_size=200),
    acks=st.sampled_from([-1, 0, 1]),
    before=st.binary(max_size=9),
)
def test_acks_are_read_as_soon_as_they_have_arrived(
    version: int,
    client_id: str | None,
    transactional_id: str | None,
    acks: int,
    before: bytes,
) -> None:
    request = m.ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1_000
    )
    flexible = version in m.ProduceRequest.FLEXIBLE
    body = encode(request, version)
    frame = write_request(
        RequestHeaderV0(ApiKey.PRODUCE, version, 9), client_id, body, flexible=flexible
    )
    topics_at = len(frame) - len(body)
    rest = body[body.index(acks.to_bytes(2, signed=True) + (1_000).to_bytes(4)) :]
    acks_end = len(frame) - len(rest) + 2
    assert acks_end > topics_at

    for count in range(REQUEST_HEAD.size, len(frame) + 1):
        found = read_acks(before + frame[:count], len(before), version)
        assert found == (acks if count >= acks_end else None)


@pytest.mark.parametrize("version", [0, 3, 9])
def test_a_complete_frame_without_acks_is_malformed(version: int) -> None:
    frame = frame_of(REQUEST_HEAD.pack(0, 0, version, 1)[4:] + b"\0\0")

    with pytest.raises(MalformedFrame):
        read_acks(frame + bytes(100) if version == 0 else frame, 0, version)
