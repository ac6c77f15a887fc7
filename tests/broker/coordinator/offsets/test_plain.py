"""A plain commit writes the same bytes, and leads to the same state, as a general one.

The general path, `commit_offsets` and the replay of its records, is the reference.
"""

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
from coterie.broker.coordinator.offsets.commit import commit_offsets
from coterie.broker.coordinator.offsets.committed import unpack
from coterie.broker.coordinator.offsets.plain import (
    RECORDS_MAX,
    PlainResult,
    commit_plain,
)
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.result import Context, Origin, Record, Result
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.codec import COMPILED, NO_LIMIT, decode, encode
from coterie.wire.plain_commit import read_plain_commit, write_plain_response
from coterie.wire.record_batch import (
    HEADER_BYTES,
    LogRecord,
    batch_of,
    encode_batch,
    read_header,
)
from tests.broker.coordinator.classic.members import stable_group
from tests.broker.coordinator.driver import Topics
from tests.broker.coordinator.shard_driver import ShardDriver

COUNTS = {"t": 4, "u": 10_000, "ä": 1, "quite-a-long-na" + "m" * 90: 2}


class World(NamedTuple):
    """A shard with a classic group "g", a consumer group "k" at epoch 5 and a simple
    group "s", and the member ids that exist."""

    driver: ShardDriver
    member_ids: tuple[str, ...]


def make_world() -> World:
    driver = ShardDriver(topics=Topics(dict(COUNTS)))
    members = tuple(stable_group(driver, 2))
    group = ConsumerGroup("k")
    group.epoch = group.assignment_epoch = 6
    group.put_member(Member(member_id="m", epoch=5))
    group.put_member(Member(member_id="i1", epoch=5, instance_id="i"))
    driver.settle(Result(records=tuple(group_records(group))))
    driver.commit({("t", 0): 5}, group_id="s")
    return World(driver, (*members, "m", "i1"))


@cache
def world() -> World:
    return make_world()


def topics(
    names: st.SearchStrategy[str], indexes: st.SearchStrategy[int]
) -> st.SearchStrategy[m.OffsetCommitRequestTopic]:
    partitions = st.builds(
        m.OffsetCommitRequestPartition,
        partition_index=indexes,
        committed_offset=st.integers(-1, 2**63 - 1),
        committed_leader_epoch=st.integers(-1, 2**31 - 1),
        committed_metadata=st.sampled_from(["", None]),
    )
    return st.builds(named_topic, names, st.lists(partitions, min_size=1, max_size=90))


def named_topic(
    name: str, partitions: list[m.OffsetCommitRequestPartition]
) -> m.OffsetCommitRequestTopic:
    topic_id = name.encode()[:16].ljust(16, b"\0")
    return m.OffsetCommitRequestTopic(
        name=name, topic_id=topic_id, partitions=partitions
    )


class Caller(NamedTuple):
    """The group and the member of a commit."""

    group_id: str
    member_id: str = ""
    generation_id_or_member_epoch: int = -1
    group_instance_id: str | None = None


def valid_callers() -> list[Caller]:
    """Return callers whose commits no check refuses."""
    one, two, *_ = world().member_ids
    return [
        Caller("g", one, 1),
        Caller("g", two, 1),
        Caller("k", "m", 5),
        Caller("k", "i1", 5, "i"),
        Caller("s"),
    ]


any_caller = st.builds(
    Caller,
    group_id=st.sampled_from(["g", "k", "s", "unknown"]),
    member_id=st.deferred(lambda: st.sampled_from(["", "gone", *world().member_ids])),
    generation_id_or_member_epoch=st.sampled_from([-1, 0, 1, 4, 5, 6]),
    group_instance_id=st.sampled_from([None, None, "i", "gone"]),
)
known_topics = topics(st.sampled_from(list(COUNTS)), st.just(0))
large_topics = topics(st.just("u"), st.integers(0, 9_999))
any_topics = topics(st.sampled_from([*COUNTS, "gone"]), st.integers(-1, 5))


@st.composite
def commits(draw: st.DrawFn) -> m.OffsetCommitRequest:
    mostly = st.sampled_from([True, True, True, False])
    callers = st.sampled_from(valid_callers()) if draw(mostly) else any_caller
    wanted = known_topics | large_topics if draw(mostly) else any_topics
    return m.OffsetCommitRequest(
        **draw(callers)._asdict(), topics=draw(st.lists(wanted, max_size=4))
    )


def reference(
    driver: ShardDriver, request: m.OffsetCommitRequest, context: Context
) -> Result | None:
    """Return the general result; None if it has any error."""
    try:
        result = commit_offsets(driver.state, request, context)
    except ApiError:
        return None
    response: Any = result.response
    if any(each.error_code for topic in response.topics for each in topic.partitions):
        return None
    return result


