"""The producer, on scripted brokers that refuse and forget."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from coterie.client.admin.routing import UNKNOWN_TRIES
from coterie.client.producer import NewRecord, Producer, ProducerOptions
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import BatchHeader, decode_records, read_header
from tests.client.admin.scripted_cluster import ScriptedCluster

pytestmark = pytest.mark.asyncio

T0 = TopicPartition("t", 0)


class Log:
    """Partition 0 of topic t: the batches that its leaders got, and their answers."""

    def __init__(self) -> None:
        self.got: list[tuple[int, BatchHeader, list[bytes | None]]] = []
        self.refusals: list[ErrorCode] = []
        self.on_refusal: Callable[[], object] = bool

    def answer(self, node_id: int) -> Callable[[m.ProduceRequest], m.ProduceResponse]:
        def produce(request: m.ProduceRequest) -> m.ProduceResponse:
            (topic,) = request.topic_data
            (data,) = topic.partition_data
            assert data.records is not None
            header = read_header(data.records)
            values = [each.value for each in decode_records(data.records)]
            self.got.append((node_id, header, values))
            code = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
            if code:
                self.on_refusal()
            part = m.PartitionProduceResponse(index=0, error_code=code, base_offset=10)
            answer = m.TopicProduceResponse(name="t", partition_responses=[part])
            return m.ProduceResponse(responses=[answer])

        return produce


def new_id(_: m.InitProducerIdRequest) -> m.InitProducerIdResponse:
    return m.InitProducerIdResponse(producer_id=77, producer_epoch=3)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest_asyncio.fixture
async def nodes(log: Log) -> AsyncIterator[ScriptedCluster]:
    async with ScriptedCluster(2) as nodes:
        nodes.lead(1, "t", 0)
        for broker in nodes.brokers:
            broker.answers[ApiKey.PRODUCE] = log.answer(broker.node_id)
            broker.answers[ApiKey.INIT_PRODUCER_ID] = new_id
        yield nodes


async def test_a_batch_follows_its_leader_with_the_same_sequence(
    nodes: ScriptedCluster, log: Log
) -> None:
    log.refusals = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    log.on_refusal = lambda: nodes.lead(2, "t", 0)
    producer = Producer(nodes.client())
    await producer.produce("t", [NewRecord(b"a"), NewRecord(b"b")])
    outcomes = await producer.produce("t", [NewRecord(b"c")])
    assert [(node, header.base_sequence) for node, header, _ in log.got] == [
        (1, 0),
        (2, 0),
        (2, 2),
    ]
    assert {header.producer_id for _, header, _ in log.got} == {77}
    assert (outcomes[T0].first_offset, outcomes[T0].error) == (10, None)


async def test_a_topic_that_was_just_created_is_requested_again(
    nodes: ScriptedCluster, log: Log
) -> None:
    nodes.refused["t"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    requests = 0

    def metadata(request: m.MetadataRequest) -> m.MetadataResponse:
        nonlocal requests
        if any(topic.name == "t" for topic in request.topics or ()):
            requests += 1
            if requests == UNKNOWN_TRIES:
                nodes.refused.clear()
        return nodes.metadata(request)

    for broker in nodes.brokers:
        broker.answers[ApiKey.METADATA] = metadata
    outcomes = await Producer(nodes.client()).produce("t", [NewRecord(b"a")])
    assert outcomes[T0].error is None
    assert requests == UNKNOWN_TRIES


async def test_a_topic_without_a_right_is_requested_once(
    nodes: ScriptedCluster, log: Log
) -> None:
    nodes.refused["t"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(ApiError, match="not authorized"):
        await Producer(nodes.client()).produce("t", [NewRecord(b"a")])
    asked = [
        request
        for broker in nodes.brokers
        for request in broker.asked_of(m.MetadataRequest)
        if any(topic.name == "t" for topic in request.topics or ())
    ]
    assert len(asked) == 1


async def test_a_duplicate_is_a_success(nodes: ScriptedCluster, log: Log) -> None:
    log.refusals = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    outcomes = await Producer(nodes.client()).produce("t", [NewRecord(b"a")])
    assert (outcomes[T0].count, outcomes[T0].error) == (1, None)


async def test_records_after_a_refused_batch_are_not_sent(
    nodes: ScriptedCluster, log: Log
) -> None:
    log.refusals = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    options = ProducerOptions(batch_bytes_max=1)
    producer = Producer(nodes.client(), options)
    outcomes = await producer.produce("t", [NewRecord(b"a"), NewRecord(b"b")])
    assert [values for _, _, values in log.got] == [[b"a"]]
    assert (outcomes[T0].count, outcomes[T0].failed) == (0, 2)
    assert isinstance(outcomes[T0].error, ApiError)
    await producer.produce("t", [NewRecord(b"c")])
    assert log.got[-1][1].base_sequence == 0


async def test_a_producer_without_idempotence_has_no_id(
    nodes: ScriptedCluster, log: Log
) -> None:
    for options in (
        ProducerOptions(is_idempotent=False),
        ProducerOptions(needs_all_replicas=False),
    ):
        await Producer(nodes.client(), options).produce("t", [NewRecord(b"a")])
    assert {header.producer_id for _, header, _ in log.got} == {-1}


async def test_the_second_half_of_a_large_batch_has_its_own_offsets(
    nodes: ScriptedCluster, log: Log
) -> None:
    log.refusals = [ErrorCode.MESSAGE_TOO_LARGE]
    records = [NewRecord(bytes([each])) for each in range(5)]
    outcomes = await Producer(nodes.client()).produce("t", records)
    assert [len(values) for _, _, values in log.got] == [5, 2, 3]
    assert [header.base_sequence for _, header, _ in log.got] == [0, 0, 2]
    assert [header.last_offset_delta for _, header, _ in log.got] == [4, 1, 2]
    assert outcomes[T0].count == 5
