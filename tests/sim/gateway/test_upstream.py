"""The simulated upstream cluster: it fences, deduplicates, loses and compacts as Apache
Kafka does (`ProducerAppendInfo`, `ProducerStateManager`, `LogCleaner`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from coterie.errors import ApiError, ConnectionLost, RequestTimedOut
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    decode_records,
    encode_batch,
    read_header,
    split_batches,
)
from sim.broken import Broken
from sim.clock import Clock
from sim.gateway.cleaner import CleanerRun
from sim.gateway.partition import UpstreamPartition
from sim.gateway.upstream import Cluster, Outcome, UpstreamClient

_OLD, _NEW = Producer(7, 3, 0), Producer(7, 4, 0)


def batch_of(
    producer: Producer, *keys: bytes, value: bytes | None = b"v", attributes: int = 0
) -> bytes:
    records = [LogRecord(at, 1_000, key, value) for at, key in enumerate(keys)]
    return encode_batch(records, producer=producer, attributes=attributes)


def after(producer: Producer, count: int) -> Producer:
    return producer._replace(base_sequence=producer.base_sequence + count)


def refusal(append: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        append()
    return raised.value.code


def keys_of(log: UpstreamPartition) -> list[bytes | None]:
    return [
        record.key
        for header, batch in split_batches(log.read(0, 1 << 20))
        for record in decode_records(batch, header)
        if not header.is_control
    ]


# A partition.


def test_an_older_producer_writes_until_the_newer_one_has_written() -> None:
    log = UpstreamPartition()
    log.append(batch_of(_OLD, b"a"), 0)
    log.append(batch_of(after(_OLD, 1), b"zombie"), 0)
    log.append(batch_of(_NEW, b"barrier"), 0)
    code = refusal(lambda: log.append(batch_of(after(_OLD, 2), b"late"), 0))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_last_five_batches_are_known_as_duplicates() -> None:
    log = UpstreamPartition()
    for number in range(6):
        assert log.append(batch_of(after(_OLD, number), b"%d" % number), 0) == number
    assert log.append(batch_of(after(_OLD, 1), b"1"), 0) == 1
    assert log.end == 6
    code = refusal(lambda: log.append(batch_of(_OLD, b"k"), 0))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequences_is_refused() -> None:
    log = UpstreamPartition()
    log.append(batch_of(_OLD, b"a"), 0)
    code = refusal(lambda: log.append(batch_of(after(_OLD, 2), b"c"), 0))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    code = refusal(lambda: log.append(batch_of(after(_NEW, 1), b"c"), 0))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_expired_producer_is_not_fenced() -> None:
    log = UpstreamPartition()
    log.append(batch_of(_NEW, b"barrier"), 0)
    log.expire_producers(before_ms=1)
    log.append(batch_of(after(_OLD, 9), b"zombie"), 2)
    assert log.end == 2


def test_a_failover_keeps_what_is_replicated() -> None:
    ends = set()
    for seed in range(20):
        log = UpstreamPartition()
        log.append(batch_of(_OLD, b"a"), 0)
        log.replicate(1)
        log.append(batch_of(after(_OLD, 1), b"b"), 0)
        log.fail_over(Random(seed))
        ends.add(log.end)
        assert log.append(batch_of(after(_OLD, 1), b"b"), 0) == 1  # once, in any case
    assert ends == {1, 2}


def test_batches_are_read_when_they_are_replicated() -> None:
    log = UpstreamPartition()
    log.append(batch_of(_OLD, b"a"), 0)
    assert keys_of(log) == []
    log.replicate(log.end)
    assert keys_of(log) == [b"a"]


def test_compaction_keeps_offsets_and_the_last_batch_of_a_producer() -> None:
    log = UpstreamPartition()
    log.append(batch_of(_OLD, b"a", b"b"), 0)
    log.append(batch_of(after(_OLD, 2), b"a"), 0)
    log.append(batch_of(Producer(9, 0, 0), b"a"), 0)
    log.replicate(log.end)
    log.compact(CleanerRun(log.end))
    headers = [header for header, _ in split_batches(log.read(0, 1 << 20))]
    assert [(each.base_offset, each.record_count) for each in headers] == [
        (0, 1),
        (2, 0),
        (3, 1),
    ]
    assert keys_of(log) == [b"b", b"a"]


def test_compaction_stops_at_an_open_transaction_and_drops_an_aborted_one() -> None:
    log = UpstreamPartition()
    application = Producer(9, 0, 0)
    log.append(batch_of(_OLD, b"a"), 0)
    log.append(batch_of(application, b"a", attributes=TRANSACTIONAL), 0)
    log.append(batch_of(after(_OLD, 1), b"b"), 0)
    log.append(batch_of(after(_OLD, 2), b"b", value=b"w"), 0)
    log.replicate(log.end)
    log.compact(CleanerRun(log.end))
    assert keys_of(log) == [b"a", b"a", b"b", b"b"]
    log.append_marker(application, 0, commit=False)
    log.replicate(log.end)
    log.compact(CleanerRun(log.end))
    assert keys_of(log) == [b"a", b"b"]


def test_compaction_knows_the_aborted_transactions_that_end_later() -> None:
    log = UpstreamPartition()
    application = Producer(9, 0, 0)
    log.append(batch_of(_OLD, b"a"), 0)
    log.append(batch_of(application, b"a", attributes=TRANSACTIONAL), 0)
    log.append_marker(application, 0, commit=False)
    log.replicate(log.end)
    log.compact(CleanerRun(2))
    assert keys_of(log) == [b"a"]
    assert read_header(log.read(0, 1 << 20)).record_count == 1


def test_a_batch_that_is_written_again_with_other_sequences_is_detected() -> None:
    log = UpstreamPartition()
    batch, again = batch_of(_OLD, b"a"), batch_of(after(_OLD, 1), b"a")
    log.sent(batch)
    log.append(batch, 0)
    log.failed(batch)
    log.append(batch, 0)
    log.sent(again)
    with pytest.raises(Broken, match="written again"):
        log.append(again, 0)


def test_records_may_be_written_twice_before_the_first_batch_fails() -> None:
    log = UpstreamPartition()
    batch, again = batch_of(_OLD, b"a"), batch_of(after(_OLD, 1), b"a")
    log.sent(batch)
    log.sent(again)
    log.append(batch, 0)
    log.failed(batch)
    log.append(again, 0)
    assert log.end == 2


# A client.


def _call(callback: Callable[[], object]) -> None:
    callback()


class _Client:
    """A client of a cluster whose process always runs."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = Clock()
        self.cluster = Cluster(self.clock, Random(seed), partition_count=1)
        self.upstream = UpstreamClient(self.cluster, _call)
        self.outcomes: list[Outcome] = []

    def produce(self, *batches: bytes) -> None:
        for batch in batches:
            self.upstream.produce(0, batch, self.outcomes.append)

    def advance(self, duration_ms: int = 20_000) -> None:
        until_ms = self.clock.now_ms + duration_ms
        while self.clock.step(until_ms):
            pass

    @property
    def log(self) -> UpstreamPartition:
        return self.cluster.partitions[0]


