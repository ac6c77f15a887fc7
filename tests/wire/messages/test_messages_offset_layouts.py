"""OffsetFetch and OffsetCommit, byte by byte, version by version."""

from __future__ import annotations

import pytest

from coterie.errors import MalformedFrame
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.schema import Versions
from tests.wire.hand import (
    NO_TAGS,
    NULL_ARRAY,
    few,
    int16,
    int32,
    int64,
    many,
    short,
    text,
)

TOPIC_ID = bytes(range(16))
NAMED = m.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])
PARTITION = m.OffsetFetchResponsePartition(
    partition_index=4, committed_offset=9, metadata=None, error_code=3
)
OLD_RESPONSE = m.OffsetFetchResponse(
    throttle_time_ms=7,
    error_code=16,
    topics=[m.OffsetFetchResponseTopic(name="t", partitions=[PARTITION])],
)
OLD_PARTITION = int32(4) + int64(9) + text(None) + int16(3)
OLD_TOPICS = many(text("t") + many(OLD_PARTITION))


@pytest.mark.fact("A-10")
def test_offset_fetch_v1_requests_have_a_group_and_topics() -> None:
    request = m.OffsetFetchRequest(group_id="g", topics=[NAMED])
    assert m.OffsetFetchRequest.API_KEY == 9
    body = text("g") + many(text("t") + many(int32(0), int32(1)))
    assert encode(request, 1) == body
    assert decode(m.OffsetFetchRequest, 1, body) == (request, len(body))


@pytest.mark.fact("A-10", "A-25")
def test_offset_fetch_v1_with_null_topics_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        decode(m.OffsetFetchRequest, 1, text("g") + NULL_ARRAY)


@pytest.mark.fact("A-11")
def test_offset_fetch_v1_responses_have_topics_only() -> None:
    assert encode(OLD_RESPONSE, 1) == OLD_TOPICS


@pytest.mark.fact("A-12")
def test_offset_fetch_v2_allows_null_for_all_topics() -> None:
    body = text("g") + NULL_ARRAY
    request, _ = decode(m.OffsetFetchRequest, 2, body)
    assert request == m.OffsetFetchRequest(group_id="g", topics=None)
    assert encode(request, 2) == body
    assert encode(m.OffsetFetchRequest(group_id="g", topics=[NAMED]), 2) == encode(
        m.OffsetFetchRequest(group_id="g", topics=[NAMED]), 1
    )


@pytest.mark.fact("A-13")
def test_offset_fetch_v2_has_an_error_after_the_topics() -> None:
    assert encode(OLD_RESPONSE, 2) == OLD_TOPICS + int16(16)


@pytest.mark.fact("A-14a")
def test_offset_fetch_v3_and_v4_begin_with_the_throttle_time() -> None:
    body = int32(7) + OLD_TOPICS + int16(16)
    assert encode(OLD_RESPONSE, 3) == body
    assert encode(OLD_RESPONSE, 4) == body


@pytest.mark.fact("A-14b")
def test_offset_fetch_v5_adds_the_committed_leader_epoch() -> None:
    partition = int32(4) + int64(9) + int32(-1) + text(None) + int16(3)
    topics = many(text("t") + many(partition))
    assert encode(OLD_RESPONSE, 5) == int32(7) + topics + int16(16)


@pytest.mark.fact("A-14c", "A-14d")
def test_offset_fetch_v6_is_flexible_and_v7_requests_stable_offsets() -> None:
    request = m.OffsetFetchRequest(group_id="g", topics=[NAMED], require_stable=True)
    topics = few(short("t") + few(int32(0), int32(1)) + NO_TAGS)
    assert encode(request, 6) == short("g") + topics + NO_TAGS
    assert encode(request, 7) == short("g") + topics + b"\1" + NO_TAGS


@pytest.mark.fact("A-14e")
def test_offset_fetch_v8_requests_several_groups() -> None:
    topic = m.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequestGroup(group_id="g", topics=[topic]),
            m.OffsetFetchRequestGroup(group_id="h", topics=None),
        ]
    )
    asked = short("g") + few(short("t") + few(int32(0)) + NO_TAGS) + NO_TAGS
    everything = short("h") + b"\0" + NO_TAGS
    body = few(asked, everything) + b"\0" + NO_TAGS
    assert encode(request, 8) == body
    assert decode(m.OffsetFetchRequest, 8, body)[0] == request


