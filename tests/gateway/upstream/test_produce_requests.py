"""Produce requests and responses that are encoded and decoded by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.gateway.upstream.produce_requests import (
    PRODUCE,
    PendingBatch,
    encode_request,
    read_offsets,
)
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode

NAME = "__coterie_test"
ENCODED = bytes([len(NAME) + 1]) + NAME.encode()
versions = st.sampled_from(range(PRODUCE.low, PRODUCE.high + 1))


@given(
    versions,
    st.none() | st.text(max_size=200),
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=300)), min_size=1),
    st.integers(0, 2**31 - 1),
)
def test_a_request_has_the_bytes_of_the_message(
    version: int,
    transactional_id: str | None,
    batches: list[tuple[int, bytes]],
    timeout_ms: int,
) -> None:
    pending = [
        PendingBatch(
            partition=partition,
            done=lambda _: None,
            data=data,
            transactional_id=transactional_id,
        )
        for partition, data in batches
    ]
    data = [
        m.PartitionProduceData(index=index, records=each) for index, each in batches
    ]
    request = m.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[m.TopicProduceData(name=NAME, partition_data=data)],
    )
    assert encode_request(ENCODED, pending, timeout_ms) == encode(request, version)


partitions = st.builds(
    m.PartitionProduceResponse,
    index=st.integers(0, 1_000),
    error_code=st.sampled_from([0, 0, 0, 0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER]),
    base_offset=st.integers(-1, 2**63 - 1),
    log_append_time_ms=st.integers(-1, 2**63 - 1),
    log_start_offset=st.integers(-1, 2**63 - 1),
    record_errors=st.just([])
    | st.just([m.BatchIndexAndErrorMessage(batch_index=1)])
    | st.just([]),
    error_message=st.none() | st.none() | st.text(max_size=5),
    current_leader=st.just(m.LeaderIdAndEpoch())
    | st.just(m.LeaderIdAndEpoch(leader_id=3, leader_epoch=4)),
)
topics = st.builds(
    m.TopicProduceResponse,
    name=st.just(NAME) | st.just(NAME) | st.just("other"),
    partition_responses=st.lists(partitions, max_size=4),
)


@given(
    versions,
    st.lists(topics, max_size=2, min_size=1),
    st.sampled_from([0, 0, 0, 7]),
    st.lists(st.just(m.NodeEndpoint(node_id=1, host="h", port=2)), max_size=1),
    st.binary(max_size=9),
)
def test_offsets_are_those_of_the_message(
    version: int,
    listed: list[m.TopicProduceResponse],
    throttle_ms: int,
    endpoints: list[m.NodeEndpoint],
    before: bytes,
) -> None:
    response = m.ProduceResponse(
        responses=listed, throttle_time_ms=throttle_ms, node_endpoints=endpoints
    )
    frame = before + encode(response, version)
    # What a version does not have is not in the bytes.
    read, _ = decode(m.ProduceResponse, version, frame, len(before))
    [first, *others] = read.responses
    is_plain = (
        first.name == NAME
        and not others
        and not read.throttle_time_ms
        and not read.node_endpoints
        and all(
            not each.error_code
            and not each.record_errors
            and each.error_message is None
            and each.current_leader == m.LeaderIdAndEpoch()
            for each in first.partition_responses
        )
    )
    offsets = {each.index: each.base_offset for each in first.partition_responses}
    found = read_offsets(ENCODED, frame, len(before))
    assert found == (offsets if is_plain else None)


@given(st.binary(max_size=80), st.booleans())
def test_other_bytes_are_left_to_the_message(data: bytes, has_name: bool) -> None:
    frame = b"\2" + ENCODED + data if has_name else data
    if read_offsets(ENCODED, frame, 0) is not None:
        read, end = decode(m.ProduceResponse, PRODUCE.high, frame, 0)
        assert end == len(frame)
        assert len(read.responses) == 1
