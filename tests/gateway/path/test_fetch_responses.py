"""The addresses of leaders in Fetch responses, in one part and in several."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import MalformedFrame
from coterie.gateway.path.fetch_responses import FetchRewrite, FetchWalk
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import SIZE_BYTES, frame_of, read_response, write_response

LEADERS = [
    m.NodeEndpoint(node_id=2, host="up-2", port=2222),
    m.NodeEndpoint(node_id=3, host="up-3", port=3333, rack="r"),
]


def response(leaders: list[m.NodeEndpoint]) -> m.FetchResponse:
    """Return a response with everything that precedes the leaders."""
    moved = m.PartitionData(
        partition_index=0,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=m.LeaderIdAndEpoch(leader_id=2, leader_epoch=7),
        records=None,
    )
    moved.diverging_epoch.epoch = 4
    full = m.PartitionData(
        partition_index=1,
        aborted_transactions=[
            m.AbortedTransaction(producer_id=at, first_offset=at) for at in range(3)
        ],
        records=b"\0\1\0" * 50,
    )
    empty = m.PartitionData(partition_index=2, aborted_transactions=[], records=b"")
    return m.FetchResponse(
        session_id=9,
        responses=[
            m.FetchableTopicResponse(topic_id=b"1" * 16, partitions=[moved, full]),
            m.FetchableTopicResponse(topic_id=b"2" * 16, partitions=[]),
            m.FetchableTopicResponse(topic_id=b"3" * 16, partitions=[empty]),
        ],
        node_endpoints=leaders,
    )


def frame(version: int, leaders: list[m.NodeEndpoint]) -> bytes:
    return write_response(5, encode(response(leaders), version), tagged=True)


def read(framed: bytes, version: int) -> m.FetchResponse:
    payload = framed[SIZE_BYTES:]
    assert len(payload) == int.from_bytes(framed[:SIZE_BYTES])
    correlation_id, at = read_response(payload, tagged=True)
    assert correlation_id == 5
    decoded, end = decode(m.FetchResponse, version, payload, at)
    assert end == len(payload)
    return decoded


def move(leaders: list[m.NodeEndpoint]) -> None:
    for each in leaders:
        each.host, each.port = f"gateway-for-{each.node_id}", each.port + 1


def passed(parts: list[bytes]) -> bytes:
    walk = FetchWalk()
    return b"".join(walk.hide_leaders(part) for part in parts)


@pytest.mark.parametrize("version", [16, 17, 18])
def test_a_whole_response_gets_the_gateways_addresses(version: int) -> None:
    rewrite = FetchRewrite(version, move)

    found = read(rewrite(frame(version, LEADERS)), version)

    moved = [
        m.NodeEndpoint(node_id=2, host="gateway-for-2", port=2223),
        m.NodeEndpoint(node_id=3, host="gateway-for-3", port=3334, rack="r"),
    ]
    assert found == response(moved)


@pytest.mark.parametrize("sent", [response([]), m.FetchResponse(error_code=70)])
def test_a_whole_response_without_leaders_is_the_same_object(
    sent: m.FetchResponse,
) -> None:
    whole = write_response(5, encode(sent, 16), tagged=True)

    assert FetchRewrite(16, move)(whole) is whole


@pytest.mark.parametrize("leaders", [[], LEADERS], ids=["none", "some"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_response_in_parts_keeps_its_size_and_loses_its_leaders(
    leaders: list[m.NodeEndpoint], size: int
) -> None:
    whole = frame(17, leaders)
    parts = [whole[at : at + size] for at in range(0, len(whole), size)]

    assert read(passed(parts), 17) == response([])
    if not leaders:
        assert passed(parts) == whole


@settings(max_examples=30)
@given(cuts=st.sets(st.integers(1, len(frame(16, LEADERS)) - 1), max_size=4))
def test_where_a_response_is_cut_does_not_matter(cuts: set[int]) -> None:
    whole = frame(16, LEADERS)
    at = [0, *sorted(cuts), len(whole)]
    parts = [whole[begin:end] for begin, end in pairwise(at)]

    assert read(passed(parts), 16) == response([])


def test_other_tagged_fields_are_kept() -> None:
    whole = frame(16, LEADERS)
    end = FetchWalk().find_end(whole)
    assert end is not None
    payload = whole[SIZE_BYTES : end.at] + b"\2" + whole[end.tag_at :] + b"\x05\1z"

    rewritten = FetchRewrite(16, move)(frame_of(payload))

    assert rewritten.endswith(b"\x05\1z")
    assert b"gateway-for-3" in rewritten


@pytest.mark.parametrize("left", [5, 10, 100, 300])
def test_an_incomplete_response_is_refused(left: int) -> None:
    with pytest.raises(MalformedFrame, match="incomplete"):
        FetchRewrite(16, move)(frame(16, LEADERS)[:left])


def test_leaders_that_cannot_be_read_are_refused() -> None:
    whole = frame(16, LEADERS)

    with pytest.raises(MalformedFrame, match="NodeEndpoint"):
        FetchRewrite(16, move)(whole.replace(b"up-3", b"\xff\xff\xff\xff"))
