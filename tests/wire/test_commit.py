"""Commits are decoded to the rows of what the general decoder decodes, and the topics
of their responses are encoded as by the general encoder."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import MalformedFrame
from coterie.wire import messages as m
from coterie.wire.codec import NO_LIMIT, decode, encode
from coterie.wire.commit import (
    Commit,
    CommitMessage,
    CommitResponse,
    as_received,
    commit_layout,
    read_commit,
    read_commit_in_slices,
    read_metadata,
)
from coterie.wire.schema import ZERO_UUID

T = TypeVar("T")

names = st.text(max_size=130)
int32s = st.integers(-(2**31), 2**31 - 1)
positions = st.fixed_dictionaries(
    {
        "partition_index": int32s,
        "committed_offset": st.integers(-(2**63), 2**63 - 1),
        "committed_leader_epoch": int32s,
    }
)
alike = st.lists(positions, max_size=200).flatmap(
    lambda rows: st.sampled_from(["", None, "m", "host-\u00e4"]).map(
        lambda metadata: [{**row, "committed_metadata": metadata} for row in rows]
    )
)
metadata = st.sampled_from(["", None, "m", "\u00e9" * 70]) | st.text(max_size=5)
mixed = st.lists(
    st.tuples(positions, metadata).map(
        lambda row: {**row[0], "committed_metadata": row[1]}
    ),
    max_size=5,
)
topics = st.lists(
    st.fixed_dictionaries(
        {
            "name": names,
            "topic_id": st.binary(min_size=16, max_size=16),
            "partitions": alike | mixed,
        }
    ),
    max_size=4,
)
members = {
    "group_id": names,
    "generation_id_or_member_epoch": int32s,
    "member_id": names,
    "group_instance_id": st.none() | names,
}
producers = {
    "transactional_id": names,
    "producer_id": st.integers(-(2**63), 2**63 - 1),
    "producer_epoch": st.integers(-(2**15), 2**15 - 1),
}
OFFSET_COMMIT = (
    m.OffsetCommitRequest,
    m.OffsetCommitRequestTopic,
    m.OffsetCommitRequestPartition,
)
TXN_OFFSET_COMMIT = (
    m.TxnOffsetCommitRequest,
    m.TxnOffsetCommitRequestTopic,
    m.TxnOffsetCommitRequestPartition,
)
FIELDS = (*members, *producers, "retention_time_ms")


def message_of(types: tuple[Any, ...], fields: Any, topics: Any) -> CommitMessage:
    request, topic, partition = types
    message: CommitMessage = request(
        **fields,
        topics=[
            topic(
                **{
                    **each,
                    "partitions": [partition(**row) for row in each["partitions"]],
                }
            )
            for each in topics
        ],
    )
    return message


@st.composite
def requests(draw: st.DrawFn) -> tuple[CommitMessage, int]:
    """Return a request and its version."""
    if draw(st.booleans()):
        fields = draw(st.fixed_dictionaries({**members, **producers}))
        message = message_of(TXN_OFFSET_COMMIT, fields, draw(topics))
        return message, draw(st.integers(0, 6))
    retention = {"retention_time_ms": st.integers(-(2**63), 2**63 - 1)}
    fields = draw(st.fixed_dictionaries({**members, **retention}))
    message = message_of(OFFSET_COMMIT, fields, draw(topics))
    return message, draw(st.integers(2, 10))


def read(
    message: type[CommitMessage],
    version: int,
    frame: bytes,
    at: int = 0,
    elements_max: int = NO_LIMIT,
) -> Commit:
    """Decode a request at once and in slices, with the same result."""
    layout = commit_layout(message, version)
    slices = read_commit_in_slices(layout, frame, at, elements_max)
    try:
        commit = read_commit(layout, frame, at, elements_max)
    except MalformedFrame:
        with pytest.raises(MalformedFrame):
            finish(slices)
        raise
    assert contents(finish(slices)) == contents(commit)
    return commit


def finish(slices: Generator[None, None, T]) -> T:
    """Run a generator to its end; return its result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


def contents(commit: Commit) -> list[Any]:
    """Return the fields and rows of a commit, with lists in place of sequences."""
    fields = [getattr(commit, name) for name in FIELDS if hasattr(commit, name)]
    rows = [[[*part] for part in topic.rows[:3]] for topic in commit.topics]
    names = [(each.name, each.topic_id, each.rows[3]) for each in commit.topics]
    return [fields, names, rows]


def assert_same(commit: Commit, message: CommitMessage) -> None:
    """Assert that the rows have the contents of a decoded message."""
    assert commit.message() == message
    assert commit.API_KEY == message.API_KEY
    assert repr(commit) == f"Commit({message!r})"
    for name in FIELDS:
        if name in message.FIELDS:
            assert getattr(commit, name) == getattr(message, name)
    assert len(commit.topics) == len(message.topics)
    sent: list[Any] = [*message.topics]
    for topic, general in zip(commit.topics, sent, strict=True):
        assert (topic.name, topic.topic_id) == (general.name, general.topic_id)
        assert topic.error_code == 0
        assert [
            (index, *struct.unpack(">qi", position), read_metadata(metadata))
            for index, position, metadata in zip(*topic.rows[:3], strict=True)
        ] == [
            (
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata,
            )
            for each in general.partitions
        ]
        sizes = {len(metadata) for metadata in topic.rows.metadata}
        assert topic.rows.is_uniform == (len(sizes) == 1)


