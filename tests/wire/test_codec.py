"""Round trips, malformed bytes, and the corner cases of the encoding."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Generator
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import MalformedFrame
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.codec import decode, decode_in_slices, encode, encode_in_slices
from coterie.wire.primitives import (
    TAGS_MAX,
    EncodedArray,
    read_uvarint,
    write_uvarint,
)
from coterie.wire.schema import Field, Message, Struct
from coterie.wire.source import Source
from tests.wire.hand import int16, int32, text
from tests.wire.samples import label, sample, served

T = TypeVar("T")
SERVED = list(served())
messages = st.sampled_from(SERVED)
chances = st.randoms(use_true_random=False)


@pytest.mark.parametrize(("cls", "version"), SERVED, ids=label)
def test_a_message_is_decoded_as_it_was_encoded(
    cls: type[Message], version: int
) -> None:
    for seed in range(6):
        value = sample(cls, version, Random(seed))
        body = encode(value, version)
        assert decode(cls, version, b"before" + body, 6) == (value, 6 + len(body))


@given(messages, chances)
def test_messages_in_slices_are_those_at_once(
    message: tuple[type[Message], int], chance: Random
) -> None:
    cls, version = message
    value = sample(cls, version, chance)
    body = encode(value, version)
    assert finish(encode_in_slices(value, version)) == body
    decoded = finish(decode_in_slices(cls, version, b"before" + body, 6))
    assert decoded == (value, 6 + len(body))


@given(messages, st.binary(max_size=80))
def test_odd_bytes_in_slices_are_malformed_or_the_same_value(
    message: tuple[type[Message], int], body: bytes
) -> None:
    cls, version = message
    slices = decode_in_slices(cls, version, body, 0, 1_000)
    try:
        value = decode(cls, version, body, 0, 1_000)
    except MalformedFrame as error:
        with pytest.raises(MalformedFrame, match=f"^{re.escape(str(error))}$"):
            finish(slices)
    else:
        assert finish(slices) == value


MANY = 20_000


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (m.DeleteGroupsRequest(groups_names=["g"] * MANY), 2),
        (m.DeleteGroupsRequest(groups_names=["g"] * MANY), 1),
        (
            m.MetadataRequest(topics=[m.MetadataRequestTopic(name="t")] * MANY),
            12,
        ),
        (
            m.FetchRequest(
                topics=[
                    m.FetchTopic(topic_id=bytes(16), partitions=[m.FetchPartition()])
                ]
                * MANY
            ),
            13,
        ),
    ],
)
def test_a_large_message_has_slices_of_some_hundred_elements(
    request_: Message, version: int
) -> None:
    encoding = encode_in_slices(request_, version)
    body = encode(request_, version)
    assert MANY / 300 < sum(1 for _ in encoding) < MANY / 50
    decoding = decode_in_slices(type(request_), version, body, 0)
    assert MANY / 300 < sum(1 for _ in decoding) < MANY / 50


def test_many_numbers_are_decoded_in_slices() -> None:
    topic = m.AddPartitionsToTxnTopic(name="t", partitions=[*range(MANY)])
    value = m.AddPartitionsToTxnRequest(v3_and_below_topics=[topic])
    body = encode(value, 3)
    slices = decode_in_slices(m.AddPartitionsToTxnRequest, 3, body, 0)
    assert finish(slices) == (value, len(body))
    assert sum(1 for _ in decode_in_slices(type(value), 3, body, 0)) == 2


def finish(slices: Generator[None, None, T]) -> T:
    """Run a generator to its end; return its result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


def test_a_struct_has_a_bounded_number_of_tagged_fields() -> None:
    plain = encode(m.HeartbeatRequest(group_id="g", member_id="m"), 4)
    for count in (TAGS_MAX, TAGS_MAX + 1):
        tags = [write_uvarint(at) + b"\0" for at in range(count)]
        body = plain[:-1] + write_uvarint(count) + b"".join(tags)
        if count <= TAGS_MAX:
            request, _ = decode(m.HeartbeatRequest, 4, body)
            assert len(request.unknown_tags or ()) == count
        else:
            with pytest.raises(MalformedFrame, match="at most 10000"):
                decode(m.HeartbeatRequest, 4, body)