def test_batches_are_appended_in_order() -> None:
    for seed in range(20):
        client = _Client(seed)
        client.produce(*(batch_of(after(_OLD, at), b"%d" % at) for at in range(5)))
        client.advance()
        assert client.outcomes == [0, 1, 2, 3, 4]


def test_each_call_gets_a_newer_epoch() -> None:
    client = _Client()
    client.cluster.last_epoch = 1
    got: list[object] = []
    for _ in range(3):
        client.upstream.init_producer_id("id", got.append)
        client.advance()
    assert got == [
        Producer(1_001, 0, -1),
        Producer(1_001, 1, -1),
        Producer(1_002, 0, -1),
    ]


def test_a_lost_connection_leaves_a_prefix_of_the_batches() -> None:
    ends = set()
    for seed in range(40):
        client = _Client(seed)
        client.produce(*(batch_of(after(_OLD, at), b"%d" % at) for at in range(3)))
        client.upstream.lose_connection(0)
        client.advance()
        assert all(isinstance(each, ConnectionLost) for each in client.outcomes)
        assert len(client.outcomes) == 3
        ends.add(client.log.end)
    assert ends == {0, 1, 2, 3}


def test_a_node_without_network_gets_no_response() -> None:
    client = _Client()
    client.upstream.is_cut_off = True
    client.produce(batch_of(_OLD, b"a"), batch_of(after(_OLD, 1), b"b"))
    got: list[object] = []
    client.upstream.fetch(0, 0, got.append)
    client.upstream.init_producer_id("id", got.append)
    client.advance()
    first, second = client.outcomes
    assert isinstance(first, RequestTimedOut)
    assert isinstance(second, RequestTimedOut | ConnectionLost)
    assert [type(each) for each in got] == [RequestTimedOut, RequestTimedOut]
    assert client.log.end == 0


def test_a_batch_that_a_failover_loses_is_never_acknowledged() -> None:
    for seed in range(40):
        client = _Client(seed)
        client.cluster.faults.replication_ms = 50
        client.produce(batch_of(_OLD, b"a"))
        client.advance(10)
        client.cluster.fail_over(0, down_ms=100)
        client.advance()
        (outcome,) = client.outcomes
        assert isinstance(outcome, ConnectionLost) or client.log.end == 1


def test_a_fetch_may_return_no_batch_of_a_partition_that_has_some() -> None:
    client = _Client()
    client.produce(batch_of(_OLD, b"a"))
    client.advance()
    client.cluster.faults.empty_fetches = 0.5
    sizes = set()
    for _ in range(20):
        client.upstream.fetch(0, 0, lambda got: sizes.add(len(got.batches) > 0))  # type: ignore[union-attr]
        client.advance()
    assert sizes == {True, False}


def test_a_fetch_waits_for_a_batch() -> None:
    client = _Client()
    got: list[object] = []
    client.upstream.fetch(0, 0, got.append, wait_ms=10_000)
    client.advance(1_000)
    assert got == []
    client.produce(batch_of(_OLD, b"a"))
    client.advance(1_000)
    (fetched,) = got
    assert fetched.high_watermark == 1  # type: ignore[attr-defined]