@given(requests(), st.binary(max_size=20), st.binary(max_size=2))
def test_a_request_is_decoded_as_by_the_general_decoder(
    sent: tuple[CommitMessage, int], header: bytes, ignored: bytes
) -> None:
    message, version = sent
    frame = header + encode(message, version) + ignored
    message, _ = decode(type(message), version, frame, len(header))
    assert_same(read(type(message), version, frame, len(header)), message)


@given(requests(), st.data())
def test_odd_bytes_are_decoded_or_refused_as_by_the_general_decoder(
    sent: tuple[CommitMessage, int], data: st.DataObject
) -> None:
    message, version = sent
    frame = bytearray(encode(message, version))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(0, len(frame)))])
    try:
        general, _ = decode(type(message), version, cut, 0, 1_000)
    except MalformedFrame:
        with pytest.raises(MalformedFrame):
            read(type(message), version, cut, 0, 1_000)
    else:
        assert_same(read(type(message), version, cut, 0, 1_000), general)


@given(requests(), st.sampled_from([0, 3, 28]), st.integers(0, 2**31 - 1))
def test_a_response_has_the_bytes_of_the_general_encoder(
    sent: tuple[CommitMessage, int], code: int, throttle_ms: int
) -> None:
    message, version = sent
    commit = as_received(message, version)
    layout = commit.layout
    topic_class: Any = m.OffsetCommitResponseTopic
    if layout.is_transactional:
        topic_class = m.TxnOffsetCommitResponseTopic
    response = CommitResponse(layout, [])
    response.throttle_time_ms = throttle_ms
    general: Any = layout.response(throttle_time_ms=throttle_ms)
    for topic in commit.topics:
        partitions = topic.rows.partitions
        codes = [code and code + at for at in range(len(partitions))]
        row = (topic.name, topic.topic_id, partitions, codes if code else ())
        response.topics = [*response.topics, row]
        general.topics.append(
            topic_class(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    m.OffsetCommitResponsePartition(
                        partition_index=each, error_code=of_row
                    )
                    for each, of_row in zip(partitions, codes, strict=True)
                ],
            )
        )
    encoded = encode(general, version)
    assert response.encode() == encoded
    assert response.message() == decode(layout.response, version, encoded)[0]


def one_topic(count: int) -> bytes:
    rows = [m.OffsetCommitRequestPartition(partition_index=at) for at in range(count)]
    topic = m.OffsetCommitRequestTopic(name="t", partitions=rows)
    return encode(m.OffsetCommitRequest(group_id="g", topics=[topic]), 9)


def test_the_limit_of_elements_counts_topics_and_partitions() -> None:
    frame = one_topic(5)
    assert read(m.OffsetCommitRequest, 9, frame, 0, 6).topics[0].rows.partitions
    with pytest.raises(MalformedFrame):
        read(m.OffsetCommitRequest, 9, frame, 0, 5)


def test_unknown_tagged_fields_count_as_elements() -> None:
    tagged: Any = {7: b"x"}
    row = m.OffsetCommitRequestPartition(committed_metadata="m")
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[row, row])
    request = m.OffsetCommitRequest(group_id="g", topics=[topic])
    parts: list[Any] = [row, topic, request]
    for part in parts:
        part.unknown_tags = tagged
    frame = encode(request, 9)
    assert_same(read(m.OffsetCommitRequest, 9, frame, 0, 7), request)
    with pytest.raises(MalformedFrame):
        read(m.OffsetCommitRequest, 9, frame, 0, 6)


def test_null_arrays_are_refused() -> None:
    frame = encode(m.OffsetCommitRequest(group_id="g"), 9)
    null_rows = struct.pack(">BB1sBBB", 2, 2, b"t", 0, 0, 0)
    for end in (b"\0\0", null_rows):
        with pytest.raises(MalformedFrame):
            read(m.OffsetCommitRequest, 9, frame[:-2] + end, 0)
    assert ZERO_UUID not in frame


def test_other_requests_are_received_as_they_are() -> None:
    request = m.HeartbeatRequest(group_id="g")
    assert as_received(request, 4) is request


def test_refused_topics_have_the_code() -> None:
    commit = read(m.OffsetCommitRequest, 9, one_topic(2), 0, NO_LIMIT)
    commit.refuse(30)
    assert [topic.error_code for topic in commit.topics] == [30]


@pytest.mark.parametrize("topics", [1, 1_000])
def test_a_large_commit_is_decoded_in_slices(topics: int) -> None:
    partitions = [
        m.OffsetCommitRequestPartition(partition_index=at, committed_offset=5)
        for at in range(1_000 // topics)
    ]
    request = m.OffsetCommitRequest(
        topics=[
            m.OffsetCommitRequestTopic(name="t", partitions=partitions)
            for _ in range(topics)
        ]
    )
    layout = commit_layout(m.OffsetCommitRequest, 9)
    slices = read_commit_in_slices(layout, encode(request, 9), 0, NO_LIMIT)
    assert sum(1 for _ in slices) >= 7