@pytest.mark.slow
@given(messages, chances)
def test_any_message_is_decoded_as_it_was_encoded(
    message: tuple[type[Message], int], chance: Random
) -> None:
    cls, version = message
    value = sample(cls, version, chance)
    body = encode(value, version)
    assert decode(cls, version, body) == (value, len(body))


@pytest.mark.slow
@given(messages, chances, st.data())
def test_a_truncated_message_is_malformed(
    message: tuple[type[Message], int], chance: Random, data: st.DataObject
) -> None:
    cls, version = message
    body = encode(sample(cls, version, chance), version)
    cut = data.draw(st.integers(0, max(len(body) - 1, 0)))
    if cut < len(body):
        with pytest.raises(MalformedFrame):
            decode(cls, version, body[:cut])


@pytest.mark.slow
@given(messages, chances, st.data())
def test_a_corrupted_message_is_malformed_or_a_value(
    message: tuple[type[Message], int], chance: Random, data: st.DataObject
) -> None:
    cls, version = message
    body = bytearray(encode(sample(cls, version, chance), version) or b"\0")
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        value, end = decode(cls, version, bytes(body))
    except MalformedFrame:
        return
    assert isinstance(value, cls)
    assert end <= len(body)


@given(messages, st.binary(max_size=80))
def test_arbitrary_bytes_are_malformed_or_a_value(
    message: tuple[type[Message], int], body: bytes
) -> None:
    cls, version = message
    try:
        value, _ = decode(cls, version, body)
    except MalformedFrame:
        return
    assert isinstance(value, cls)


@pytest.mark.fact("G1-07a")
def test_unknown_tagged_fields_are_kept_and_encoded_in_order() -> None:
    plain = encode(m.HeartbeatRequest(group_id="g", member_id="m"), 4)
    body = plain[:-1] + b"\2" + b"\5\2ab" + b"\x0b\1c"
    request, end = decode(m.HeartbeatRequest, 4, body)
    assert end == len(body)
    assert request.unknown_tags == {5: b"ab", 11: b"c"}
    request.unknown_tags = {11: b"c", 5: b"ab"}  # type: ignore[misc]
    assert encode(request, 4) == body


@pytest.mark.parametrize(
    "tags", [b"\2\5\0\5\0", b"\2\5\0\4\0", b"\1\5\3ab", b"\1\5", b"\1", b""]
)
def test_tags_not_ascending_or_beyond_the_data_are_malformed(tags: bytes) -> None:
    plain = encode(m.HeartbeatRequest(group_id="g", member_id="m"), 4)
    with pytest.raises(MalformedFrame):
        decode(m.HeartbeatRequest, 4, plain[:-1] + tags)


@pytest.mark.fact("G1-07b")
def test_compact_lengths_are_one_more_and_zero_for_null() -> None:
    body = encode(m.HeartbeatRequest(group_id="gg", group_instance_id=None), 4)
    assert body == b"\3gg" + int32(0) + b"\1" + b"\0" + b"\0"
    with pytest.raises(MalformedFrame):
        decode(m.HeartbeatRequest, 4, b"\0" + body[3:])


@pytest.mark.fact("G1-07b")
def test_the_varint_of_a_null_may_be_longer_than_necessary() -> None:
    body = b"\3gg" + int32(0) + b"\1" + b"\x80\0" + b"\0"
    request, end = decode(m.HeartbeatRequest, 4, body)
    assert request.group_instance_id is None
    assert end == len(body)