def plain_result(
    driver: ShardDriver,
    request: m.OffsetCommitRequest,
    version: int,
    base_offset: int,
    first_delta: int = 0,
) -> tuple[PlainResult | None, bytes, Context]:
    frame = encode(request, version)
    plain = read_plain_commit(frame, 0, version, NO_LIMIT)
    assert plain is not None
    context = driver._context(1, version, "client", "/127.0.0.1")
    before = driver.state if COMPILED else copy.deepcopy(driver.state)
    result = commit_plain(driver.state, plain, context, base_offset, first_delta)
    assert driver.state == before, "the handler changed the state"
    return result, write_plain_response(plain), context


@given(commits(), st.integers(8, 10), st.integers(0, 2**40), st.integers(-5, 5))
def test_a_plain_commit_has_the_effects_of_the_general_one(
    request: m.OffsetCommitRequest, version: int, base_offset: int, ahead_ms: int
) -> None:
    driver = world().driver
    driver.wall_ahead_ms = ahead_ms
    request, _ = decode(m.OffsetCommitRequest, version, encode(request, version))
    result, response, context = plain_result(driver, request, version, base_offset)
    general = reference(driver, request, context)
    if result is None:
        known = request.group_id != "unknown"
        older = request.group_id == "k" and request.generation_id_or_member_epoch < 5
        assert general is None or not (known and general.records) or older
        return
    assert general is not None
    now_ms = driver.now_ms
    batch, _ = batch_of(result.records, base_offset, result.record_count, now_ms)
    assert batch == encode_batch(
        [
            LogRecord(base_offset + at, now_ms, *encode_record(record))
            for at, record in enumerate(general.records)
        ]
    )
    assert result.record_count == len(general.records)
    assert result.timers == general.timers
    assert response == encode(general.response, version)  # type: ignore[arg-type]
    plain_shard, general_shard = make_world().driver.shard, make_world().driver.shard
    plain_shard.store_commit(request.group_id, result.offsets)
    for at, record in enumerate(general.records):
        general_shard.replay(record, Origin(base_offset + at, now_ms))
    assert plain_shard.state == general_shard.state
    assert plain_shard.changed == general_shard.changed


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("number", range(5))
def test_no_valid_commit_needs_the_general_path(number: int, version: int) -> None:
    caller = valid_callers()[number]
    if (caller.group_id, version) == ("k", 8):
        return  # refused: member epochs came with version 9
    row = m.OffsetCommitRequestPartition(partition_index=3, committed_metadata="")
    request = m.OffsetCommitRequest(
        **caller._asdict(), topics=[named_topic("t", [row])]
    )
    result, _, _ = plain_result(world().driver, request, version, 7)
    assert result is not None
    assert result.record_count == 1
    assert [[*of_topic] for _, of_topic in result.offsets] == [[3]]
    assert bool(result.timers) == (caller.group_id == "g")


@pytest.mark.parametrize("first_delta", [0, 1, 60, 64, 500])
@pytest.mark.parametrize("count", [1, 4, 63, 64, 65, 200])
def test_a_commit_is_a_part_of_its_batch(count: int, first_delta: int) -> None:
    base_offset, now_ms = 7, world().driver.now_ms
    result, records = commit_of(count, base_offset, first_delta)
    assert result is not None
    assert result.record_count == count
    earlier = [
        LogRecord(base_offset + at, now_ms, b"key", b"value")
        for at in range(first_delta)
    ]
    own = [
        LogRecord(base_offset + first_delta + at, now_ms, *encode_record(record))
        for at, record in enumerate(records)
    ]
    before = encode_batch(earlier)[HEADER_BYTES:] if earlier else b""
    batch, header = batch_of(
        before + result.records, base_offset, first_delta + count, now_ms
    )
    assert batch == encode_batch(earlier + own)
    assert header == read_header(batch)
    [(_, packed)] = result.offsets
    assert [unpack(each).record_offset for each in packed.values()] == [
        record.offset for record in own
    ]


def test_a_batch_has_a_limit_of_records() -> None:
    assert commit_of(RECORDS_MAX, 7, 0)[0] is not None
    assert commit_of(RECORDS_MAX, 7, 1)[0] is None
    assert commit_of(RECORDS_MAX + 1, 7, 0)[0] is None


def commit_of(
    count: int, base_offset: int, first_delta: int
) -> tuple[PlainResult | None, tuple[Record, ...]]:
    """Return the plain result of a commit of many partitions, and the general one's
    records."""
    rows = [
        m.OffsetCommitRequestPartition(
            partition_index=at, committed_offset=at, committed_metadata=""
        )
        for at in range(count)
    ]
    request = m.OffsetCommitRequest(
        group_id="s", topics=[m.OffsetCommitRequestTopic(name="u", partitions=rows)]
    )
    driver = world().driver
    result, _, context = plain_result(driver, request, 9, base_offset, first_delta)
    return result, commit_offsets(driver.state, request, context).records
