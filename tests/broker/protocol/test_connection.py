"""The protocol of a connection, without a socket: response order, versions, errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsResponse as KafkaPythonResponse

from coterie.broker.protocol.connection import FAST_PATH_TURN, Connection, Request
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.framing import RequestHeaderV0, read_response, write_request
from coterie.wire.schema import Message
from tests.wire.hand import int16, int32, text

FRAME_BYTES_MAX = 10_000


def connection() -> Connection:
    return Connection(FRAME_BYTES_MAX)


def received(peer: Connection, data: bytes = b"") -> list[Request]:
    """Feed bytes; return the requests that can be handled before any response."""
    peer.receive_data(peer.respond_fast(data))
    requests = []
    while (request := peer.next_request()) is not None:
        requests.append(request)
    return requests


def request_bytes(
    request: Message, version: int, correlation_id: int, client_id: str | None = "me"
) -> bytes:
    front = RequestHeaderV0(request.API_KEY, version, correlation_id)
    flexible = version in request.FLEXIBLE
    return write_request(front, client_id, encode(request, version), flexible=flexible)


def heartbeat(correlation_id: int, version: int = 4) -> bytes:
    return request_bytes(m.HeartbeatRequest(group_id="g"), version, correlation_id)


def correlation_ids(stream: bytes) -> list[int]:
    found = []
    while stream:
        size = int.from_bytes(stream[:4], "big")
        found.append(int.from_bytes(stream[4:8], "big"))
        stream = stream[4 + size :]
    return found


@pytest.mark.fact("G1-01c", "G1-01a")
@pytest.mark.parametrize("version", range(5))
def test_a_request_is_decoded_and_its_response_encoded(version: int) -> None:
    peer = connection()
    (request,) = received(peer, heartbeat(7, version))
    assert (request.api_key, request.api_version) == (12, version)
    assert (request.correlation_id, request.client_id) == (7, "me")
    assert request.body == m.HeartbeatRequest(group_id="g")
    peer.respond(request, m.HeartbeatResponse(error_code=27))
    frame = peer.data_to_send()
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, at = read_response(frame[4:], tagged=version == 4)
    assert correlation_id == 7
    answer, end = decode(m.HeartbeatResponse, version, frame, 4 + at)
    assert answer.error_code == 27
    assert end == len(frame)


@pytest.mark.parametrize("key", ADVERTISED)
def test_every_served_version_of_an_api_is_decoded(key: ApiKey) -> None:
    api = api_of(key)
    peer = connection()
    for version in range(api.served.low, api.served.high + 1):
        (request,) = received(peer, request_bytes(api.request(), version, version))
        peer.respond(request, api.response())
        flexible = version in api.response.FLEXIBLE and key is not ApiKey.API_VERSIONS
        frame = peer.data_to_send()[4:]
        correlation_id, at = read_response(frame, tagged=flexible)
        assert correlation_id == version
        assert decode(api.response, version, frame, at)[1] == len(frame)
    assert peer.failure is None


@pytest.mark.fact("G1-05")
@given(st.permutations(range(6)))
def test_responses_are_sent_in_the_order_of_requests(order: list[int]) -> None:
    peer = connection()
    requests = received(peer, b"".join(heartbeat(index) for index in range(6)))
    sent = b""
    for index in order:
        peer.respond(requests[index], m.HeartbeatResponse())
        sent += peer.data_to_send()
    assert correlation_ids(sent) == list(range(6))
    assert peer.in_flight == 0


@pytest.mark.fact("G1-05")
def test_a_response_waits_for_earlier_responses() -> None:
    peer = connection()
    one, two = received(peer, heartbeat(1) + heartbeat(2))
    peer.respond(two, m.HeartbeatResponse())
    assert peer.data_to_send() == b""
    assert peer.in_flight == 2
    peer.respond(one, m.HeartbeatResponse())
    assert correlation_ids(peer.data_to_send()) == [1, 2]
    assert peer.data_to_send() == b""


@pytest.mark.fact("G1-06")
def test_a_request_without_a_response_does_not_delay_later_responses() -> None:
    peer = connection()
    produce = request_bytes(m.ProduceRequest(acks=0), 9, 1)
    silent, loud = received(peer, produce + heartbeat(2))
    peer.respond(loud, m.HeartbeatResponse())
    peer.respond(silent, None)
    assert correlation_ids(peer.data_to_send()) == [2]


def test_a_second_response_to_a_request_is_an_error() -> None:
    peer = connection()
    one, two = received(peer, heartbeat(1) + heartbeat(2))
    peer.respond(two, m.HeartbeatResponse())
    with pytest.raises(AssertionError, match="answered twice"):
        peer.respond(two, m.HeartbeatResponse())
    assert one.frame is None


@pytest.mark.fact("G1-02")
@pytest.mark.parametrize("version", [3, 4])
def test_an_api_versions_response_has_header_v0(version: int) -> None:
    peer = connection()
    (request,) = received(peer, request_bytes(m.ApiVersionsRequest(), version, 9))
    peer.respond(request, m.ApiVersionsResponse())
    body = encode(m.ApiVersionsResponse(), version)
    assert peer.data_to_send() == int32(4 + len(body)) + int32(9) + body


@pytest.mark.fact("G1-03", "G4-02")
@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_an_unsupported_api_versions_version_gets_a_v0_response(
    version: int,
) -> None:
    peer = connection()
    unknown = int16(18) + int16(version) + int32(9) + text("new") + b"\0whatever"
    assert received(peer, int32(len(unknown)) + unknown) == []
    frame = peer.data_to_send()
    assert frame[4:] == int32(9) + int16(35) + int32(1) + int16(18) + int16(0) + int16(
        5
    )
    theirs = KafkaPythonResponse.decode(frame, version=4, header=True, framed=True)
    assert theirs.error_code == 35
    assert [key.max_version for key in theirs.api_keys] == [5]
    assert peer.failure is None
    (again,) = received(peer, request_bytes(m.ApiVersionsRequest(), 3, 10))
    assert again.api_version == 3


@pytest.mark.fact("G1-03", "G1-05")
def test_the_response_to_an_unknown_version_waits_for_earlier_responses() -> None:
    peer = connection()
    unknown = int16(18) + int16(99) + int32(2) + text("new")
    stream = heartbeat(1) + int32(len(unknown)) + unknown + heartbeat(3)
    (first,) = received(peer, stream)
    assert peer.data_to_send() == b""
    peer.respond(first, m.HeartbeatResponse())
    (last,) = received(peer)
    peer.respond(last, m.HeartbeatResponse())
    assert correlation_ids(peer.data_to_send()) == [1, 2, 3]


NONSENSE = {
    "negative frame": int32(-1),
    "frame too large": int32(FRAME_BYTES_MAX + 1),
    "no header": int32(3) + b"abc",
    "unknown key": int32(10) + int16(999) + int16(0) + int32(1) + text(""),
    "negative key": int32(10) + int16(-1) + int16(0) + int32(1) + text(""),
    "unknown version": int32(10) + int16(12) + int16(5) + int32(1) + text(""),
    "negative version": int32(10) + int16(12) + int16(-1) + int32(1) + text(""),
    "old produce": int32(10) + int16(0) + int16(2) + int32(1) + text(""),
    "client id": int32(10) + int16(12) + int16(0) + int32(1) + int16(5),
    "body": int32(12) + int16(12) + int16(0) + int32(1) + text("") + b"\0\5",
}


@pytest.mark.fact("G1-04")
@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=list(NONSENSE))
def test_malformed_bytes_close_the_connection_after_earlier_responses(
    nonsense: bytes,
) -> None:
    peer = connection()
    requests = received(peer, heartbeat(1) + nonsense + heartbeat(2))
    assert [request.correlation_id for request in requests] == [1]
    peer.respond(requests[0], m.HeartbeatResponse())
    assert received(peer, heartbeat(3)) == []
    assert peer.failure is not None
    assert str(peer.failure)
    assert received(peer, heartbeat(4)) == []
    assert correlation_ids(peer.data_to_send()) == [1]
    assert (peer.frames.waiting_bytes, peer.held_bytes) == (0, 0)


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=list(NONSENSE))
def test_a_failure_does_not_hold_the_bytes_of_the_request(nonsense: bytes) -> None:
    peer = connection()
    received(peer, nonsense)
    assert peer.failure is not None
    # The frames of a traceback refer to the bytes, in a circle of references.
    assert peer.failure.__traceback__ is None
    assert peer.failure.__context__ is None


def test_an_incomplete_request_is_buffered() -> None:
    peer = connection()
    stream = heartbeat(1)
    assert received(peer, stream[:-1]) == []
    assert peer.failure is None
    (request,) = received(peer, stream[-1:])
    assert request.correlation_id == 1


@pytest.mark.parametrize("version", [3, 4])
def test_the_client_id_may_change_between_requests(version: int) -> None:
    peer = connection()
    names = ["one", "one", "oneself", "", None, "one"]
    requests: list[Request] = []
    for index, name in enumerate(names):
        body = m.HeartbeatRequest(group_id="g")
        requests += received(peer, request_bytes(body, version, index, name))
    assert [request.client_id for request in requests] == [n or "" for n in names]
    assert all(request.body.group_id == "g" for request in requests)


def test_tags_in_a_header_with_a_known_client_id_are_skipped() -> None:
    peer = connection()
    (first,) = received(peer, heartbeat(1))
    plain = heartbeat(2)[4:]
    tagged = plain[:12] + b"\1\3\2ab" + plain[13:]
    (second,) = received(peer, int32(len(tagged)) + tagged)
    assert second.body == first.body
    assert peer.failure is None


@given(st.binary(max_size=60), st.integers(0, 2**31))
def test_arbitrary_bytes_are_decoded_or_fail_the_connection(
    noise: bytes, seed: int
) -> None:
    chance = random.Random(seed)
    stream = bytearray(heartbeat(1) + heartbeat(2) + noise)
    stream[chance.randrange(len(stream))] = chance.randrange(256)
    peer = connection()
    found: list[Any] = []
    found += received(peer, bytes(stream[:40]))
    found += received(peer, bytes(stream[40:]))
    assert all(isinstance(request, Request) for request in found)


def fast_path_connection(known: dict[bytes, bytes]) -> Connection:
    """Return a connection with a fast path for heartbeats."""
    return Connection(
        FRAME_BYTES_MAX, fast_path=known.get, fast_path_prefixes=(int16(12),)
    )


def test_a_known_frame_gets_its_response_from_the_memo() -> None:
    answer = int32(4) + int32(1)
    peer = fast_path_connection({heartbeat(1)[4:]: answer})
    assert received(peer, heartbeat(1)) == []
    assert peer.data_to_send() == answer
    assert peer.in_flight == 0


def test_a_request_without_a_fast_path_response_keeps_its_raw_bytes() -> None:
    peer = fast_path_connection({})
    (request,) = received(peer, heartbeat(1))
    assert request.raw == heartbeat(1)[4:]


def test_the_fast_path_is_called_for_its_prefixes_only() -> None:
    produce = request_bytes(m.ProduceRequest(), 9, 1)
    peer = fast_path_connection({produce[4:]: b"never"})
    (request,) = received(peer, produce)
    assert request.raw is None


@pytest.mark.fact("G1-05")
def test_the_fast_path_does_not_overtake_earlier_requests() -> None:
    peer = fast_path_connection({heartbeat(2)[4:]: int32(4) + int32(2)})
    one, two = received(peer, heartbeat(1) + heartbeat(2))
    peer.respond(two, m.HeartbeatResponse())
    peer.respond(one, m.HeartbeatResponse())
    assert correlation_ids(peer.data_to_send()) == [1, 2]


def test_an_unknown_api_versions_version_is_refused_with_a_fast_path() -> None:
    peer = Connection(
        FRAME_BYTES_MAX, fast_path=lambda _: None, fast_path_prefixes=(int16(18),)
    )
    unknown = int16(18) + int16(99) + int32(9) + text("new")
    assert received(peer, int32(len(unknown)) + unknown) == []
    assert correlation_ids(peer.data_to_send()) == [9]


# The order of requests.


def metadata(correlation_id: int) -> bytes:
    return request_bytes(m.MetadataRequest(), 12, correlation_id)


def commit(correlation_id: int) -> bytes:
    return request_bytes(m.OffsetCommitRequest(group_id="g"), 8, correlation_id)


def produce(correlation_id: int) -> bytes:
    return request_bytes(m.ProduceRequest(), 9, correlation_id)


ORDERS = {
    "another after a concurrent one": ([commit, metadata], 1),
    "a concurrent one after another": ([metadata, commit], 1),
    "two others": ([metadata, metadata], 1),
    "concurrent ones": ([commit, heartbeat, produce, commit, produce], 5),
    "one in the middle": ([produce, produce, metadata, produce], 2),
}


@pytest.mark.parametrize(("requests", "together"), ORDERS.values(), ids=list(ORDERS))
def test_a_request_waits_for_all_earlier_responses_unless_both_are_concurrent(
    requests: list[Callable[[int], bytes]], together: int
) -> None:
    peer = connection()
    first = received(peer, b"".join(make(at) for at, make in enumerate(requests)))
    assert [request.correlation_id for request in first] == list(range(together))
    assert not peer.has_request()
    assert peer.is_blocked == (together < len(requests))
    for request in reversed(first):
        assert received(peer) == []
        peer.respond(request, None)
    rest = []
    while peer.has_request():
        for request in received(peer):
            rest.append(request.correlation_id)
            peer.respond(request, None)
    assert rest == list(range(together, len(requests)))


def test_a_concurrent_request_may_hold_later_ones() -> None:
    peer = connection()
    peer.receive_data(produce(1) + produce(2) + produce(3))
    first, second = peer.next_request(), peer.next_request()
    assert first is not None
    assert second is not None
    peer.hold_requests()
    peer.respond(first, None)
    assert received(peer) == []
    peer.respond(second, None)
    assert [request.correlation_id for request in received(peer)] == [3]


def test_requests_are_decoded_when_they_are_handled() -> None:
    peer = connection()
    nonsense = NONSENSE["unknown key"]
    peer.receive_data(heartbeat(1) + metadata(2) + nonsense)
    for correlation_id in (1, 2):
        request = peer.next_request()
        assert request is not None
        assert request.correlation_id == correlation_id
        assert peer.failure is None
        assert peer.frames.waiting_bytes >= len(nonsense)
        peer.respond(request, None)
    assert peer.next_request() is None
    assert peer.failure is not None
    assert peer.frames.waiting_bytes == 0


@pytest.mark.parametrize("is_direct", [True, False])
def test_the_fast_path_takes_a_bounded_number_of_frames_at_once(
    is_direct: bool,
) -> None:
    peer = Connection(
        FRAME_BYTES_MAX,
        fast_path=lambda _: b"short",
        fast_path_prefixes=(int16(12),),
    )
    data = heartbeat(1) * (FAST_PATH_TURN + 1)
    if is_direct:
        data = peer.respond_fast(data)
        assert data == heartbeat(1)
        assert peer.data_to_send() == b"short" * FAST_PATH_TURN
        peer.receive_data(data)
    else:
        peer.receive_data(data)
        assert peer.next_request() is None
        assert peer.data_to_send() == b"short" * FAST_PATH_TURN
    assert peer.has_request()
    assert peer.next_request() is None
    assert peer.data_to_send() == b"short"
    assert not peer.has_request()


def test_a_negative_size_has_no_fast_path_response() -> None:
    called: list[bytes] = []
    peer = Connection(
        FRAME_BYTES_MAX, fast_path=called.append, fast_path_prefixes=(int16(12),)
    )
    peer.receive_data(peer.respond_fast(int32(-10) + heartbeat(1)[4:] + bytes(6)))
    assert peer.next_request() is None
    assert peer.failure is not None
    assert not peer.data_to_send()
    assert not called


@pytest.mark.parametrize("cut", range(1, 2 * len(heartbeat(1)) + 1))
def test_the_fast_path_does_not_depend_on_where_reads_end(cut: int) -> None:
    answers = {heartbeat(at)[4:]: b"%d" % at for at in (1, 2, 4)}
    peer = fast_path_connection(answers)
    stream = b"".join(heartbeat(at) for at in range(1, 5)) + commit(5)
    sent = b""
    for part in (stream[:cut], stream[cut:]):
        for request in received(peer, part):
            peer.respond(request, None)
        sent += peer.data_to_send()
        for request in received(peer):
            assert request.api_key == ApiKey.OFFSET_COMMIT
            peer.respond(request, None)
        sent += peer.data_to_send()
    assert sent in (b"124", b"12")  # 4 is handled in full while 3 is pending
    assert (peer.frames.waiting_bytes, peer.held_bytes) == (0, 0)


def test_of_a_lost_connection_only_the_next_produce_requests_are_kept() -> None:
    peer = connection()
    peer.receive_data(produce(1) * 2 + metadata(2) + produce(3))
    for _ in range(2):
        peer.discard_unless_produce()
        request = peer.next_request()
        assert request is not None
        assert request.api_key == ApiKey.PRODUCE
    peer.discard_unless_produce()
    assert peer.next_request() is None
    assert peer.frames.waiting_bytes == 0


@pytest.mark.slow
@given(
    st.lists(st.sampled_from([heartbeat, metadata, commit, produce]), max_size=8),
    st.randoms(use_true_random=False),
)
def test_every_counted_byte_is_returned(
    requests: list[Callable[[int], bytes]], chance: random.Random
) -> None:
    peer = connection()
    stream = b"".join(make(at) for at, make in enumerate(requests))
    cut = chance.randint(0, len(stream))
    peer.receive_data(stream[:cut])
    pending: list[Request] = []
    sent = b""
    while True:
        if (request := peer.next_request()) is not None:
            pending.append(request)
        elif pending:
            answered = pending.pop(chance.randrange(len(pending)))
            peer.respond(answered, api_of(ApiKey(answered.api_key)).response())
            sent += peer.data_to_send() if chance.random() < 0.5 else b""
        elif cut < len(stream):
            peer.receive_data(stream[cut:])
            cut = len(stream)
        else:
            break
        assert peer.held_bytes >= sum(request.size for request in pending)
    sent += peer.data_to_send()
    assert correlation_ids(sent) == list(range(len(requests)))
    assert (peer.frames.waiting_bytes, peer.held_bytes, peer.output_bytes) == (0, 0, 0)
