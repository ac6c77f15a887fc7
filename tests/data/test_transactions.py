"""Transactions through the APIs: what readers see, fencing, time-outs, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.server.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    list_offsets,
    produce,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from coterie.wire.messages.end_txn import EndTxnRequest
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coterie.wire.record_batch import TRANSACTIONAL, Producer, split_batches
from tests.data.test_fetch import COMMITTED, get, request_of, wait
from tests.data.world import World, batch_of, produce_request

V1 = 11
"""The newest Produce of transactions version 1."""
V2 = 12


class Client:
    """A transactional producer as a client library is one."""

    def __init__(self, world: World, transactional_id: str = "t") -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1
        self.sequence = 0

    def init(self, version: int = 5, timeout_ms: int = 60_000) -> ErrorCode:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        response = self.world.call(init_producer_id, request, version)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self.sequence = 0
        return ErrorCode(response.error_code)

    def add(self, *indexes: int, topic: str = "a", version: int = 3) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
            ],
        )
        response = self.world.call(add_partitions_to_txn, request, version)
        [found] = response.results_by_topic_v3_and_below
        return ErrorCode(found.results_by_partition[0].partition_error_code)

    def add_offsets(self, group_id: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        response = self.world.call(add_offsets_to_txn, request, 4)
        return ErrorCode(response.error_code)

    def send(self, *values: bytes, version: int = V1) -> ErrorCode:
        producer = Producer(self.producer_id, self.epoch, self.sequence)
        batch = batch_of(*values, producer=producer, attributes=TRANSACTIONAL)
        request = produce_request(batch, transactional_id=self.transactional_id)
        response = self.world.call(produce, request, version)
        code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE:
            self.sequence += len(values)
        return code

    def end(self, *, committed: bool, version: int = 3) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        response = self.world.call(end_txn, request, version)
        if version >= 5 and response.error_code == 0:
            self.producer_id = response.producer_id
            self.epoch = response.producer_epoch
            self.sequence = 0
        return ErrorCode(response.error_code)


@pytest.fixture
def world() -> World:
    made = World()
    made.create("a", partition_count=2)
    return made


@pytest.fixture
def client(world: World) -> Client:
    made = Client(world)
    assert made.init() is ErrorCode.NONE
    return made


def committed(world: World, offset: int = 0) -> Any:
    return get(world, request_of(offset, isolation_level=COMMITTED))[0]


def test_what_is_open_is_hidden_from_readers_of_committed(
    world: World, client: Client
) -> None:
    assert client.add(0) is ErrorCode.NONE
    assert client.send(b"x") is ErrorCode.NONE
    part = committed(world)
    assert (part.records, part.last_stable_offset, part.high_watermark) == (b"", 0, 1)
    assert part.aborted_transactions == []
    assert get(world, request_of(0))[0].records != b""


def test_what_is_committed_is_seen(world: World, client: Client) -> None:
    client.add(0)
    client.send(b"x")
    assert client.end(committed=True) is ErrorCode.NONE
    part = committed(world)
    headers = [header for header, _ in split_batches(part.records)]
    assert [header.is_control for header in headers] == [False, True]
    assert part.last_stable_offset == part.high_watermark == 2
    assert part.aborted_transactions == []


def test_what_is_aborted_is_named(world: World, client: Client) -> None:
    client.add(0)
    client.send(b"x")
    client.end(committed=False)
    [aborted] = committed(world).aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (client.producer_id, 0)


def test_a_reader_of_committed_waits_for_the_end(world: World, client: Client) -> None:
    client.add(0)
    request = request_of(0, isolation_level=COMMITTED, max_wait_ms=500, min_bytes=1)
    call = wait(world, request)
    client.send(b"x")
    assert call.response is None
    client.end(committed=True)
    assert call.response is not None


def test_the_latest_stable_offset_can_be_listed(world: World, client: Client) -> None:
    client.add(0)
    client.send(b"x")
    part = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name="a", partitions=[part])]
    for level, offset in ((0, 1), (COMMITTED, 0)):
        request = ListOffsetsRequest(topics=topics, isolation_level=level)
        response = world.call(list_offsets, request, 7)
        assert response.topics[0].partitions[0].offset == offset


def test_all_ends_are_durable_together(world: World, client: Client) -> None:
    client.add(0, 1)
    client.send(b"x")
    client.add_offsets("group")
    world.loop.holds = True
    client_end = EndTxnRequest(
        transactional_id="t",
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        committed=True,
    )
    call = world.start_call(end_txn, client_end, 3)
    assert call.answers == []
    assert committed(world).last_stable_offset == 0
    world.loop.release()
    assert call.response.error_code == 0
    assert world.groups.ended == [(5, client.producer_id, client.epoch, True)]
    for index in (0, 1):
        partition = world.data.partition("a", index)
        assert partition is not None
        assert not partition.has_open(client.producer_id)


def test_a_transaction_open_at_a_restart_is_still_open(
    world: World, client: Client
) -> None:
    client.add(0)
    client.send(b"x")
    world.restart()
    assert committed(world).last_stable_offset == 0
    assert client.end(committed=True) is ErrorCode.NONE
    assert committed(world).last_stable_offset == 2


def test_what_was_aborted_is_known_after_a_restart(
    world: World, client: Client
) -> None:
    client.add(0)
    client.send(b"x")
    client.end(committed=False)
    world.restart()
    assert len(committed(world).aborted_transactions) == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_a_transaction_that_takes_too_long_is_aborted(
    world: World, restarts: bool
) -> None:
    client = Client(world)
    client.init(timeout_ms=5_000)
    client.add(0)
    client.send(b"x")
    if restarts:
        world.restart()
    world.scheduler.advance(5)
    assert len(committed(world).aborted_transactions) == 1
    assert client.send(b"y") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.end(committed=True) is ErrorCode.PRODUCER_FENCED
    assert client.end(committed=True, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_abort_that_could_not_be_written_is_tried_again(world: World) -> None:
    client = Client(world)
    client.init(timeout_ms=5_000)
    client.add(0)
    client.send(b"x")
    world.fail_next_write()
    world.scheduler.advance(5)
    assert committed(world).last_stable_offset == 0
    world.scheduler.advance(1)
    assert len(committed(world).aborted_transactions) == 1


def test_the_next_transaction_has_its_own_time(world: World) -> None:
    client = Client(world)
    client.init(timeout_ms=5_000)
    client.add(0)
    world.scheduler.advance(4)
    client.end(committed=True)
    client.add(0)
    world.scheduler.advance(4)
    assert client.end(committed=True) is ErrorCode.NONE


def test_a_second_producer_of_the_same_id_fences_the_first(world: World) -> None:
    first, second = Client(world), Client(world)
    first.init()
    first.add(0)
    first.send(b"x")
    second.init()
    assert len(committed(world).aborted_transactions) == 1
    assert first.send(b"y") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.add(0) is ErrorCode.PRODUCER_FENCED
    assert first.add(0, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.end(committed=True) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("version", "code"),
    [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_partition_that_was_not_added_is_refused_in_version_one(
    client: Client, version: int, code: ErrorCode
) -> None:
    assert client.send(b"x", version=version) is code


def test_version_two_adds_partitions_by_writing_to_them(
    world: World, client: Client
) -> None:
    assert client.send(b"x", version=V2) is ErrorCode.NONE
    epoch = client.epoch
    assert client.end(committed=True, version=5) is ErrorCode.NONE
    assert client.epoch == epoch + 1
    assert committed(world).last_stable_offset == 2
    assert client.send(b"y", version=V2) is ErrorCode.NONE
    assert client.end(committed=False, version=5) is ErrorCode.NONE
    [aborted] = committed(world).aborted_transactions
    assert aborted.first_offset == 2


def test_a_transactional_batch_needs_a_transactional_id(
    world: World, client: Client
) -> None:
    producer = Producer(client.producer_id, client.epoch, 0)
    batch = batch_of(b"x", producer=producer, attributes=TRANSACTIONAL)
    response = world.call(produce, produce_request(batch), V2)
    code = response.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_unknown_partitions_hold_back_the_others(client: Client) -> None:
    assert client.add(0, 7) is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert client.add(7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_does_not_hold_up_the_end(world: World, client: Client) -> None:
    client.add(0)
    world.data.stage([world.catalog.delete_topic("a")])
    assert client.end(committed=True) is ErrorCode.NONE


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_an_impossible_timeout_is_refused(world: World, timeout_ms: int) -> None:
    code = Client(world).init(timeout_ms=timeout_ms)
    assert code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_empty_transactional_id_is_refused(world: World) -> None:
    assert Client(world, "").init() is ErrorCode.INVALID_REQUEST


def test_idempotent_producers_get_ids_of_their_own(world: World) -> None:
    def fresh() -> tuple[int, int]:
        response = world.call(
            init_producer_id, InitProducerIdRequest(transactional_id=None), 5
        )
        return response.producer_id, response.producer_epoch

    assert fresh() == (0, 0)
    assert fresh() == (1, 0)
    world.restart()
    assert fresh() == (1_000, 0)
