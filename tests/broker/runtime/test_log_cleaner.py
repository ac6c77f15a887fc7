"""Compaction of topics, and fetches from compacted topics."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.runtime.log_cleaner import LogCleaner
from coterie.wire.compression import Codec
from coterie.wire.record_batch import (
    LogRecord,
    decode_records,
    encode_batch,
    split_batches,
)
from tests.broker.server.apis.fake_broker import (
    FakeBroker,
    FakeWorker,
    produce_request,
)
from tests.broker.server.apis.test_fetch import parts_of, request_of
from tests.broker.server.apis.test_transactions import Client

INTERVAL_MS = 1_000


def new_world(**configs: str) -> FakeBroker:
    return compacted_topic(
        FakeBroker(log_retention_check_interval_ms=INTERVAL_MS), **configs
    )


def compacted_topic(broker: FakeBroker, **configs: str) -> FakeBroker:
    policy = {"cleanup.policy": "compact"}
    named = {name.replace("_", "."): value for name, value in configs.items()}
    broker.create("a", configs=policy | named)
    return broker


def send(broker: FakeBroker, *pairs: tuple[str, str | None]) -> None:
    records = [
        LogRecord(
            at, broker.clock(), key.encode(), None if value is None else value.encode()
        )
        for at, (key, value) in enumerate(pairs)
    ]
    response = broker.call(produce_request(encode_batch(records)), 12)
    assert response.responses[0].partition_responses[0].error_code == 0


def content(broker: FakeBroker, offset: int = 0) -> list[tuple[int, str, str | None]]:
    part: Any = parts_of(broker.call(request_of(offset), 12))[0]
    return [
        (
            record.offset,
            (record.key or b"").decode(),
            None if record.value is None else record.value.decode(),
        )
        for header, batch in split_batches(part.records)
        if not header.is_control
        for record in decode_records(batch)
    ]


def compact(broker: FakeBroker, before: int | None = None) -> None:
    housekeeping = LogCleaner(broker.data, broker.transactions, lambda _: before)
    housekeeping.start()
    broker.scheduler.advance(INTERVAL_MS / 1_000)
    housekeeping.stop()


def test_compaction_keeps_the_last_record_of_a_key() -> None:
    broker = new_world()
    send(broker, ("k", "1"), ("l", "1"))
    send(broker, ("k", "2"))
    send(broker, ("last", "1"))
    compact(broker)
    assert content(broker) == [(1, "l", "1"), (2, "k", "2"), (3, "last", "1")]


def test_log_cleaner_enable_false_disables_compaction() -> None:
    broker = compacted_topic(
        FakeBroker(
            log_retention_check_interval_ms=INTERVAL_MS, log_cleaner_enable=False
        )
    )
    for value in ("1", "2", "3"):
        send(broker, ("k", value))
    compact(broker)
    assert len(content(broker)) == 3


def test_compaction_handles_more_batches_than_one_scan_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coterie.broker.runtime.log_cleaner.HEADERS_PER_STEP", 2)
    broker = new_world()
    for value in "1234567":
        send(broker, ("k", value))
    compact(broker)
    assert content(broker) == [(5, "k", "6"), (6, "k", "7")]


def test_batches_appended_by_the_coordinator_are_read_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coterie.broker.runtime.partitions.BATCHES_PER_STEP", 2)
    broker = new_world()
    client = Client(broker)
    client.init()
    client.add(0)
    send(broker, ("k", "1"))
    client.send(b"k")
    for value in "2345":
        send(broker, ("k", value))
    broker.restart()
    partition = broker.data.partition("a", 0)
    assert partition is not None
    assert len(list(partition.catch_up())) == 3
    assert list(partition.catch_up()) == []
    assert partition.last_stable_offset() == 1


def test_compaction_retains_all_records_from_its_end_offset_on() -> None:
    broker = new_world()
    for value in "12345":
        send(broker, ("k", value))
    compact(broker, before=3)
    assert [offset for offset, *_ in content(broker)] == [2, 3, 4]


def test_compaction_retains_the_last_batch() -> None:
    broker = new_world()
    send(broker, ("k", "1"))
    send(broker, ("k", "2"))
    send(broker, ("k", "3"))
    compact(broker)
    assert content(broker) == [(1, "k", "2"), (2, "k", "3")]


def test_a_fetch_of_a_compacted_offset_returns_the_next_batch() -> None:
    broker = new_world()
    send(broker, ("k", "1"))
    send(broker, ("k", "2"))
    send(broker, ("k", "3"))
    compact(broker)
    assert content(broker, 0)[0][0] == 1


def test_a_tombstone_is_kept_for_delete_retention_ms() -> None:
    broker = new_world(delete_retention_ms="10000")
    send(broker, ("k", "1"))
    send(broker, ("k", None))
    send(broker, ("x", "1"))
    compact(broker)
    assert content(broker) == [(1, "k", None), (2, "x", "1")]
    broker.scheduler.advance(10)
    send(broker, ("x", "2"))
    send(broker, ("x", "3"))
    compact(broker)
    assert content(broker) == [(3, "x", "2"), (4, "x", "3")]


def test_records_younger_than_the_minimum_lag_are_kept() -> None:
    broker = new_world(min_compaction_lag_ms="60000")
    send(broker, ("k", "1"))
    send(broker, ("k", "2"))
    send(broker, ("x", "1"))
    compact(broker)
    assert len(content(broker)) == 3
    broker.scheduler.advance(60)
    compact(broker)
    assert len(content(broker)) == 2


@pytest.mark.parametrize(("lag", "left"), [("9223372036854775807", 103), ("1", 102)])
def test_a_low_dirty_ratio_delays_compaction_until_the_maximum_lag(
    lag: str, left: int
) -> None:
    broker = new_world(max_compaction_lag_ms=lag)
    for at in range(100):
        send(broker, (f"k{at}", "1"))
    send(broker, ("x", "1"))
    compact(broker)
    send(broker, ("k1", "2"))
    send(broker, ("x", "2"))
    compact(broker)
    assert len(content(broker)) == left


def test_records_of_an_open_transaction_are_not_compacted() -> None:
    broker = new_world()
    client = Client(broker)
    client.init()
    client.add(0)
    send(broker, ("k", "1"))
    client.send(b"k")
    send(broker, ("k", "2"))
    send(broker, ("x", "1"))
    compact(broker)
    assert [offset for offset, *_ in content(broker)] == [0, 1, 2, 3]
    client.end(committed=False)
    send(broker, ("y", "1"))
    compact(broker)
    assert [offset for offset, *_ in content(broker)] == [2, 3, 5]


def test_a_failed_flush_ends_the_round_and_the_next_round_compacts() -> None:
    broker = new_world()
    send(broker, ("k", "1"))
    send(broker, ("k", "2"))
    send(broker, ("x", "1"))
    broker.fail_next_write()
    compact(broker)
    assert len(content(broker)) == 3
    compact(broker)
    assert len(content(broker)) == 2


def test_compaction_continues_at_its_offset_after_a_restart() -> None:
    broker = new_world()
    send(broker, ("k", "1"))
    send(broker, ("k", "2"))
    send(broker, ("x", "1"))
    compact(broker)
    broker.restart()
    send(broker, ("k", "3"))
    send(broker, ("x", "2"))
    send(broker, ("x", "3"))
    compact(broker)
    assert content(broker) == [(3, "k", "3"), (4, "x", "2"), (5, "x", "3")]


def test_deleting_a_topic_ends_its_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coterie.broker.runtime.log_cleaner.STEPS_PER_TURN", 1)
    broker = new_world()
    for _ in range(4):
        send(broker, ("k", "1"))
    housekeeping = LogCleaner(broker.data, broker.transactions)
    housekeeping.start()
    broker.loop.holds = True
    broker.scheduler.advance(INTERVAL_MS / 1_000)
    broker.data.stage([broker.catalog.delete_topic("a")])
    broker.loop.holds = False
    broker.loop.release()
    broker.scheduler.advance(INTERVAL_MS / 1_000)
    assert list(broker.log.partitions()) == []


def break_partitions(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, *indexes: int
) -> None:
    """Let the size of some partitions of topic a be a bug."""
    size_bytes = broker.log.size_bytes
    broken = [broker.data.partition("a", index) for index in indexes]
    places = {each.log_partition for each in broken if each is not None}

    def size_or_bug(log_partition: Any) -> int:
        assert log_partition not in places, "a bug"
        return size_bytes(log_partition)

    monkeypatch.setattr(broker.log, "size_bytes", size_or_bug)


def test_a_bug_in_one_partition_does_not_stop_the_cleaning_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = FakeBroker(log_retention_check_interval_ms=INTERVAL_MS)
    configs = {"cleanup.policy": "delete", "retention.bytes": "0"}
    broker.create("a", partition_count=4, configs=configs)
    batch = encode_batch([LogRecord(0, broker.clock(), b"k", b"v")])
    cleaner = LogCleaner(broker.data, broker.transactions)
    cleaner.start()
    with monkeypatch.context() as patched:
        break_partitions(broker, patched, 0, 1, 2)
        broker.call(produce_request(batch, batch, batch, batch), 12)
        broker.scheduler.advance(INTERVAL_MS / 1_000)
    assert content_starts(broker) == [0, 0, 0, 1]
    assert [record.getMessage() for record in caplog.records] == [
        "cleaning of a-0: a bug",
        "cleaning of 3 partitions failed with AssertionError",
    ]
    broker.scheduler.advance(INTERVAL_MS / 1_000)
    assert content_starts(broker) == [1, 1, 1, 1]
    cleaner.stop()


def test_a_stopped_cleaner_leaves_no_timer() -> None:
    broker = FakeBroker(log_retention_check_interval_ms=INTERVAL_MS)
    waiting = broker.scheduler.waiting
    cleaner = LogCleaner(broker.data, broker.transactions)
    cleaner.stop()
    cleaner.start()
    assert broker.scheduler.waiting == waiting
    cleaner = LogCleaner(broker.data, broker.transactions)
    cleaner.start()
    assert broker.scheduler.waiting == waiting + 1
    cleaner.stop()
    assert broker.scheduler.waiting == waiting


def content_starts(broker: FakeBroker) -> list[int]:
    parts = [part for part in broker.data.partitions() if part.name.topic == "a"]
    return [part.bounds().log_start_offset for part in parts]


def test_a_bug_outside_partitions_does_not_stop_later_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = new_world()
    for value in "12":
        send(broker, ("k", value))
    send(broker, ("last", "1"))
    cleaner = LogCleaner(broker.data, broker.transactions)
    cleaner.start()
    with monkeypatch.context() as patched:
        patched.setattr(broker.data, "partitions", lambda: 1 / 0)
        broker.scheduler.advance(INTERVAL_MS / 1_000)
    broker.scheduler.advance(INTERVAL_MS / 1_000)
    cleaner.stop()
    assert content(broker) == [(1, "k", "2"), (2, "last", "1")]


def send_compressed(broker: FakeBroker, value: str) -> None:
    record = LogRecord(0, broker.clock(), b"k", value.encode())
    batch = encode_batch([record], codec=Codec.ZSTD)
    response = broker.call(produce_request(batch), 12)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_batches_that_may_be_large_are_compacted_in_the_worker() -> None:
    broker = new_world()
    send_compressed(broker, "1")
    send_compressed(broker, "2")
    send(broker, ("last", "1"))
    worker = FakeWorker()
    broker.data.run_in_worker = worker.run
    cleaner = LogCleaner(broker.data, broker.transactions)
    cleaner.start()
    broker.scheduler.advance(INTERVAL_MS / 1_000)
    assert len(worker.waiting) == 1
    assert len(content(broker)) == 3
    while worker.waiting:
        worker.work()
        broker.scheduler.advance(0)
    cleaner.stop()
    assert content(broker) == [(1, "k", "2"), (2, "last", "1")]


@pytest.mark.pure
def test_a_batch_that_cannot_be_decoded_leaves_other_partitions_clean(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FakeBroker(log_retention_check_interval_ms=INTERVAL_MS)
    compacted_topic(broker)
    send_compressed(broker, "1")
    send_compressed(broker, "2")
    configs = {"cleanup.policy": "delete", "retention.bytes": "0"}
    broker.create("b", configs=configs)
    batch = encode_batch([LogRecord(0, broker.clock(), b"k", b"v")])
    broker.call(produce_request(batch, topic="b"), 12)
    read = broker.log.read

    def broken(*arguments: Any) -> Any:
        return [batch[:61] + bytes(len(batch) - 61) for batch in read(*arguments)]

    cleaner = LogCleaner(broker.data, broker.transactions)
    cleaner.start()
    monkeypatch.setattr(broker.log, "read", broken)
    broker.scheduler.advance(INTERVAL_MS / 1_000)
    cleaner.stop()
    other = broker.data.partition("b", 0)
    assert other is not None
    assert other.bounds().log_start_offset == 1
    [line] = caplog.messages
    assert line.startswith("cleaning of a-0 failed: ")
