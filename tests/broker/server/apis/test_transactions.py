"""Transactions: isolation, fencing, timeouts and restarts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from coterie.broker.catalog.entries import Entry
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import TRANSACTIONAL, Producer, split_batches
from tests.broker.server.apis.fake_broker import FakeBroker, batch_of, produce_request
from tests.broker.server.apis.test_fetch import COMMITTED, get, request_of, wait

V1 = 11
"""The newest Produce of transactions version 1."""
V2 = 12


class Client:
    """A transactional producer."""

    def __init__(self, broker: FakeBroker, transactional_id: str = "t") -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1
        self.sequence = 0

    def init(self, version: int = 5, timeout_ms: int = 60_000) -> ErrorCode:
        request = m.InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        response = self.broker.call(request, version)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self.sequence = 0
        return ErrorCode(response.error_code)

    def add(self, *indexes: int, topic: str = "a", version: int = 3) -> ErrorCode:
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                m.AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
            ],
        )
        response = self.broker.call(request, version)
        [found] = response.results_by_topic_v3_and_below
        return ErrorCode(found.results_by_partition[0].partition_error_code)

    def add_offsets(self, group_id: str) -> ErrorCode:
        request = m.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        response = self.broker.call(request, 4)
        return ErrorCode(response.error_code)

    def send(self, *values: bytes, version: int = V1) -> ErrorCode:
        producer = Producer(self.producer_id, self.epoch, self.sequence)
        batch = batch_of(*values, producer=producer, attributes=TRANSACTIONAL)
        request = produce_request(batch, transactional_id=self.transactional_id)
        response = self.broker.call(request, version)
        code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE:
            self.sequence += len(values)
        return code

    def end(self, *, committed: bool, version: int = 3) -> ErrorCode:
        request = m.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        response = self.broker.call(request, version)
        if version >= 5 and response.error_code == 0:
            self.producer_id = response.producer_id
            self.epoch = response.producer_epoch
            self.sequence = 0
        return ErrorCode(response.error_code)


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=2)
    return made


@pytest.fixture
def client(broker: FakeBroker) -> Client:
    made = Client(broker)
    assert made.init() is ErrorCode.NONE
    return made


def test_the_partitions_of_one_produce_request_join_a_transaction_together(
    broker: FakeBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged: list[Entry] = []
    stage = broker.data.stage

    def recorded(entries: Iterable[Entry]) -> None:
        added = list(entries)
        staged.extend(added)
        stage(added)

    monkeypatch.setattr(broker.data, "stage", recorded)
    producer = Producer(client.producer_id, client.epoch, 0)
    batches = [batch_of(b"x", producer=producer, attributes=TRANSACTIONAL)] * 2
    request = produce_request(*batches, transactional_id="t")
    [topic] = broker.call(request, V2).responses
    assert [part.error_code for part in topic.partition_responses] == [0, 0]
    [entry] = staged
    assert entry.value is not None
    assert entry.value["partitions"] == {"a": [0, 1]}


def test_a_repeated_transactional_id_in_a_batch_of_additions_is_refused(
    broker: FakeBroker, client: Client
) -> None:
    one = m.AddPartitionsToTxnTransaction(
        transactional_id="t",
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        topics=[m.AddPartitionsToTxnTopic(name="a", partitions=[0])],
    )
    request = m.AddPartitionsToTxnRequest(transactions=[one, one])
    results = broker.call(request, 5).results_by_transaction
    codes = [
        part.partition_error_code
        for result in results
        for topic in result.topic_results
        for part in topic.results_by_partition
    ]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


def committed(broker: FakeBroker, offset: int = 0) -> Any:
    return get(broker, request_of(offset, isolation_level=COMMITTED))[0]


def test_read_committed_hides_open_transactions(
    broker: FakeBroker, client: Client
) -> None:
    assert client.add(0) is ErrorCode.NONE
    assert client.send(b"x") is ErrorCode.NONE
    part = committed(broker)
    assert (part.records, part.last_stable_offset, part.high_watermark) == (b"", 0, 1)
    assert part.aborted_transactions == []
    assert get(broker, request_of(0))[0].records != b""


def test_read_committed_returns_committed_records(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    client.send(b"x")
    assert client.end(committed=True) is ErrorCode.NONE
    part = committed(broker)
    headers = [header for header, _ in split_batches(part.records)]
    assert [header.is_control for header in headers] == [False, True]
    assert part.last_stable_offset == part.high_watermark == 2
    assert part.aborted_transactions == []


def test_read_committed_lists_aborted_transactions(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    client.send(b"x")
    client.end(committed=False)
    [aborted] = committed(broker).aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (client.producer_id, 0)


def test_a_read_committed_fetch_waits_for_the_end_of_the_transaction(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    request = request_of(0, isolation_level=COMMITTED, max_wait_ms=500, min_bytes=1)
    call = wait(broker, request)
    client.send(b"x")
    assert call.response is None
    client.end(committed=True)
    assert call.response is not None


def test_the_last_stable_offset_can_be_listed(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    client.send(b"x")
    part = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [m.ListOffsetsTopic(name="a", partitions=[part])]
    for level, offset in ((0, 1), (COMMITTED, 0)):
        request = m.ListOffsetsRequest(topics=topics, isolation_level=level)
        response = broker.call(request, 7)
        assert response.topics[0].partitions[0].offset == offset


def test_all_markers_of_a_transaction_are_durable_together(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0, 1)
    client.send(b"x")
    client.add_offsets("group")
    broker.loop.holds = True
    client_end = m.EndTxnRequest(
        transactional_id="t",
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        committed=True,
    )
    call = broker.start_call(client_end, 3)
    assert call.responses == []
    assert committed(broker).last_stable_offset == 0
    broker.loop.release()
    assert call.response.error_code == 0
    assert broker.groups.ended == [(5, client.producer_id, client.epoch, True)]
    for index in (0, 1):
        partition = broker.data.partition("a", index)
        assert partition is not None
        assert client.producer_id not in partition.current_producers()._open


def test_a_transaction_open_at_a_restart_is_still_open(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    client.send(b"x")
    broker.restart()
    assert committed(broker).last_stable_offset == 0
    assert client.end(committed=True) is ErrorCode.NONE
    assert committed(broker).last_stable_offset == 2


def test_aborted_transactions_survive_a_restart(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    client.send(b"x")
    client.end(committed=False)
    broker.restart()
    assert len(committed(broker).aborted_transactions) == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_a_transaction_that_times_out_is_aborted(
    broker: FakeBroker, restarts: bool
) -> None:
    client = Client(broker)
    client.init(timeout_ms=5_000)
    client.add(0)
    client.send(b"x")
    if restarts:
        broker.restart()
    broker.scheduler.advance(5)
    assert len(committed(broker).aborted_transactions) == 1
    assert client.send(b"y") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.end(committed=True) is ErrorCode.PRODUCER_FENCED
    assert client.end(committed=True, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_end_that_waits_in_a_socket_precedes_a_late_timeout(
    broker: FakeBroker,
) -> None:
    client = Client(broker)
    client.init(timeout_ms=5_000)
    client.add(0)
    client.send(b"x")
    broker.loop.holds = True
    broker.scheduler.advance(60)
    broker.loop.holds = False
    assert client.end(committed=True) is ErrorCode.NONE
    assert committed(broker).aborted_transactions == []
    assert committed(broker).last_stable_offset == 2


def test_an_abort_whose_flush_failed_is_retried(broker: FakeBroker) -> None:
    client = Client(broker)
    client.init(timeout_ms=5_000)
    client.add(0)
    client.send(b"x")
    broker.fail_next_write()
    broker.scheduler.advance(5)
    assert committed(broker).last_stable_offset == 0
    broker.scheduler.advance(1)
    assert len(committed(broker).aborted_transactions) == 1


def test_the_next_transaction_has_its_own_timeout(broker: FakeBroker) -> None:
    client = Client(broker)
    client.init(timeout_ms=5_000)
    client.add(0)
    broker.scheduler.advance(4)
    client.end(committed=True)
    client.add(0)
    broker.scheduler.advance(4)
    assert client.end(committed=True) is ErrorCode.NONE


def test_a_second_producer_with_the_same_transactional_id_fences_the_first(
    broker: FakeBroker,
) -> None:
    first, second = Client(broker), Client(broker)
    first.init()
    first.add(0)
    first.send(b"x")
    second.init()
    assert len(committed(broker).aborted_transactions) == 1
    assert first.send(b"y") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.add(0) is ErrorCode.PRODUCER_FENCED
    assert first.add(0, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.end(committed=True) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("version", "code"),
    [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_transactions_v1_refuse_a_partition_that_was_not_added(
    client: Client, version: int, code: ErrorCode
) -> None:
    assert client.send(b"x", version=version) is code


def test_transactions_v2_add_partitions_by_produce(
    broker: FakeBroker, client: Client
) -> None:
    assert client.send(b"x", version=V2) is ErrorCode.NONE
    epoch = client.epoch
    assert client.end(committed=True, version=5) is ErrorCode.NONE
    assert client.epoch == epoch + 1
    assert committed(broker).last_stable_offset == 2
    assert client.send(b"y", version=V2) is ErrorCode.NONE
    assert client.end(committed=False, version=5) is ErrorCode.NONE
    [aborted] = committed(broker).aborted_transactions
    assert aborted.first_offset == 2


def test_a_transactional_batch_needs_a_transactional_id(
    broker: FakeBroker, client: Client
) -> None:
    producer = Producer(client.producer_id, client.epoch, 0)
    batch = batch_of(b"x", producer=producer, attributes=TRANSACTIONAL)
    response = broker.call(produce_request(batch), V2)
    code = response.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_unknown_partitions_prevent_adding_the_others(client: Client) -> None:
    assert client.add(0, 7) is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert client.add(7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_does_not_block_the_end_of_a_transaction(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    broker.data.stage([broker.catalog.delete_topic("a")])
    assert client.end(committed=True) is ErrorCode.NONE


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_an_invalid_transaction_timeout_is_refused(
    broker: FakeBroker, timeout_ms: int
) -> None:
    code = Client(broker).init(timeout_ms=timeout_ms)
    assert code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_empty_transactional_id_is_refused(broker: FakeBroker) -> None:
    assert Client(broker, "").init() is ErrorCode.INVALID_REQUEST


def test_each_idempotent_producer_gets_its_own_id(broker: FakeBroker) -> None:
    def fresh() -> tuple[int, int]:
        response = broker.call(m.InitProducerIdRequest(transactional_id=None), 5)
        return response.producer_id, response.producer_epoch

    assert fresh() == (0, 0)
    assert fresh() == (1, 0)
    broker.restart()
    assert fresh() == (1_000, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (5, -1)])
@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_a_producer_id_without_an_epoch_is_refused(
    broker: FakeBroker, transactional_id: str | None, producer_id: int, epoch: int
) -> None:
    request = m.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=1_000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    assert broker.call(request, 3).error_code == ErrorCode.INVALID_REQUEST
