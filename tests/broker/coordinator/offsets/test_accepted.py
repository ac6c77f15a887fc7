"""A commit of rows writes the bytes, and leads to the state and the response, of one
that is decided with objects (reference.py)."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import Member
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.offsets.accepted import AcceptedOffsets, TopicRows
from coterie.broker.coordinator.offsets.committed import unpack
from coterie.broker.coordinator.record_serde import decode_record, encode_record
from coterie.broker.coordinator.result import Context, Origin, Result
from coterie.broker.runtime.batches import apply_result, result_batch
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.wire.codec import COMPILED, encode
from coterie.wire.commit import Commit, Rows, as_received
from coterie.wire.record_batch import (
    HEADER_BYTES,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    batch_of,
    decode_records,
    encode_batch,
    read_header,
)
from tests.broker.coordinator.classic.members import stable_group
from tests.broker.coordinator.driver import Topics
from tests.broker.coordinator.offsets.reference import Reference
from tests.broker.coordinator.requests import topic_id
from tests.broker.coordinator.shard_driver import ShardDriver
from tests.wire.test_commit import OFFSET_COMMIT, TXN_OFFSET_COMMIT, message_of

COUNTS = {"t": 4, "u": 10_000, "ä": 1, "quite-a-long-na" + "m" * 90: 2}
METADATA_MAX = 3


class World(NamedTuple):
    """A shard with a classic group "g", a consumer group "k" at epoch 5 with an older
    commit's partition, a simple group "s" and an open transaction, and the member ids
    that exist."""

    driver: ShardDriver
    member_ids: tuple[str, ...]


def make_world(limit: int = METADATA_MAX) -> World:
    settings = Settings(offset_metadata_max_bytes=limit)
    ids = {name: topic_id(name)[:16] for name in COUNTS}
    topics = Topics(dict(COUNTS), ids=ids)
    driver = ShardDriver(topics=topics, settings=settings)
    members = tuple(stable_group(driver, 2))
    group = ConsumerGroup("k")
    group.epoch = group.assignment_epoch = 6
    group.put_member(Member(member_id="m", epoch=5, assigned={topic_id("t"): {0: 3}}))
    group.put_member(Member(member_id="i1", epoch=5, instance_id="i"))
    driver.settle(Result(records=tuple(group_records(group))))
    driver.commit(
        {("t", 0): {"committed_offset": 5, "committed_metadata": None}}, group_id="s"
    )
    driver.txn_commit(
        {("t", 1): {"committed_offset": 5, "committed_metadata": None}},
        group_id="s",
        producer_epoch=2,
    )
    return World(driver, (*members, "m", "i1"))


@cache
def world(limit: int = METADATA_MAX) -> World:
    return make_world(limit)


def callers() -> list[dict[str, Any]]:
    """Return the fields of members whose commits no check refuses."""
    one, two, *_ = world().member_ids
    return [
        caller("g", one, 1),
        caller("g", two, 1),
        caller("k", "m", 5),
        caller("k", "m", 4),
        caller("k", "i1", 5, "i"),
        caller("s"),
        caller("unknown"),
    ]


def caller(
    group_id: str, member_id: str = "", epoch: int = -1, instance_id: str | None = None
) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "member_id": member_id,
        "generation_id_or_member_epoch": epoch,
        "group_instance_id": instance_id,
    }


any_caller = st.builds(
    caller,
    group_id=st.sampled_from(["g", "k", "s", "unknown"]),
    member_id=st.deferred(lambda: st.sampled_from(["", "gone", *world().member_ids])),
    epoch=st.sampled_from([-1, 0, 1, 4, 5, 6]),
    instance_id=st.sampled_from([None, None, "i", "gone"]),
)


def rows(indexes: st.SearchStrategy[int], *metadata: str | None) -> Any:
    row = st.fixed_dictionaries(
        {
            "partition_index": indexes,
            "committed_offset": st.integers(-1, 2**63 - 1),
            "committed_leader_epoch": st.integers(-1, 2**31 - 1),
            "committed_metadata": st.sampled_from(metadata),
        }
    )
    return st.lists(row, max_size=90)


def topics(names: st.SearchStrategy[str], rows: Any) -> Any:
    return st.tuples(names, rows).map(
        lambda topic: {
            "name": topic[0],
            "topic_id": topic_id(topic[0])[:16],
            "partitions": topic[1],
        }
    )


known = topics(st.sampled_from(list(COUNTS)), rows(st.just(0), "", None, "abc", "ö"))
large = topics(st.just("u"), rows(st.integers(0, 9_999), "", None))
any_topics = topics(
    st.sampled_from([*COUNTS, "gone"]), rows(st.integers(-1, 5), "", "abcd", "𝔘𝔘", None)
)


@st.composite
def commits(draw: st.DrawFn) -> tuple[Commit, int]:
    """Return a commit and its version; some of its topics may be refused already."""
    mostly = st.sampled_from([True, True, True, False])
    fields = draw(st.sampled_from(callers()) if draw(mostly) else any_caller)
    wanted = draw(st.lists(known | large if draw(mostly) else any_topics, max_size=4))
    if draw(st.booleans()):
        fields |= {
            "transactional_id": "x",
            "producer_id": 7,
            "producer_epoch": draw(st.integers(1, 3)),
        }
        version = draw(st.integers(0, 6))
        message = message_of(TXN_OFFSET_COMMIT, fields, wanted)
    else:
        retention = st.sampled_from([-1, 0, 5_000, 2**63 - 1])
        fields |= {"retention_time_ms": draw(retention)}
        version = draw(st.integers(2, 10))
        message = message_of(OFFSET_COMMIT, fields, wanted)
    commit: Commit = as_received(message, version)
    for topic in commit.topics:
        topic.error_code = draw(st.sampled_from([0, 0, 0, 29]))
    return commit, version


def handle(driver: ShardDriver, commit: Commit, context: Context) -> Result | ApiError:
    before = driver.state if COMPILED else copy.deepcopy(driver.state)
    try:
        result: Result | ApiError = driver.shard.handle(commit, context)
    except ApiError as error:
        result = error
    assert driver.state == before, "the handler changed the state"
    return result


@given(
    commits(),
    st.sampled_from([-1, 0, METADATA_MAX, 4_096]),
    st.integers(0, 2**40),
    st.integers(-5, 5),
)
def test_a_commit_of_rows_has_the_effects_of_one_of_objects(
    sent: tuple[Commit, int], limit: int, base_offset: int, ahead_ms: int
) -> None:
    commit, version = sent
    driver = world(limit).driver
    driver.wall_ahead_ms = ahead_ms
    context = driver._context(1, version, "client", "/127.0.0.1")
    result = handle(driver, commit, context)
    reference = Reference(driver.state, commit, context)
    if isinstance(result, ApiError):
        with pytest.raises(ApiError) as caught:
            reference.decide()
        assert (caught.value.code, caught.value.message) == (
            result.code,
            result.message,
        )
        refused: Any = driver.shard.refuse(commit, context, result.code)
        assert refused.encode() == encode(reference.refused(result.code), version)
        return
    response: Any = result.response
    assert response.encode() == encode(reference.decide(), version)
    accepted = result.commit
    assert (accepted is None) == (not reference.records)
    if accepted is not None:
        assert accepted.record_count == len(reference.records)
        check_written(result, reference, base_offset, driver.now_ms)


def check_written(
    result: Result, reference: Reference, base_offset: int, now_ms: int
) -> None:
    """Assert that the batch and the state after it are those of the records."""
    producer, attributes = Producer(), 0
    if reference.is_transactional:
        commit = reference.request
        producer = Producer(commit.producer_id, commit.producer_epoch)
        attributes = TRANSACTIONAL
    assert result_batch(result, base_offset, now_ms) == encode_batch(
        [
            LogRecord(base_offset + at, now_ms, *encode_record(record))
            for at, record in enumerate(reference.records)
        ],
        producer=producer,
        attributes=attributes,
    )
    shard, expected = make_world().driver.shard, make_world().driver.shard
    apply_result(shard, result, base_offset, now_ms)
    for at, record in enumerate(reference.records):
        origin = Origin(base_offset + at, now_ms, *producer[:2])
        expected.replay(record, origin)
    assert shard.state == expected.state
    assert shard.changed == expected.changed


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_of_a_valid_member_is_written(number: int, version: int) -> None:
    fields = callers()[number]
    if fields["group_id"] == "k" and version < 9:
        return  # refused: member epochs came with version 9
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topic = {"name": "t", "topic_id": topic_id("t"), "partitions": [row]}
    commit = as_received(message_of(OFFSET_COMMIT, fields, [topic]), version)
    driver = world().driver
    result = driver.shard.handle(commit, driver._context(1, version, "c", "/127.0.0.1"))
    assert result.commit is not None
    assert result.commit.record_count == 1
    assert bool(result.timers) == (fields["group_id"] == "g")


@pytest.mark.parametrize("first_delta", [0, 1, 60, 64, 8_100, 8_192])
@pytest.mark.parametrize("count", [1, 4, 63, 64, 65, 200])
def test_a_commit_is_a_part_of_its_batch(count: int, first_delta: int) -> None:
    base_offset, now_ms = 7, 1_000
    positions = [at.to_bytes(8) + b"\0\0\0\1" for at in range(count)]
    rows = Rows(range(count), positions, [b"\1"] * count, True)
    commit = AcceptedOffsets("s", [TopicRows("u", topic_id("u"), rows)], now_ms)
    alone = decode_records(
        batch_of(commit.encode_records(), 0, count, now_ms)[0],
    )
    earlier = [
        LogRecord(base_offset + at, now_ms, b"key", b"value")
        for at in range(first_delta)
    ]
    own = [
        each._replace(offset=base_offset + first_delta + at)
        for at, each in enumerate(alone)
    ]
    assert all(decode_record(each.key, each.value) for each in own)
    before = encode_batch(earlier)[HEADER_BYTES:] if earlier else b""
    records = commit.encode_records(first_delta)
    [(_, packed)] = commit.pack(base_offset + first_delta)
    batch, header = batch_of(before + records, base_offset, first_delta + count, now_ms)
    assert batch == encode_batch(earlier + own)
    assert header == read_header(batch)
    assert [unpack(each).record_offset for each in packed.values()] == [
        record.offset for record in own
    ]