@pytest.mark.fact("G1-07c", "E7-51")
def test_a_nullable_struct_has_a_marker_byte() -> None:
    absent = encode(m.ConsumerGroupHeartbeatResponse(), 0)
    empty = encode(m.ConsumerGroupHeartbeatResponse(assignment=m.Assignment()), 0)
    assert absent[-2:] == b"\xff\0"
    assert empty[-4:] == b"\1\1\0\0"
    assert decode(m.ConsumerGroupHeartbeatResponse, 0, absent)[0].assignment is None
    assert decode(m.ConsumerGroupHeartbeatResponse, 0, empty)[0].assignment is not None


def test_a_tagged_field_with_its_default_is_not_encoded() -> None:
    plain = encode(m.FetchRequest(), 15)
    set_to_default = encode(m.FetchRequest(cluster_id=None), 15)
    encoded = encode(m.FetchRequest(replica_state=m.ReplicaState(replica_id=4)), 15)
    assert plain == set_to_default
    assert len(encoded) > len(plain)
    assert decode(m.FetchRequest, 15, encoded)[0].replica_state.replica_id == 4


def test_a_tagged_field_that_does_not_fill_its_span_is_malformed() -> None:
    plain = encode(m.FetchRequest(), 15)
    state = int32(4) + bytes(8) + b"\0"
    for body in (state + b"x", state[:-1]):
        tags = b"\1\1" + bytes([len(body)]) + body
        with pytest.raises(MalformedFrame):
            decode(m.FetchRequest, 15, plain[:-1] + tags)


def test_a_null_in_a_field_that_is_not_nullable_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        decode(m.HeartbeatRequest, 0, text(None) + int32(1) + text("m"))


@pytest.mark.parametrize("size", [-2, -32768])
def test_a_length_below_null_is_malformed(size: int) -> None:
    with pytest.raises(MalformedFrame):
        decode(m.HeartbeatRequest, 3, text("g") + int32(1) + text("m") + int16(size))


def test_an_impossible_array_count_is_refused_before_allocation() -> None:
    with pytest.raises(MalformedFrame):
        decode(m.MetadataRequest, 1, int32(2**31 - 1))
    with pytest.raises(MalformedFrame):
        decode(m.MetadataRequest, 1, int32(-2))


def test_invalid_utf8_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        decode(m.HeartbeatRequest, 0, int16(1) + b"\xff" + int32(1) + text("m"))


@pytest.mark.fact("G1-08")
def test_strings_are_utf8_up_to_the_length_limit() -> None:
    longest = m.HeartbeatRequest(group_id="x" * 32767)
    assert decode(m.HeartbeatRequest, 0, encode(longest, 0))[0] == longest
    odd = m.HeartbeatRequest(group_id=" \u0000消費者\U0001f600")
    assert decode(m.HeartbeatRequest, 0, encode(odd, 0))[0] == odd


@pytest.mark.fact("G1-10a")
def test_a_uuid_is_sixteen_bytes_and_zero_for_none() -> None:
    topic_id = bytes(range(16))
    topic = m.OffsetFetchResponseTopics(topic_id=topic_id)
    group = m.OffsetFetchResponseGroup(group_id="g", topics=[topic])
    assert topic_id in encode(m.OffsetFetchResponse(groups=[group]), 10)
    assert m.OffsetFetchResponseTopics().topic_id == bytes(16)


def test_trailing_bytes_are_left_to_the_caller() -> None:
    body = encode(m.HeartbeatRequest(group_id="g"), 4)
    assert decode(m.HeartbeatRequest, 4, body + b"more")[1] == len(body)


def test_fields_that_a_version_lacks_get_new_default_objects() -> None:
    body = encode(m.OffsetFetchResponse(), 1)
    one, _ = decode(m.OffsetFetchResponse, 1, body)
    two, _ = decode(m.OffsetFetchResponse, 1, body)
    one.groups.append(m.OffsetFetchResponseGroup())
    assert two.groups == []
    assert two.throttle_time_ms == 0


