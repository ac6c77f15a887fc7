"""Produce: validation, duplicates, transactions and responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c

from coterie.broker.catalog.batch_validation import INDEXES_MAX
from coterie.broker.runtime.decoding import (
    LOOP_BATCH_BYTES,
    LOOP_BATCHES,
    LOOP_RECORDS,
)
from coterie.wire.compression import Codec
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
    with_base_offset,
)
from tests.broker.server.apis.fake_broker import (
    FakeBroker,
    FakeWorker,
    allow_only,
    batch_of,
    produce_request,
)

LATEST = 13
BY_NAME = 12
EMPTY = b""


def only(response: Any) -> Any:
    [topic] = response.responses
    [part] = topic.partition_responses
    return part


def send(
    broker: FakeBroker, batch: bytes, version: int = BY_NAME, **options: Any
) -> Any:
    return only(broker.call(produce_request(batch, **options), version))


def kept(broker: FakeBroker, topic: str = "a", index: int = 0) -> list[bytes]:
    partition = broker.data.partition(topic, index)
    assert partition is not None
    return [
        bytes(found) for found in broker.log.read(partition.log_partition, 0, 1 << 30)
    ]


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=3)
    return made


def test_offsets_continue_from_batch_to_batch(broker: FakeBroker) -> None:
    assert send(broker, batch_of(b"x", b"y")).base_offset == 0
    assert send(broker, batch_of(b"z")).base_offset == 2
    first, second = kept(broker)
    assert read_header(second).base_offset == 2
    assert [record.value for record in decode_records(first)] == [b"x", b"y"]


def test_the_response_waits_for_the_flush(broker: FakeBroker) -> None:
    broker.loop.holds = True
    call = broker.start_call(produce_request(batch_of(b"x")), BY_NAME)
    assert call.response is None
    broker.loop.release()
    assert only(call.response).error_code == ErrorCode.NONE


def test_acks_zero_has_no_response(broker: FakeBroker) -> None:
    call = broker.start_call(produce_request(batch_of(b"x"), acks=0), BY_NAME)
    assert call.responses == [None]
    assert not call.is_closed
    assert len(kept(broker)) == 1


@pytest.mark.fact("G1-06")
def test_a_failed_produce_with_acks_zero_closes_the_connection(
    broker: FakeBroker,
) -> None:
    request = produce_request(batch_of(b"x"), acks=0, topic="no-such")
    call = broker.start_call(request, BY_NAME)
    assert call.responses == [None]
    assert call.is_closed


@pytest.mark.parametrize("acks", [2, -2, 32_767])
def test_an_unknown_partition_is_reported_before_invalid_acks(
    broker: FakeBroker, acks: int
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert send(broker, batch_of(b"x"), acks=acks, topic="none").error_code == unknown


def test_invalid_acks_are_refused(broker: FakeBroker) -> None:
    assert (
        send(broker, batch_of(b"x"), acks=2).error_code
        == ErrorCode.INVALID_REQUIRED_ACKS
    )


def test_an_error_of_one_partition_does_not_affect_others(broker: FakeBroker) -> None:
    request = produce_request(batch_of(b"x"), EMPTY, batch_of(b"y"))
    [topic] = broker.call(request, BY_NAME).responses
    codes = [part.error_code for part in topic.partition_responses]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.NONE]


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("no-such", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_an_unknown_or_internal_partition_is_refused(
    broker: FakeBroker, topic: str, index: int, code: ErrorCode
) -> None:
    broker.data.ensure_offsets_topic(bytes(15) + b"\x99")
    batches: list[bytes | None] = [None] * index
    request = produce_request(*batches, batch_of(b"x"), topic=topic)
    part = only(broker.call(request, BY_NAME))
    assert part.error_code == code
    assert part.base_offset == -1


def test_a_topic_is_named_by_id_from_v13_on(broker: FakeBroker) -> None:
    topic_id = broker.catalog.topics["a"].topic_id
    part = send(broker, batch_of(b"x"), LATEST, topic="", topic_id=topic_id)
    assert part.error_code == ErrorCode.NONE
    part = send(broker, batch_of(b"x"), LATEST, topic="", topic_id=bytes(16))
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_another_nodes_partition_is_refused_with_its_leader() -> None:
    broker = FakeBroker(nodes=2)
    broker.create("a", partition_count=2)
    request = produce_request(None, batch_of(b"x"))
    response = broker.call(request, BY_NAME, node=0)
    part = only(response)
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.current_leader.leader_id == 2
    assert [found.node_id for found in response.node_endpoints] == [2]
    assert only(broker.call(request, BY_NAME, node=1)).error_code == 0


def corrupted(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def with_magic(batch: bytes, magic: int) -> bytes:
    return batch[:16] + bytes([magic]) + batch[17:]


def with_size(batch: bytes, size: int) -> bytes:
    return batch[:8] + size.to_bytes(4, "big") + batch[12:]


def with_checksum(batch: bytes) -> bytes:
    return batch[:17] + crc32c(batch[21:]).to_bytes(4, "big") + batch[21:]


def with_count(batch: bytes, count: int) -> bytes:
    return with_checksum(batch[:57] + count.to_bytes(4, "big") + batch[61:])


@pytest.mark.parametrize(
    ("batch", "version", "code"),
    [
        (corrupted(batch_of(b"x")), 9, ErrorCode.CORRUPT_MESSAGE),
        (with_magic(batch_of(b"x"), 1), 9, ErrorCode.INVALID_RECORD),
        (batch_of(b"x") * 2, 9, ErrorCode.INVALID_RECORD),
        (b"", 9, ErrorCode.INVALID_RECORD),
        (batch_of(b"x")[:30], 9, ErrorCode.INVALID_RECORD),
        (batch_of(b"x")[:-1], 9, ErrorCode.INVALID_RECORD),
        (with_magic(batch_of(b"x"), 3), 9, ErrorCode.CORRUPT_MESSAGE),
        (with_size(batch_of(b"x"), 13)[:12], 9, ErrorCode.CORRUPT_MESSAGE),
        (with_size(batch_of(b"x")[:60], 48), 9, ErrorCode.CORRUPT_MESSAGE),
        (batch_of(b"x") + bytes(12), 9, ErrorCode.CORRUPT_MESSAGE),
        (with_base_offset(batch_of(b"x"), 5), 9, ErrorCode.INVALID_RECORD),
        (
            batch_of(b"x", producer=Producer(5, -2, 0)),
            9,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ),
        (
            batch_of(b"x", codec=Codec.ZSTD),
            6,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ),
        (batch_of(b"x", producer=Producer(5, 0, -1)), 9, ErrorCode.INVALID_RECORD),
        (batch_of(b"x", attributes=CONTROL), 9, ErrorCode.INVALID_RECORD),
    ],
)
def test_an_invalid_batch_is_refused(
    broker: FakeBroker, batch: bytes, version: int, code: ErrorCode
) -> None:
    assert send(broker, batch, version).error_code == code
    assert kept(broker) == []


def test_zstd_is_accepted_from_v7_on(broker: FakeBroker) -> None:
    batch = batch_of(b"x", codec=Codec.ZSTD)
    assert send(broker, batch, 7).error_code == ErrorCode.NONE


def test_a_batch_over_the_topics_limit_is_too_large() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"max.message.bytes": "100"})
    code = send(broker, batch_of(b"x" * 200)).error_code
    assert code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_timestamp_too_far_in_the_future_is_refused(broker: FakeBroker) -> None:
    ahead = broker.clock() + 3_600_001
    code = send(broker, batch_of(b"x", timestamp_ms=ahead)).error_code
    assert code == ErrorCode.INVALID_TIMESTAMP


def test_a_compacted_topic_refuses_records_without_keys() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"cleanup.policy": "compact"})
    part = send(broker, batch_of(b"x", keyless=True))
    assert part.error_code == ErrorCode.INVALID_RECORD
    assert [found.batch_index for found in part.record_errors] == [0]
    assert send(broker, batch_of(b"x")).error_code == ErrorCode.NONE


def test_log_append_time_sets_the_timestamp() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"message.timestamp.type": "LogAppendTime"})
    part = send(broker, batch_of(b"x", timestamp_ms=1))
    assert part.log_append_time_ms == broker.clock()
    [batch] = kept(broker)
    [record] = decode_records(batch)
    assert record.timestamp_ms == broker.clock()


@pytest.mark.parametrize("change_ms", [-86_400_000, 86_400_000])
def test_timestamps_are_compared_with_the_system_time(
    broker: FakeBroker, change_ms: int
) -> None:
    broker.wall_ahead_ms = change_ms
    now_ms = broker.wall_clock()
    assert send(broker, batch_of(b"x", timestamp_ms=now_ms)).error_code == 0
    late = send(broker, batch_of(b"x", timestamp_ms=now_ms + 3_700_000))
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP


def test_append_times_are_the_system_time() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"message.timestamp.type": "LogAppendTime"})
    broker.wall_ahead_ms = 3_600_000
    part = send(broker, batch_of(b"x", timestamp_ms=1))
    assert part.log_append_time_ms == broker.clock() + 3_600_000


def test_batches_are_stored_with_the_compression_type_of_the_topic() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"compression.type": "gzip"})
    send(broker, batch_of(b"x", b"y", codec=Codec.LZ4))
    [batch] = kept(broker)
    assert read_header(batch).codec is Codec.GZIP
    assert [record.value for record in decode_records(batch)] == [b"x", b"y"]


def idempotent(first: int, *values: bytes, epoch: int = 0) -> bytes:
    return batch_of(*values, producer=Producer(7, epoch, first))


def test_a_duplicate_batch_returns_the_original_offset(broker: FakeBroker) -> None:
    send(broker, batch_of(b"w"))
    assert send(broker, idempotent(0, b"x")).base_offset == 1
    assert send(broker, idempotent(1, b"y")).base_offset == 2
    assert send(broker, idempotent(0, b"x")).base_offset == 1
    assert len(kept(broker)) == 3


def test_a_gap_in_the_sequence_is_refused(broker: FakeBroker) -> None:
    send(broker, idempotent(0, b"x"))
    code = send(broker, idempotent(2, b"y")).error_code
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_fenced(broker: FakeBroker) -> None:
    send(broker, idempotent(0, b"x", epoch=1))
    code = send(broker, idempotent(1, b"y")).error_code
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequence_numbers_survive_a_restart(broker: FakeBroker) -> None:
    send(broker, idempotent(0, b"x"))
    broker.restart()
    assert send(broker, idempotent(0, b"x")).base_offset == 0
    assert send(broker, idempotent(1, b"y")).base_offset == 1


def test_a_failed_flush_is_an_error_and_appends_nothing(broker: FakeBroker) -> None:
    send(broker, idempotent(0, b"x"))
    broker.fail_next_write()
    part = send(broker, idempotent(1, b"y"))
    assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert part.base_offset == -1
    assert send(broker, idempotent(1, b"y")).base_offset == 1


def test_produce_needs_write_on_the_topic(broker: FakeBroker) -> None:
    broker.authorizer = allow_only()
    code = send(broker, batch_of(b"x")).error_code
    assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    code = send(broker, batch_of(b"x"), transactional_id="t").error_code
    assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    batch = batch_of(b"x", attributes=TRANSACTIONAL)
    code = send(broker, batch, transactional_id="t").error_code
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    "batch",
    [
        batch_of(b"x", attributes=TRANSACTIONAL),
        batch_of(b"x", timestamp_ms=-1, attributes=LOG_APPEND_TIME),
        with_count(batch_of(b"x"), 2),
    ],
)
def test_a_batch_with_inconsistent_fields_is_refused(
    broker: FakeBroker, batch: bytes
) -> None:
    request = produce_request(batch, transactional_id="t")
    code = only(broker.call(request, BY_NAME)).error_code
    assert code in {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
    assert kept(broker) == []


@pytest.mark.parametrize(
    "configs", [{"cleanup.policy": "compact"}, {"compression.type": "lz4"}]
)
def test_records_that_are_recompressed_must_decode(configs: dict[str, str]) -> None:
    broker = FakeBroker()
    broker.create("a", configs=configs)
    batch = batch_of(b"x")
    broken = with_checksum(batch[:61] + b"\xff" * (len(batch) - 61))
    assert send(broker, broken).error_code == ErrorCode.INVALID_RECORD
    assert kept(broker) == []


def with_spans(batch: bytes, count: int) -> bytes:
    """Return the batch with another number of records and of offsets."""
    spans = (count - 1).to_bytes(4, "big")
    return with_checksum(
        batch[:23] + spans + batch[27:57] + count.to_bytes(4, "big") + batch[61:]
    )


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [1, 3, 2**31 - 1])
def test_a_batch_with_another_number_of_records_is_refused(
    broker: FakeBroker, codec: Codec, count: int
) -> None:
    batch = with_spans(batch_of(b"x", b"y", codec=codec), count)
    code = send(broker, batch).error_code
    too_large = count > broker.settings.batch_records_max
    assert code == (
        ErrorCode.MESSAGE_TOO_LARGE if too_large else ErrorCode.INVALID_RECORD
    )
    assert kept(broker) == []


def test_a_header_alone_cannot_advance_the_offset(broker: FakeBroker) -> None:
    empty = batch_of(b"x")[:61]
    length = (61 - 12).to_bytes(4, "big")
    batch = with_spans(empty[:8] + length + empty[12:], 1_000_000)
    assert send(broker, batch).error_code == ErrorCode.INVALID_RECORD
    partition = broker.data.partition("a", 0)
    assert partition is not None
    assert partition.bounds().next_offset == 0


def test_batches_above_the_limits_of_records_and_bytes_are_too_large() -> None:
    broker = FakeBroker(batch_records_max=2, batch_decompressed_bytes_max=65_536)
    broker.create("a")
    small = batch_of(b"x", b"y")
    assert send(broker, small).error_code == ErrorCode.NONE
    for batch in (
        batch_of(b"x", b"y", b"z"),
        batch_of(bytes(40_000), codec=Codec.ZSTD),  # key and value
    ):
        assert send(broker, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    # Only compressed batches can be larger than they seem.
    assert send(broker, batch_of(bytes(40_000))).error_code == ErrorCode.NONE


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_batches_that_are_not_of_their_codec_are_unexpected(
    broker: FakeBroker, codec: int
) -> None:
    batch = batch_of(b"x")
    odd = with_checksum(batch[:22] + bytes([codec]) + batch[23:])
    response = send(broker, odd)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert response.log_start_offset == 0


def with_max_time(batch: bytes, timestamp_ms: int) -> bytes:
    return with_checksum(batch[:35] + timestamp_ms.to_bytes(8, "big") + batch[43:])


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("claimed_ms", [0, 2**62])
def test_the_greatest_timestamp_is_computed_from_the_records(
    broker: FakeBroker, codec: Codec, claimed_ms: int
) -> None:
    now_ms = broker.clock()
    batch = batch_of(b"x", b"y", timestamp_ms=now_ms, codec=codec)
    assert send(broker, with_max_time(batch, claimed_ms)).error_code == ErrorCode.NONE
    [stored] = kept(broker)
    assert read_header(stored).max_timestamp_ms == now_ms
    assert crc_matches(stored)
    partition = broker.data.partition("a", 0)
    assert partition is not None
    [header] = broker.log.headers(partition.log_partition)
    assert header.max_timestamp_ms == now_ms


def test_the_timestamp_of_each_record_is_checked(broker: FakeBroker) -> None:
    now_ms = broker.clock()
    times = [now_ms, -1, now_ms + 3_600_001, now_ms]
    batch = encode_batch(
        [LogRecord(at, time, None, b"v") for at, time in enumerate(times)]
    )
    part = send(broker, with_max_time(batch, now_ms))
    assert part.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [found.batch_index for found in part.record_errors] == [2]
    assert kept(broker) == []


def test_the_response_names_a_limited_number_of_invalid_records() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"cleanup.policy": "compact"})
    part = send(broker, batch_of(*[b"x"] * (INDEXES_MAX + 1), keyless=True))
    assert part.error_code == ErrorCode.INVALID_RECORD
    assert len(part.record_errors) == INDEXES_MAX


# Large batches are validated in the worker.


def large_batch(value: bytes = b"x") -> bytes:
    """Return a small batch that decompresses to more than a request may in the loop."""
    return batch_of(value * LOOP_BATCH_BYTES, codec=Codec.ZSTD)


def many_records() -> bytes:
    records = [LogRecord(at, -1, None, b"") for at in range(LOOP_RECORDS + 1)]
    return encode_batch(records)


@pytest.mark.parametrize("make", [large_batch, many_records])
def test_a_large_batch_is_validated_in_the_worker(
    broker: FakeBroker, make: Callable[[], bytes]
) -> None:
    worker = FakeWorker()
    broker.data.run_in_worker = worker.run
    call = broker.start_call(produce_request(make()), BY_NAME)
    assert call.responses == []
    assert call.is_held, "later requests of the connection wait"
    assert len(worker.waiting) == 1
    # Requests of other clients are handled meanwhile.
    assert send(broker, batch_of(b"y")).base_offset == 0
    worker.work()
    broker.loop.end_turn()
    part = only(call.response)
    assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 1)
    assert len(kept(broker)) == 2


def test_the_loop_decompresses_a_limited_number_of_batches() -> None:
    broker = FakeBroker()
    broker.create("a", partition_count=LOOP_BATCHES + 2)
    worker = FakeWorker()
    broker.data.run_in_worker = worker.run
    batches = [batch_of(b"x", codec=Codec.GZIP)] * (LOOP_BATCHES + 2)
    call = broker.start_call(produce_request(*batches), BY_NAME)
    for _ in range(2):  # one at a time, so that requests take turns
        assert len(worker.waiting) == 1
        worker.work()
    broker.loop.end_turn()
    [topic] = call.response.responses
    assert [part.index for part in topic.partition_responses] == list(
        range(LOOP_BATCHES + 2)
    )
    assert {part.error_code for part in topic.partition_responses} == {0}


def test_errors_of_large_batches_are_those_of_their_partitions() -> None:
    broker = FakeBroker(batch_decompressed_bytes_max=LOOP_BATCH_BYTES)
    broker.create("a", partition_count=3)
    worker = FakeWorker()
    broker.data.run_in_worker = worker.run
    lied = with_spans(many_records(), LOOP_RECORDS)
    request = produce_request(large_batch(), lied, batch_of(b"x"))
    call = broker.start_call(request, BY_NAME)
    while worker.waiting:
        worker.work()
    broker.loop.end_turn()
    [topic] = call.response.responses
    assert [part.error_code for part in topic.partition_responses] == [
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.NONE,
    ]


def test_a_topic_may_be_deleted_while_its_batch_is_validated(
    broker: FakeBroker,
) -> None:
    worker = FakeWorker()
    broker.data.run_in_worker = worker.run
    call = broker.start_call(produce_request(large_batch()), BY_NAME)
    broker.data.stage([broker.catalog.delete_topic("a")])
    worker.work()
    broker.loop.end_turn()
    code = only(call.response).error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
