"""Fetch: what is read, within which limits, and how long it waits."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.catalog.incoming import read_batch
from coterie.errors import LogError
from coterie.log.log import LogPartition
from coterie.runtime.partitions import Partition, info_of
from coterie.server.apis import delete_topics, fetch, produce
from coterie.wire.compression import Codec
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    Producer,
    decode_records,
    read_header,
    split_batches,
)
from tests.data.world import FakeCall, World, batch_of, produce_request

BY_NAME = 12
LATEST = 18
COMMITTED = 1


def request_of(
    *offsets: int | None,
    topic: str = "a",
    topic_id: bytes = bytes(16),
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    **options: Any,
) -> FetchRequest:
    """A request for partition 0 from the first offset on, and so on."""
    parts = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
        )
        for index, offset in enumerate(offsets)
        if offset is not None
    ]
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=parts)]
    return FetchRequest(topics=topics if parts else [], **options)


def send(world: World, *batches: bytes | None, topic: str = "a") -> None:
    response = world.call(produce, produce_request(*batches, topic=topic), BY_NAME)
    for part in response.responses[0].partition_responses:
        assert part.error_code == 0


def parts_of(response: Any) -> dict[int, Any]:
    return {
        part.partition_index: part
        for topic in response.responses
        for part in topic.partitions
    }


def values_of(part: Any) -> list[bytes | None]:
    return [
        record.value
        for _, batch in split_batches(part.records)
        for record in decode_records(batch)
    ]


def get(world: World, request: FetchRequest, version: int = BY_NAME) -> dict[int, Any]:
    return parts_of(world.call(fetch, request, version))


@pytest.fixture
def world() -> World:
    made = World()
    made.create("a", partition_count=3)
    return made


def test_what_was_produced_is_fetched(world: World) -> None:
    send(world, batch_of(b"x", b"y"))
    send(world, batch_of(b"z"))
    part = get(world, request_of(0))[0]
    assert values_of(part) == [b"x", b"y", b"z"]
    assert part.high_watermark == 3
    assert part.last_stable_offset == 3
    assert part.log_start_offset == 0
    assert part.aborted_transactions is None


def test_a_fetch_from_inside_a_batch_gets_the_whole_batch(world: World) -> None:
    send(world, batch_of(b"x", b"y"))
    assert values_of(get(world, request_of(1))[0]) == [b"x", b"y"]


def test_what_is_not_flushed_is_not_there(world: World) -> None:
    world.loop.holds = True
    world.start_call(produce, produce_request(batch_of(b"x")), BY_NAME)
    part = get(world, request_of(0))[0]
    assert (part.records, part.high_watermark) == (b"", 0)


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (request_of(1), BY_NAME, ErrorCode.OFFSET_OUT_OF_RANGE),
        (request_of(-1), BY_NAME, ErrorCode.OFFSET_OUT_OF_RANGE),
        (
            request_of(0, topic="no-such"),
            BY_NAME,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (
            request_of(None, None, None, 0),
            BY_NAME,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (request_of(0, topic_id=b"x" * 16), LATEST, ErrorCode.UNKNOWN_TOPIC_ID),
        (request_of(0, leader_epoch=1), BY_NAME, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_an_impossible_fetch_is_answered_at_once(
    world: World, request_: FetchRequest, version: int, code: ErrorCode
) -> None:
    request_.max_wait_ms, request_.min_bytes = 1_000, 1
    [part] = get(world, request_, version).values()
    assert part.error_code == code
    assert part.records == b""
    assert part.high_watermark == -1


def test_a_topic_is_named_by_id_from_v13_on(world: World) -> None:
    send(world, batch_of(b"x"))
    topic_id = world.catalog.topics["a"].topic_id
    response = world.call(fetch, request_of(0, topic="", topic_id=topic_id), LATEST)
    assert response.responses[0].topic_id == topic_id
    assert values_of(parts_of(response)[0]) == [b"x"]


def test_another_nodes_partition_is_refused_with_a_hint() -> None:
    world = World(nodes=2)
    topic_id = world.create("a", partition_count=2)
    request = request_of(None, 0, topic_id=topic_id)
    response = world.call(fetch, request, LATEST, node=0)
    part = parts_of(response)[1]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.current_leader.leader_id == 2
    assert [found.node_id for found in response.node_endpoints] == [2]


def test_zstd_is_not_given_to_a_client_that_cannot_read_it(world: World) -> None:
    send(world, batch_of(b"x", codec=Codec.ZSTD))
    part = get(world, request_of(0), 9)[0]
    assert part.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert get(world, request_of(0), 10)[0].error_code == ErrorCode.NONE


# Limits.


def test_at_least_one_batch_is_given_however_small_the_limits(world: World) -> None:
    send(world, batch_of(b"x" * 1_000))
    send(world, batch_of(b"y"))
    part = get(world, request_of(0, max_bytes=1, partition_max_bytes=1))[0]
    assert values_of(part) == [b"x" * 1_000]


def test_the_partitions_limit_holds_after_the_first_batch(world: World) -> None:
    batch = batch_of(b"x")
    for _ in range(3):
        send(world, batch)
    limit = 2 * len(batch)
    part = get(world, request_of(0, partition_max_bytes=limit))[0]
    assert len(values_of(part)) == 2


def test_the_requests_limit_holds_over_all_partitions(world: World) -> None:
    batch = batch_of(b"x")
    send(world, batch, batch, batch)
    parts = get(world, request_of(0, 0, 0, max_bytes=len(batch)))
    assert [len(part.records) for part in parts.values()] == [len(batch), 0, 0]


# Waiting.


def wait(world: World, request: FetchRequest, version: int = BY_NAME) -> FakeCall:
    call = world.start_call(fetch, request, version)
    assert call.response is None
    return call


def test_an_empty_fetch_waits_its_time(world: World) -> None:
    call = wait(world, request_of(0, max_wait_ms=500, min_bytes=1))
    world.scheduler.advance(0.499)
    assert call.response is None
    world.scheduler.advance(0.001)
    assert parts_of(call.response)[0].records == b""


def test_an_append_wakes_a_waiting_fetch(world: World) -> None:
    call = wait(world, request_of(0, max_wait_ms=500, min_bytes=1))
    send(world, batch_of(b"x"))
    assert values_of(parts_of(call.response)[0]) == [b"x"]
    assert world.scheduler.waiting == 0


def test_an_append_elsewhere_wakes_nobody(world: World) -> None:
    call = wait(world, request_of(0, max_wait_ms=500, min_bytes=1))
    send(world, None, batch_of(b"x"))
    assert call.response is None


def test_a_fetch_waits_for_all_its_bytes(world: World) -> None:
    batch = batch_of(b"x")
    send(world, batch)
    call = wait(world, request_of(0, 0, max_wait_ms=500, min_bytes=3 * len(batch)))
    send(world, None, batch)
    assert call.response is None
    send(world, batch)
    assert len(parts_of(call.response)[0].records) == 2 * len(batch)


def test_enough_bytes_are_answered_at_once(world: World) -> None:
    send(world, batch_of(b"x"))
    request = request_of(0, max_wait_ms=500, min_bytes=1)
    assert values_of(get(world, request)[0]) == [b"x"]


def test_a_waiting_fetch_hears_of_its_topics_end(world: World) -> None:
    topic_id = world.catalog.topics["a"].topic_id
    request = request_of(0, topic_id=topic_id, max_wait_ms=500, min_bytes=1)
    call = wait(world, request, LATEST)
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")])
    world.call(delete_topics, delete, 6)
    assert parts_of(call.response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_waiter_costs_nothing_after_it_is_gone(world: World) -> None:
    wait(world, request_of(0, max_wait_ms=500, min_bytes=1))
    world.scheduler.advance(1)
    partition = world.data.partition("a", 0)
    assert partition is not None
    assert partition.waiters == set()


# Sessions (KIP-227).


def open_session(world: World, *offsets: int) -> int:
    response = world.call(fetch, request_of(*offsets, session_epoch=0), BY_NAME)
    assert response.session_id > 0
    assert len(parts_of(response)) == len(offsets)
    session_id: int = response.session_id
    return session_id


def more(world: World, session_id: int, epoch: int, **options: Any) -> Any:
    request = request_of(session_id=session_id, session_epoch=epoch, **options)
    return world.call(fetch, request, BY_NAME)


def test_a_session_answers_only_what_is_new(world: World) -> None:
    session_id = open_session(world, 0, 0, 0)
    assert parts_of(more(world, session_id, 1)) == {}
    send(world, None, batch_of(b"x"))
    response = more(world, session_id, 2)
    assert response.session_id == session_id
    assert list(parts_of(response)) == [1]


def test_a_session_takes_new_offsets_and_partitions(world: World) -> None:
    session_id = open_session(world, 0)
    send(world, batch_of(b"x"), batch_of(b"y"))
    request = request_of(1, 0, session_id=session_id, session_epoch=1)
    parts = get(world, request)
    assert parts[0].records == b""
    assert values_of(parts[1]) == [b"y"]


def test_a_session_forgets_what_it_is_told_to(world: World) -> None:
    session_id = open_session(world, 0, 0)
    send(world, batch_of(b"x"), batch_of(b"y"))
    forgotten = [ForgottenTopic(topic="a", partitions=[0])]
    response = more(world, session_id, 1, forgotten_topics_data=forgotten)
    assert list(parts_of(response)) == [1]


def test_a_partition_that_gave_records_goes_last(world: World) -> None:
    session_id = open_session(world, 0, 0)
    batch = batch_of(b"x")
    send(world, batch, batch)
    first = more(world, session_id, 1, max_bytes=1)
    second = more(world, session_id, 2, max_bytes=1)
    full = [
        [index for index, part in parts_of(response).items() if part.records]
        for response in (first, second)
    ]
    assert full == [[0], [1]]


@pytest.mark.parametrize("epoch", [2, 7])
def test_a_wrong_session_epoch_is_refused(world: World, epoch: int) -> None:
    session_id = open_session(world, 0)
    response = more(world, session_id, epoch)
    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_refused(world: World) -> None:
    response = more(world, 99, 1)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_final_epoch_ends_a_session(world: World) -> None:
    session_id = open_session(world, 0)
    request = request_of(0, session_id=session_id, session_epoch=-1)
    assert world.call(fetch, request, BY_NAME).session_id == 0
    response = more(world, session_id, 1)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_ends(world: World) -> None:
    session_id = open_session(world, 0)
    forgotten = [ForgottenTopic(topic="a", partitions=[0])]
    response = more(world, session_id, 1, forgotten_topics_data=forgotten)
    assert response.session_id == 0


def test_a_session_is_of_names_or_of_ids(world: World) -> None:
    session_id = open_session(world, 0)
    request = request_of(session_id=session_id, session_epoch=1)
    response = world.call(fetch, request, LATEST)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_cache_answers_without_a_session() -> None:
    world = World(max_incremental_fetch_session_cache_slots=1)
    world.create("a")
    first = open_session(world, 0)
    request = request_of(0, session_epoch=0)
    assert world.call(fetch, request, BY_NAME).session_id == 0
    world.scheduler.advance(120)
    assert world.call(fetch, request, BY_NAME).session_id > 0
    response = more(world, first, 1)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_epoch_that_never_was_diverges(world: World) -> None:
    send(world, batch_of(b"x"))
    request = request_of(0, max_wait_ms=500, min_bytes=1 << 20)
    request.topics[0].partitions[0].last_fetched_epoch = 3
    part = get(world, request)[0]
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 1)
    assert part.records == b""


def test_whoever_may_not_read_is_refused(world: World) -> None:
    class Nobody:
        version = 0

        def authorize(self, *_: object) -> bool:
            return False

    world.authorizer = Nobody()
    code = get(world, request_of(0))[0].error_code
    assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_disk_that_cannot_be_read_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LogError("unreadable")

    send(world, batch_of(b"x"))
    monkeypatch.setattr(world.log, "read", fail)
    code = get(world, request_of(0))[0].error_code
    assert code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_reader_of_committed_gets_nothing_of_a_batch_that_is_open(
    world: World,
) -> None:
    send(world, batch_of(b"x"))
    producer = Producer(7, 0, 0)
    partition = world.data.partition("a", 0)
    assert partition is not None
    batch = read_batch(
        batch_of(b"y", producer=producer, attributes=TRANSACTIONAL), BY_NAME
    )
    world.data.append(partition, batch)
    world.log.flush()
    part = get(world, request_of(0, isolation_level=COMMITTED))[0]
    assert values_of(part) == [b"x"]
    assert part.last_stable_offset == 1


def test_the_log_of_groups_wakes_who_waits_for_it(world: World) -> None:
    topic = world.data.ensure_offsets_topic(bytes(15) + b"\x99")
    world.log.flush()
    request = request_of(0, topic=topic.name, max_wait_ms=500, min_bytes=1)
    call = wait(world, request)
    where = LogPartition(topic.topic_id, 0)
    batch = batch_of(b"x")
    world.log.append(where, batch, info_of(read_header(batch)))
    world.log.flush()
    world.data.internal_grew(where, len(batch))
    assert values_of(parts_of(call.response)[0]) == [b"x"]


def test_a_session_does_not_look_where_nothing_happened(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = open_session(world, 0, 0, 0)
    more(world, session_id, 1)
    looked: list[int] = []
    read = Partition.read

    def counted(self: Partition, *arguments: Any, **options: Any) -> Any:
        looked.append(self.name.partition)
        return read(self, *arguments, **options)

    monkeypatch.setattr(Partition, "read", counted)
    more(world, session_id, 2)
    assert looked == []
    send(world, None, batch_of(b"x"))
    assert list(parts_of(more(world, session_id, 3))) == [1]
    assert looked == [1]


def test_a_session_hears_of_deleted_records_and_of_a_deleted_topic(
    world: World,
) -> None:
    send(world, batch_of(b"x"))
    session_id = open_session(world, 1)
    assert parts_of(more(world, session_id, 1)) == {}
    partition = world.data.partition("a", 0)
    assert partition is not None
    world.data.delete_records(partition, 1)
    world.loop.end_turn()
    assert parts_of(more(world, session_id, 2))[0].log_start_offset == 1
    world.data.stage([world.catalog.delete_topic("a")])
    code = parts_of(more(world, session_id, 3))[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_session_that_turns_to_committed_records_looks_again(world: World) -> None:
    send(world, batch_of(b"x"))
    session_id = open_session(world, 1)
    assert parts_of(more(world, session_id, 1)) == {}
    producer = Producer(7, 0, 0)
    partition = world.data.partition("a", 0)
    assert partition is not None
    batch = batch_of(b"y", producer=producer, attributes=TRANSACTIONAL)
    appended = world.data.append(partition, read_batch(batch, BY_NAME))
    world.data.settle([appended], lambda _: None)
    world.loop.end_turn()
    response = more(world, session_id, 2, isolation_level=COMMITTED)
    assert values_of(parts_of(response)[0]) == []
    assert values_of(parts_of(more(world, session_id, 3))[0]) == [b"y"]


def test_a_bug_in_one_waiting_fetch_is_not_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(0, max_wait_ms=500, min_bytes=1)
    call = wait(world, request)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(Partition, "read", fail)
    send(world, batch_of(b"x"))
    assert call.is_closed
