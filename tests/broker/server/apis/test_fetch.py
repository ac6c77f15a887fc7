"""Fetch: results, limits, waiting and sessions."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.catalog.batch_validation import read_batch
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.partitions import Partition, info_of
from coterie.errors import LogError
from coterie.wire import messages as m
from coterie.wire.compression import Codec
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    Producer,
    decode_records,
    read_header,
    split_batches,
)
from tests.broker.server.apis.fake_broker import (
    FakeBroker,
    FakePeer,
    allow_only,
    batch_of,
    produce_request,
)

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
) -> m.FetchRequest:
    """Return a Fetch request: the first offset is for partition 0, and so on."""
    parts = [
        m.FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
        )
        for index, offset in enumerate(offsets)
        if offset is not None
    ]
    topics = [m.FetchTopic(topic=topic, topic_id=topic_id, partitions=parts)]
    return m.FetchRequest(topics=topics if parts else [], **options)


def send(broker: FakeBroker, *batches: bytes | None, topic: str = "a") -> None:
    response = broker.call(produce_request(*batches, topic=topic), BY_NAME)
    for part in response.responses[0].partition_responses:
        assert part.error_code == 0


def parts_of(response: Any) -> dict[int, Any]:
    return {
        part.partition_index: part
        for topic in response.responses
        for part in topic.partitions
    }


def errors_of(response: Any) -> dict[int, int]:
    return {index: part.error_code for index, part in parts_of(response).items()}


def values_of(part: Any) -> list[bytes | None]:
    return [
        record.value
        for _, batch in split_batches(part.records)
        for record in decode_records(batch)
    ]


def get(
    broker: FakeBroker, request: m.FetchRequest, version: int = BY_NAME
) -> dict[int, Any]:
    return parts_of(broker.call(request, version))


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=3)
    return made


def test_produced_records_are_fetched(broker: FakeBroker) -> None:
    send(broker, batch_of(b"x", b"y"))
    send(broker, batch_of(b"z"))
    part = get(broker, request_of(0))[0]
    assert values_of(part) == [b"x", b"y", b"z"]
    assert part.high_watermark == 3
    assert part.last_stable_offset == 3
    assert part.log_start_offset == 0
    assert part.aborted_transactions is None


def test_a_fetch_from_inside_a_batch_gets_the_whole_batch(broker: FakeBroker) -> None:
    send(broker, batch_of(b"x", b"y"))
    assert values_of(get(broker, request_of(1))[0]) == [b"x", b"y"]


def test_unflushed_records_are_not_fetched(broker: FakeBroker) -> None:
    broker.loop.holds = True
    broker.start_call(produce_request(batch_of(b"x")), BY_NAME)
    part = get(broker, request_of(0))[0]
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
def test_an_out_of_range_fetch_fails_immediately(
    broker: FakeBroker, request_: m.FetchRequest, version: int, code: ErrorCode
) -> None:
    request_.max_wait_ms, request_.min_bytes = 1_000, 1
    [part] = get(broker, request_, version).values()
    assert part.error_code == code
    assert part.records == b""
    assert part.high_watermark == -1


def test_a_topic_is_named_by_id_from_v13_on(broker: FakeBroker) -> None:
    send(broker, batch_of(b"x"))
    topic_id = broker.catalog.topics["a"].topic_id
    response = broker.call(request_of(0, topic="", topic_id=topic_id), LATEST)
    assert response.responses[0].topic_id == topic_id
    assert values_of(parts_of(response)[0]) == [b"x"]


def test_another_nodes_partition_is_refused_with_its_leader() -> None:
    broker = FakeBroker(nodes=2)
    topic_id = broker.create("a", partition_count=2)
    request = request_of(None, 0, topic_id=topic_id)
    response = broker.call(request, LATEST, node=0)
    part = parts_of(response)[1]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.current_leader.leader_id == 2
    assert [found.node_id for found in response.node_endpoints] == [2]


def test_zstd_batches_are_refused_before_version_10(broker: FakeBroker) -> None:
    send(broker, batch_of(b"x", codec=Codec.ZSTD))
    part = get(broker, request_of(0), 9)[0]
    assert part.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert get(broker, request_of(0), 10)[0].error_code == ErrorCode.NONE


# Limits.


def test_at_least_one_batch_is_returned_with_any_limits(
    broker: FakeBroker,
) -> None:
    send(broker, batch_of(b"x" * 1_000))
    send(broker, batch_of(b"y"))
    part = get(broker, request_of(0, max_bytes=1, partition_max_bytes=1))[0]
    assert values_of(part) == [b"x" * 1_000]


@pytest.mark.parametrize(
    ("max_bytes", "partition_max_bytes"), [(-1, 1_000), (1_000, -1), (-(2**31), 1)]
)
def test_a_negative_limit_is_refused_where_there_are_records(
    broker: FakeBroker, max_bytes: int, partition_max_bytes: int
) -> None:
    send(broker, batch_of(b"x"))
    request = request_of(
        0, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes
    )
    assert get(broker, request)[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    request = request_of(
        1, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes
    )
    assert get(broker, request)[0].error_code == ErrorCode.NONE


def test_the_partition_limit_applies_after_the_first_batch(broker: FakeBroker) -> None:
    batch = batch_of(b"x")
    for _ in range(3):
        send(broker, batch)
    limit = 2 * len(batch)
    part = get(broker, request_of(0, partition_max_bytes=limit))[0]
    assert len(values_of(part)) == 2


def test_the_request_limit_applies_to_all_partitions(broker: FakeBroker) -> None:
    batch = batch_of(b"x")
    send(broker, batch, batch, batch)
    parts = get(broker, request_of(0, 0, 0, max_bytes=len(batch)))
    assert [len(part.records) for part in parts.values()] == [len(batch), 0, 0]


# Waiting.


def wait(
    broker: FakeBroker, request: m.FetchRequest, version: int = BY_NAME
) -> FakePeer:
    call = broker.start_call(request, version)
    assert call.response is None
    return call


def test_an_empty_fetch_waits_for_max_wait_ms(broker: FakeBroker) -> None:
    call = wait(broker, request_of(0, max_wait_ms=500, min_bytes=1))
    broker.scheduler.advance(0.499)
    assert call.response is None
    broker.scheduler.advance(0.001)
    assert parts_of(call.response)[0].records == b""


def test_an_append_completes_a_waiting_fetch(broker: FakeBroker) -> None:
    call = wait(broker, request_of(0, max_wait_ms=500, min_bytes=1))
    send(broker, batch_of(b"x"))
    assert values_of(parts_of(call.response)[0]) == [b"x"]
    assert broker.scheduler.waiting == 0


def test_an_append_to_another_partition_completes_no_fetch(broker: FakeBroker) -> None:
    call = wait(broker, request_of(0, max_wait_ms=500, min_bytes=1))
    send(broker, None, batch_of(b"x"))
    assert call.response is None


def test_a_fetch_waits_for_min_bytes(broker: FakeBroker) -> None:
    batch = batch_of(b"x")
    send(broker, batch)
    call = wait(broker, request_of(0, 0, max_wait_ms=500, min_bytes=3 * len(batch)))
    send(broker, None, batch)
    assert call.response is None
    send(broker, batch)
    assert len(parts_of(call.response)[0].records) == 2 * len(batch)


def test_a_fetch_with_enough_bytes_completes_immediately(broker: FakeBroker) -> None:
    send(broker, batch_of(b"x"))
    request = request_of(0, max_wait_ms=500, min_bytes=1)
    assert values_of(get(broker, request)[0]) == [b"x"]


def test_deleting_the_topic_completes_a_waiting_fetch(broker: FakeBroker) -> None:
    topic_id = broker.catalog.topics["a"].topic_id
    request = request_of(0, topic_id=topic_id, max_wait_ms=500, min_bytes=1)
    call = wait(broker, request, LATEST)
    delete = m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name="a")])
    broker.call(delete, 6)
    assert errors_of(call.response) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_fetch_waits_beside_an_unknown_partition(broker: FakeBroker) -> None:
    request = request_of(0, None, None, 0, max_wait_ms=500, min_bytes=1)
    call = wait(broker, request)
    send(broker, batch_of(b"x"))
    assert errors_of(call.response) == {0: 0, 3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    request = request_of(None, None, None, 0, max_wait_ms=500, min_bytes=1)
    assert list(get(broker, request)) == [3]  # nothing to wait for


def test_unknown_partitions_are_last_in_a_response(broker: FakeBroker) -> None:
    request = request_of(0, topic="no-such")
    request.topics += request_of(5, 0).topics
    response = broker.call(request, BY_NAME)
    assert [topic.topic for topic in response.responses] == ["a", "no-such"]
    aborted = [
        part.aborted_transactions
        for topic in response.responses
        for part in topic.partitions
    ]
    assert aborted == [None, None, []]  # null only after a read


@pytest.mark.parametrize(
    ("version", "code", "count"), [(6, 0, 1), (7, -1, 1), (12, -1, 1), (13, -1, 0)]
)
def test_an_unknown_isolation_level_fails(
    broker: FakeBroker, version: int, code: int, count: int
) -> None:
    response = broker.call(request_of(0, isolation_level=2), version)
    assert response.error_code == code
    assert errors_of(response) == dict.fromkeys(range(count), -1)


def test_a_completed_fetch_is_removed_from_its_partitions(broker: FakeBroker) -> None:
    wait(broker, request_of(0, max_wait_ms=500, min_bytes=1))
    broker.scheduler.advance(1)
    partition = broker.data.partition("a", 0)
    assert partition is not None
    assert partition.polls == set()


def last_fetched(offset: int, epoch: int) -> m.FetchRequest:
    request = request_of(offset, max_wait_ms=500, min_bytes=1 << 20)
    request.topics[0].partitions[0].last_fetched_epoch = epoch
    return request


def test_an_offset_beyond_the_end_of_the_last_fetched_epoch_is_diverging(
    broker: FakeBroker,
) -> None:
    send(broker, batch_of(b"x"))
    part = get(broker, last_fetched(2, epoch=0))[0]
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 1)
    assert (part.error_code, part.records, part.last_stable_offset) == (0, b"", 1)


def test_a_last_fetched_epoch_that_never_was_is_out_of_range(
    broker: FakeBroker,
) -> None:
    send(broker, batch_of(b"x"))
    errors = [get(broker, last_fetched(0, epoch))[0].error_code for epoch in (1, 3)]
    assert errors == [ErrorCode.OFFSET_OUT_OF_RANGE] * 2


def test_fetch_needs_read_on_the_topic(broker: FakeBroker) -> None:
    broker.authorizer = allow_only()
    code = get(broker, request_of(0))[0].error_code
    assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_read_error_of_the_disk_is_kafka_storage_error(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LogError("unreadable")

    send(broker, batch_of(b"x"))
    monkeypatch.setattr(broker.log, "read", fail)
    code = get(broker, request_of(0))[0].error_code
    assert code == ErrorCode.KAFKA_STORAGE_ERROR


def test_read_committed_returns_nothing_of_an_open_transaction(
    broker: FakeBroker,
) -> None:
    send(broker, batch_of(b"x"))
    producer = Producer(7, 0, 0)
    partition = broker.data.partition("a", 0)
    assert partition is not None
    batch = read_batch(
        batch_of(b"y", producer=producer, attributes=TRANSACTIONAL), BY_NAME
    )
    broker.data.append(partition, batch)
    broker.log.flush()
    part = get(broker, request_of(0, isolation_level=COMMITTED))[0]
    assert values_of(part) == [b"x"]
    assert part.last_stable_offset == 1


def test_a_commit_completes_a_waiting_fetch_of_the_offsets_topic(
    broker: FakeBroker,
) -> None:
    topic = broker.data.ensure_offsets_topic(bytes(15) + b"\x99")
    broker.log.flush()
    request = request_of(0, topic=topic.name, max_wait_ms=500, min_bytes=1)
    call = wait(broker, request)
    where = LogPartition(topic.topic_id, 0)
    batch = batch_of(b"x")
    broker.log.append(where, batch, info_of(read_header(batch)))
    broker.log.flush()
    broker.data.notify_growth(where, len(batch))
    assert values_of(parts_of(call.response)[0]) == [b"x"]


def test_a_bug_in_one_waiting_fetch_does_not_affect_others(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(0, max_wait_ms=500, min_bytes=1)
    call = wait(broker, request)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(Partition, "read", fail)
    send(broker, batch_of(b"x"))
    assert call.is_closed
