"""The reader of records, on scripted brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.client.record_reader import RecordReader
from coterie.errors import ApiError, ClientError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
)
from tests.client.admin.scripted_cluster import ScriptedCluster

pytestmark = pytest.mark.asyncio

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def batch(first: int, *values: bytes, producer: int = -1) -> bytes:
    records = [LogRecord(first + at, 1, None, value) for at, value in enumerate(values)]
    if producer < 0:
        return encode_batch(records)
    owner = Producer(producer, 0, 0)
    return encode_batch(records, producer=owner, attributes=TRANSACTIONAL)


def part(
    data: bytes, *, partition: int = 0, code: int = 0, aborted: tuple[int, int] = (0, 0)
) -> m.PartitionData:
    transactions = []
    if aborted[0]:
        transactions = [
            m.AbortedTransaction(producer_id=aborted[0], first_offset=aborted[1])
        ]
    return m.PartitionData(
        partition_index=partition,
        error_code=code,
        aborted_transactions=transactions,
        records=data,
    )


def answers(*parts: m.PartitionData) -> Callable[[m.FetchRequest], m.FetchResponse]:
    topic = m.FetchableTopicResponse(topic="t", partitions=list(parts))
    return lambda _: m.FetchResponse(responses=[topic])


def aborted_answers(
    data: bytes, aborted: tuple[int, int]
) -> Callable[[m.FetchRequest], m.FetchResponse]:
    """Answer as a broker, which names aborted transactions to read_committed only."""

    def answer(request: m.FetchRequest) -> m.FetchResponse:
        named = aborted if request.isolation_level else (0, 0)
        return answers(part(data, aborted=named))(request)

    return answer


async def test_records_lie_between_the_position_and_the_end() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        whole = batch(3, b"a", b"b") + batch(5, b"c", b"d")
        nodes.brokers[0].answers[ApiKey.FETCH] = answers(part(whole + whole[:70]))
        reader = RecordReader(nodes.client(), {T0: 4}, ends={T0: 6})
        records = (await reader.read()).one(T0)
        assert reader.is_done
    assert [(each.offset, each.value) for each in records] == [(4, b"b"), (5, b"c")]


async def test_an_aborted_transaction_ends_with_its_marker() -> None:
    data = (
        batch(0, b"aborted", producer=5)
        + batch(1, b"other", producer=6)
        + encode_marker(2, 1, 5, 0, commit=False)
        + batch(3, b"later", producer=5)
        + encode_marker(4, 1, 5, 0, commit=True)
        + encode_marker(5, 1, 6, 0, commit=True)
    )
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        nodes.brokers[0].answers[ApiKey.FETCH] = aborted_answers(data, (5, 0))
        client = nodes.client()
        values = []
        for committed_only in (True, False):
            reader = RecordReader(client, {T0: 0}, committed_only=committed_only)
            records = (await reader.read()).one(T0)
            values.append([each.value for each in records])
            assert reader.positions == {T0: 6}
    assert values == [[b"other", b"later"], [b"aborted", b"other", b"later"]]


async def test_a_failed_partition_is_not_read_again() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0, 1)
        broken = bytearray(batch(0, b"a"))
        broken[-1] ^= 1
        nodes.brokers[0].answers[ApiKey.FETCH] = answers(
            part(bytes(broken)),
            part(b"", partition=1, code=ErrorCode.OFFSET_OUT_OF_RANGE),
        )
        reader = RecordReader(nodes.client(), {T0: 0, T1: 99})
        results = await reader.read()
        assert reader.is_done
    assert "t-0: cannot read the batch at offset 0" in str(results.errors[T0])
    assert isinstance(results.errors[T1], ApiError)


async def test_an_end_that_is_never_reached_is_an_error() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        nodes.brokers[0].answers[ApiKey.FETCH] = answers(part(b""))
        reader = RecordReader(nodes.client(), {T0: 4}, ends={T0: 6})
        rounds = 0
        while not reader.is_done and rounds < 100:
            results = await reader.read()
            rounds += 1
    assert isinstance(results.errors[T0], ClientError)
    assert "from offset 4 on, though it ends at 6" in str(results.errors[T0])