@pytest.mark.fact("A-14e")
def test_offset_fetch_v8_responses_have_groups_only() -> None:
    group = m.OffsetFetchResponseGroup(group_id="g", error_code=16)
    response = m.OffsetFetchResponse(throttle_time_ms=7, error_code=25, groups=[group])
    body = int32(7) + few(short("g") + few() + int16(16) + NO_TAGS) + NO_TAGS
    assert encode(response, 8) == body


@pytest.mark.fact("A-14f")
def test_offset_fetch_v9_adds_member_and_member_epoch() -> None:
    group = m.OffsetFetchRequestGroup(group_id="g", topics=None)
    assert (group.member_id, group.member_epoch) == (None, -1)
    body = few(short("g") + short(None) + int32(-1) + b"\0" + NO_TAGS) + b"\0" + NO_TAGS
    assert encode(m.OffsetFetchRequest(groups=[group]), 9) == body


@pytest.mark.fact("A-14g")
def test_offset_fetch_v10_has_topic_ids() -> None:
    topic = m.OffsetFetchRequestTopics(
        name="lost", topic_id=TOPIC_ID, partition_indexes=[]
    )
    group = m.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    asked = short("g") + short(None) + int32(-1)
    asked += few(TOPIC_ID + few() + NO_TAGS) + NO_TAGS
    body = few(asked) + b"\0" + NO_TAGS
    assert encode(m.OffsetFetchRequest(groups=[group]), 10) == body


@pytest.mark.fact("A-15a")
def test_offset_fetch_v10_reports_an_unknown_topic_id_in_the_partition() -> None:
    partition = m.OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=-1, metadata="", error_code=100
    )
    topic = m.OffsetFetchResponseTopics(
        name="lost", topic_id=TOPIC_ID, partitions=[partition]
    )
    group = m.OffsetFetchResponseGroup(group_id="g", topics=[topic])
    partition_bytes = (
        int32(0) + int64(-1) + int32(-1) + short("") + int16(100) + NO_TAGS
    )
    answered = (
        short("g") + few(TOPIC_ID + few(partition_bytes) + NO_TAGS) + int16(0) + NO_TAGS
    )
    body = int32(0) + few(answered) + NO_TAGS
    assert encode(m.OffsetFetchResponse(groups=[group]), 10) == body


@pytest.mark.fact("A-16")
def test_offset_fetch_is_advertised_from_v1_to_v10() -> None:
    assert api_of(ApiKey.OFFSET_FETCH).advertised == Versions(1, 10)
    assert api_of(ApiKey.OFFSET_FETCH).served == Versions(1, 10)


def commit(version: int) -> bytes:
    partition = m.OffsetCommitRequestPartition(
        partition_index=2, committed_offset=5, committed_metadata="m"
    )
    topic = m.OffsetCommitRequestTopic(
        name="t" if version < 10 else "", topic_id=TOPIC_ID, partitions=[partition]
    )
    request = m.OffsetCommitRequest(group_id="g", member_id="", topics=[topic])
    return encode(request, version)


@pytest.mark.fact("E17-01")
def test_offset_commit_v8_and_v9_have_the_same_layout() -> None:
    partition = int32(2) + int64(5) + int32(-1) + short("m") + NO_TAGS
    head = short("g") + int32(-1) + short("") + short(None)
    body = head + few(short("t") + few(partition) + NO_TAGS) + NO_TAGS
    assert m.OffsetCommitRequest.API_KEY == 8
    assert commit(8) == body
    assert commit(9) == body


@pytest.mark.fact("E17-01a")
def test_offset_commit_v10_has_topic_ids() -> None:
    assert commit(10) == commit(9).replace(short("t"), TOPIC_ID, 1)


@pytest.mark.fact("E17-15")
def test_txn_offset_commit_v3_has_the_member() -> None:
    def commit_by(member_id: str, version: int) -> bytes:
        request = m.TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=7,
            producer_epoch=2,
            member_id=member_id,
            generation_id_or_member_epoch=-1 if version < 3 else 5,
            group_instance_id=None if version < 3 else "i",
        )
        return encode(request, version)

    assert m.TxnOffsetCommitRequest.API_KEY == 28
    assert commit_by("", 2).endswith(int64(7) + int16(2) + int32(0))
    member = int32(5) + short("m") + short("i")
    assert commit_by("m", 3).endswith(int64(7) + int16(2) + member + few() + NO_TAGS)
