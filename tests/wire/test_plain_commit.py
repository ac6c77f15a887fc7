"""Plain commits are decoded and answered as by the general codec."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import MalformedFrame
from coterie.wire import messages as m
from coterie.wire.codec import NO_LIMIT, decode, encode
from coterie.wire.plain_commit import (
    ROW,
    PlainCommit,
    read_plain_commit,
    write_plain_response,
)
from coterie.wire.schema import ZERO_UUID

names = st.text(max_size=130)
int32s = st.integers(-(2**31), 2**31 - 1)
partitions = st.builds(
    m.OffsetCommitRequestPartition,
    partition_index=int32s,
    committed_offset=st.integers(-(2**63), 2**63 - 1),
    committed_leader_epoch=int32s,
    committed_metadata=st.sampled_from(["", None, "", None, "m"]),
)
topics = st.builds(
    m.OffsetCommitRequestTopic,
    name=names,
    topic_id=st.binary(min_size=16, max_size=16),
    partitions=st.lists(partitions, min_size=1, max_size=200) | st.just([]),
)
requests = st.builds(
    m.OffsetCommitRequest,
    group_id=names,
    generation_id_or_member_epoch=int32s,
    member_id=names,
    group_instance_id=st.none() | names,
    topics=st.lists(topics, max_size=4),
)
versions = st.integers(8, 10)


def is_plain(request: m.OffsetCommitRequest) -> bool:
    texts = [request.group_id, request.member_id, request.group_instance_id or ""]
    texts += [topic.name for topic in request.topics]
    return all(len(text.encode()) <= 126 for text in texts) and all(
        topic.partitions
        and not any(each.committed_metadata for each in topic.partitions)
        for topic in request.topics
    )


def assert_same(plain: PlainCommit, request: m.OffsetCommitRequest) -> None:
    assert plain.general() == request
    assert repr(plain) == f"PlainCommit({request!r})"
    for name in (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
    ):
        assert getattr(plain, name) == getattr(request, name)
    assert len(plain.topics) == len(request.topics)
    for topic, general in zip(plain.topics, request.topics, strict=True):
        assert (topic.name, topic.topic_id) == (general.name, general.topic_id)
        assert [*ROW.iter_unpack(topic.rows)] == [
            (
                each.partition_index,
                struct.pack(">qi", each.committed_offset, each.committed_leader_epoch),
            )
            for each in general.partitions
        ]


@given(requests, versions, st.binary(max_size=20))
def test_a_plain_request_is_decoded_as_by_the_general_decoder(
    request: m.OffsetCommitRequest, version: int, header: bytes
) -> None:
    frame = header + encode(request, version)
    request, _ = decode(m.OffsetCommitRequest, version, frame, len(header))
    plain = read_plain_commit(frame, len(header), version, NO_LIMIT)
    assert (plain is not None) == is_plain(request)
    if plain is not None:
        assert_same(plain, request)


@given(requests, versions, st.data())
def test_odd_bytes_are_plain_only_if_the_general_decoder_agrees(
    request: m.OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    frame = bytearray(encode(request, version))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(0, len(frame)))])
    plain = read_plain_commit(cut, 0, version, NO_LIMIT)
    if plain is not None:
        general, end = decode(m.OffsetCommitRequest, version, cut)
        assert end == len(cut)
        assert_same(plain, general)


@given(requests.filter(is_plain), versions)
def test_the_response_has_the_bytes_of_the_general_encoder(
    request: m.OffsetCommitRequest, version: int
) -> None:
    plain = read_plain_commit(encode(request, version), 0, version, NO_LIMIT)
    assert plain is not None
    response = m.OffsetCommitResponse(
        topics=[
            m.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    m.OffsetCommitResponsePartition(
                        partition_index=each.partition_index
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    assert write_plain_response(plain) == encode(response, version)


def one_topic(count: int) -> bytes:
    rows = [m.OffsetCommitRequestPartition(partition_index=at) for at in range(count)]
    for row in rows:
        row.committed_metadata = ""
    topic = m.OffsetCommitRequestTopic(name="t", partitions=rows)
    return encode(m.OffsetCommitRequest(group_id="g", topics=[topic]), 9)


def test_the_limit_of_elements_counts_topics_and_partitions() -> None:
    frame = one_topic(5)
    assert read_plain_commit(frame, 0, 9, 6) is not None
    assert read_plain_commit(frame, 0, 9, 5) is None
    with pytest.raises(MalformedFrame):
        decode(m.OffsetCommitRequest, 9, frame, 0, 5)


def test_requests_before_version_8_are_left_to_the_general_decoder() -> None:
    assert read_plain_commit(one_topic(1), 0, 7, NO_LIMIT) is None


def test_a_null_array_is_left_to_the_general_decoder() -> None:
    request = m.OffsetCommitRequest(group_id="g")
    frame = encode(request, 9)
    no_topics = b"\0\0"  # a null array, no tagged fields
    assert read_plain_commit(frame[:-2] + no_topics, 0, 9, NO_LIMIT) is None
    null_rows = struct.pack(">BB1sBBB", 2, 2, b"t", 0, 0, 0)
    assert read_plain_commit(frame[:-2] + null_rows, 0, 9, NO_LIMIT) is None
    assert ZERO_UUID not in frame
