"""The client of the shards' topic, on a server of the test kit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from coterie.client.admin.admin_client import AdminClient
from coterie.client.options import ClientOptions
from coterie.errors import ApiError, ConnectionLost, CoterieError
from coterie.gateway.upstream.client import UpstreamClient
from coterie.gateway.upstream.topic import ShardsTopic, open_topic
from coterie.gateway.upstream.upstream import Fetched
from coterie.testing import Kafka
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    NO_PRODUCER,
    LogRecord,
    Producer,
    decode_records,
    encode_batch,
    split_batches,
)

pytestmark = pytest.mark.asyncio

NAME = "__coterie_test"
PARTITIONS = 4
R = TypeVar("R")


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        yield kafka


@pytest_asyncio.fixture
async def client(kafka: Kafka) -> AsyncIterator[UpstreamClient]:
    await opened(kafka)
    client = UpstreamClient(kafka.bootstrap_servers, ClientOptions(), NAME)
    await client.start()
    yield client
    await client.close()


async def opened(kafka: Kafka) -> ShardsTopic:
    async with AdminClient(kafka.bootstrap_servers) as admin:
        return await open_topic(admin, NAME, partition_count=PARTITIONS)


async def outcome(call: Callable[[Callable[[Any], None]], None]) -> Any:
    """Return what a call passes to `done`; raise it when it is an error."""
    result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    call(result.set_result)
    value = await asyncio.wait_for(result, 60)
    if isinstance(value, CoterieError):
        raise value
    return value


def batch(*values: bytes, producer: Producer = NO_PRODUCER) -> bytes:
    records = [LogRecord(at, 0, b"k", value) for at, value in enumerate(values)]
    return encode_batch(records, producer=producer)


async def produce(client: UpstreamClient, partition: int, data: bytes) -> int:
    base = await outcome(lambda done: client.produce(partition, data, done))
    assert isinstance(base, int)
    return base


async def fetch(client: UpstreamClient, partition: int, offset: int) -> Fetched:
    fetched = await outcome(lambda done: client.fetch(partition, offset, done))
    assert isinstance(fetched, Fetched)
    return fetched


def values_of(fetched: Fetched) -> list[bytes | None]:
    return [
        record.value
        for header, data in split_batches(fetched.batches)
        for record in decode_records(data, header)
    ]


async def init(client: UpstreamClient) -> Producer:
    producer = await outcome(
        lambda done: client.init_producer_id("coterie-test-0", done)
    )
    assert isinstance(producer, Producer)
    return producer


async def test_the_topic_is_created_once(kafka: Kafka) -> None:
    first = await opened(kafka)
    assert first.partition_count == PARTITIONS
    assert first.cluster_id
    async with AdminClient(kafka.bootstrap_servers) as admin:
        assert await open_topic(admin, NAME, partition_count=9) == first


async def test_a_batch_is_fetched_from_its_offset(client: UpstreamClient) -> None:
    base = await produce(client, 0, batch(b"a", b"b"))
    assert await produce(client, 0, batch(b"c")) == base + 2
    fetched = await fetch(client, 0, base + 2)
    assert fetched.high_watermark == base + 3
    assert values_of(fetched)[-1] == b"c"
    with pytest.raises(ApiError) as refused:
        await fetch(client, 0, base + 100)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_batches_of_one_iteration_share_a_request(
    client: UpstreamClient, kafka: Kafka
) -> None:
    before = len(kafka.requests.of("Produce"))
    bases = await asyncio.gather(
        *(produce(client, partition, batch(b"x")) for partition in range(PARTITIONS))
    )
    assert len(bases) == PARTITIONS
    assert len(kafka.requests.of("Produce")) == before + 1


async def test_batches_of_a_partition_keep_their_order(client: UpstreamClient) -> None:
    bases = await asyncio.gather(
        *(produce(client, 1, batch(b"%d" % at)) for at in range(50))
    )
    assert bases == sorted(bases)
    assert values_of(await fetch(client, 1, bases[0]))[-50:] == [
        b"%d" % at for at in range(50)
    ]


async def test_an_older_epoch_is_refused_after_the_newer_ones_first_batch(
    client: UpstreamClient,
) -> None:
    older = await init(client)
    await produce(client, 2, batch(b"a", producer=older))
    newer = await init(client)
    assert newer.producer_id == older.producer_id
    assert newer.producer_epoch == older.producer_epoch + 1
    later = older._replace(base_sequence=1)
    await produce(client, 2, batch(b"before the barrier", producer=later))
    await produce(client, 2, batch(b"barrier", producer=newer))
    with pytest.raises(ApiError) as refused:
        await produce(client, 2, batch(b"z", producer=older._replace(base_sequence=2)))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_fetch_that_waits_returns_the_next_batch(
    client: UpstreamClient,
) -> None:
    end = await produce(client, 3, batch(b"a")) + 1
    waiting = asyncio.ensure_future(
        outcome(lambda done: client.fetch(3, end, done, wait_ms=60_000))
    )
    await asyncio.sleep(0)
    await produce(client, 3, batch(b"b"))
    assert values_of(await waiting) == [b"b"]


@pytest.mark.slow
async def test_a_lost_connection_is_an_unknown_outcome() -> None:
    with Kafka() as other:
        await opened(other)
        client = UpstreamClient(other.bootstrap_servers, ClientOptions(), NAME)
        await client.start()
        await produce(client, 0, batch(b"a"))
        other.kill()
        with pytest.raises(ConnectionLost):
            await produce(client, 0, batch(b"b"))
        other.restart()
        while True:
            try:
                base = await produce(client, 0, batch(b"c"))
                break
            except (ApiError, ConnectionLost):
                await asyncio.sleep(0)
        assert base == 1
        await client.close()


async def test_calls_after_close_fail(client: UpstreamClient) -> None:
    await client.close()
    with pytest.raises(ConnectionLost):
        await produce(client, 0, batch(b"a"))
    with pytest.raises(CoterieError):
        await fetch(client, 0, 0)