def test_an_encoded_array_is_written_unchanged() -> None:
    partitions = [
        m.OffsetFetchResponsePartitions(partition_index=index, metadata="")
        for index in range(3)
    ]
    topic = m.OffsetFetchResponseTopics(name="t", partitions=partitions)
    group = m.OffsetFetchResponseGroup(group_id="g", topics=[topic])
    plain = encode(m.OffsetFetchResponse(groups=[group]), 8)
    alone = m.OffsetFetchResponseTopics(name="t", partitions=partitions[:1])
    group.topics = [alone]
    bodies = []
    for index in range(3):
        partitions[0].partition_index = index
        whole = encode(m.OffsetFetchResponse(groups=[group]), 8)
        bodies.append(whole[whole.index(b"\2t") + 3 : -5])
    topic.partitions = EncodedArray(3, b"".join(bodies))  # type: ignore[assignment]
    group.topics = [topic]
    assert encode(m.OffsetFetchResponse(groups=[group]), 8) == plain


def test_an_undeclared_version_cannot_be_encoded() -> None:
    with pytest.raises(AssertionError, match="no version 9"):
        encode(m.HeartbeatRequest(), 9)
    with pytest.raises(AssertionError, match="no version 0"):
        decode(m.ProduceRequest, 0, b"")


@given(st.integers(0, 2**32 - 1))
def test_a_varint_is_decoded_as_it_was_encoded(value: int) -> None:
    body = write_uvarint(value)
    assert read_uvarint(body, 0) == (value, len(body))


def test_a_varint_of_six_bytes_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        read_uvarint(b"\xff" * 5 + b"\1", 0)


def test_messages_compare_by_fields_and_have_them_in_their_repr() -> None:
    assert m.HeartbeatRequest(group_id="g") == m.HeartbeatRequest(group_id="g")
    assert m.HeartbeatRequest(group_id="g") != m.HeartbeatRequest(group_id="h")
    assert m.HeartbeatRequest() != m.FetchRequest()
    assert "group_id='g'" in repr(m.HeartbeatRequest(group_id="g"))


def test_the_repr_of_a_message_hides_passwords() -> None:
    upsertion = m.ScramCredentialUpsertion(name="alice", salted_password=b"hunter2")
    for shown in (
        repr(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2")),
        repr(m.AlterUserScramCredentialsRequest(upsertions=[upsertion])),
    ):
        assert "hunter2" not in shown
        assert "=..." in shown


@pytest.mark.parametrize(("cls", "version"), SERVED, ids=label)
def test_arrays_of_shortest_elements_are_decoded(
    cls: type[Message], version: int
) -> None:
    value = cls(
        **{
            name: [_shortest(declared, version)] * 40
            for name, declared in cls.FIELDS.items()
            if declared.kind == "array" and version in declared.versions
        }
    )
    if isinstance(value, m.JoinGroupResponse) and version < 7:
        value.protocol_name = ""
    body = encode(value, version)
    assert decode(cls, version, body) == (value, len(body))


@pytest.mark.parametrize(("version", "decoded"), [(6, ""), (7, None)])
def test_a_null_string_is_empty_in_a_version_without_null(
    version: int, decoded: str | None
) -> None:
    body = encode(m.JoinGroupResponse(protocol_name=None), version)
    assert decode(m.JoinGroupResponse, version, body)[0].protocol_name == decoded


def _shortest(declared: Field, version: int) -> Any:
    if declared.element == "uuid":
        return bytes(16)
    if isinstance(declared.element, str):
        return "" if declared.element == "string" else 0
    assert declared.element is not None
    return declared.element(
        **{
            name: None
            for name, each in declared.element.FIELDS.items()
            if version in each.nullable and version in each.versions
        }
    )


def test_an_array_that_needs_more_bytes_than_there_are_is_refused_before_decoding() -> (
    None
):
    count = 50
    # A topic of Metadata v12 has a UUID, a nullable name and tagged fields.
    body = write_uvarint(count + 1) + (bytes(16) + b"\0\0") * (count - 1)
    with pytest.raises(MalformedFrame, match="50 elements, each of at least 18 bytes"):
        decode(m.MetadataRequest, 12, body)


def test_elements_of_all_arrays_together_are_limited() -> None:
    topics = [
        m.OffsetFetchRequestTopics(name="t", partition_indexes=[1, 2, 3])
        for _ in range(5)
    ]
    request = m.OffsetFetchRequest(
        groups=[m.OffsetFetchRequestGroup(group_id="g", topics=topics)]
    )
    body = encode(request, 9)
    elements = 1 + 5 + 5 * 3
    assert decode(m.OffsetFetchRequest, 9, body, 0, elements)[0] == request
    with pytest.raises(MalformedFrame, match="3 elements; only 2 more are accepted"):
        decode(m.OffsetFetchRequest, 9, body, 0, elements - 1)


def test_unknown_tagged_fields_count_as_elements() -> None:
    request = m.FindCoordinatorRequest(coordinator_keys=["a", "b"])
    request.unknown_tags = dict.fromkeys(range(10), b"")  # type: ignore[misc]
    body = encode(request, 4)
    assert decode(m.FindCoordinatorRequest, 4, body, 0, 12)[0] == request
    with pytest.raises(MalformedFrame, match="10 tagged fields; at most 9 accepted"):
        decode(m.FindCoordinatorRequest, 4, body, 0, 11)


def test_few_elements_are_made_of_a_large_array_beyond_the_limit() -> None:
    count = 2_000_000
    body = b"\0" + write_uvarint(count + 1) + b"\1" * count + b"\0"
    # The first call compiles the decoder, whose memory is not that of the array.
    decode(m.FindCoordinatorRequest, 4, b"\0\1\0")
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrame):
            decode(m.FindCoordinatorRequest, 4, body, 0, 500_000)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [4, 7])
@pytest.mark.parametrize(
    ("text", "length"), [("x", 32_767), ("\N{GRINNING FACE}", 8_191)]
)
def test_a_long_error_message_is_cut_to_the_largest_string(
    version: int, text: str, length: int
) -> None:
    result = m.CreatableTopicResult(name="t", error_message=text * 40_000)
    body = encode(m.CreateTopicsResponse(topics=[result]), version)
    (topic,) = decode(m.CreateTopicsResponse, version, body)[0].topics
    assert topic.error_message == text * length


@pytest.mark.parametrize(("length", "is_valid"), [(32_767, True), (32_768, False)])
def test_a_string_has_at_most_32767_bytes_in_flexible_versions_too(
    length: int, is_valid: bool
) -> None:
    request = m.HeartbeatRequest(group_id="x" * length)
    body = encode(request, 4)
    if is_valid:
        assert decode(m.HeartbeatRequest, 4, body)[0] == request
    else:
        with pytest.raises(MalformedFrame, match="string of 32768 bytes"):
            decode(m.HeartbeatRequest, 4, body)


@pytest.mark.slow
def test_a_commit_of_200_000_topics_is_within_the_default_limits() -> None:
    partition = m.OffsetCommitRequestPartition(committed_metadata="m" * 20)
    topics = [
        m.OffsetCommitRequestTopic(name=f"topic-{at}", partitions=[partition])
        for at in range(200_000)
    ]
    request = m.OffsetCommitRequest(group_id="g", topics=topics)
    body, settings = encode(request, 9), Settings()
    assert len(body) < settings.socket_request_without_records_max_bytes
    limit = settings.socket_request_max_elements
    assert decode(m.OffsetCommitRequest, 9, body, 0, limit)[0] == request


def test_two_classes_of_one_name_are_refused() -> None:
    source = Source()
    source.cls(type("Topic", (Struct,), {}))
    with pytest.raises(AssertionError, match="two classes named Topic"):
        source.cls(type("Topic", (Struct,), {}))
