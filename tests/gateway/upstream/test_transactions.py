"""Requests about applications' transactions, on servers of several releases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions
from coterie.errors import ApiError
from coterie.gateway.upstream.client import UpstreamClient
from coterie.gateway.upstream.transactions import Application, TransactionClient
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import TRANSACTIONAL, LogRecord, Producer, encode_batch
from coterie.wire.schema import Versions
from tests.broker.server.harness import ThreadServer

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

TOPIC = "__coterie_test"
SHARD = 1


@pytest.fixture(params=["", "3.1"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server, also as the oldest release that is served."""
    with ThreadServer(act_as=request.param) as server:
        yield "{}:{}".format(*server.addresses[0])


async def outcome(call: Callable[[Callable[[Any], None]], None]) -> Any:
    result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    call(result.set_result)
    return await asyncio.wait_for(result, 60)


async def test_a_transaction_has_the_shard_and_its_sequences(bootstrap: str) -> None:
    options = ClientOptions()
    async with AdminClient(bootstrap, options) as admin:
        await admin.topics.create([NewTopic(TOPIC, 2, 1)])
    upstream = UpstreamClient(bootstrap, options, TOPIC)
    client = TransactionClient(bootstrap, options, TOPIC)
    cluster = Cluster(bootstrap, options)
    try:
        await upstream.start()
        begun = await cluster.call(
            m.InitProducerIdRequest(
                transactional_id="app", transaction_timeout_ms=60_000
            ),
            m.InitProducerIdResponse,
        )
        producer = Producer(begun.producer_id, begun.producer_epoch, 0)
        application = Application("app", *producer[:2])
        batch = encode_batch(
            [LogRecord(0, 0, b"k", b"v"), LogRecord(1, 0, b"k", b"v")],
            producer=producer,
            attributes=TRANSACTIONAL,
        )
        assert await outcome(lambda done: client.producers(SHARD, done)) == {}
        assert (
            await outcome(lambda done: client.add_partition(application, SHARD, done))
            is None
        )
        await outcome(
            lambda done: upstream.produce(SHARD, batch, done, transactional_id="app")
        )
        ended = await cluster.call(
            m.EndTxnRequest(
                transactional_id="app",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=True,
            ),
            m.EndTxnResponse,
            wanted=Versions(0, 3),
        )
        assert not ended.error_code
        found = await outcome(lambda done: client.producers(SHARD, done))
        assert found == {producer.producer_id: producer._replace(base_sequence=2)}
        fenced = application._replace(producer_epoch=application.producer_epoch - 1)
        refused = await outcome(lambda done: client.add_partition(fenced, SHARD, done))
        assert isinstance(refused, ApiError)
        assert refused.code in {
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        }
    finally:
        await cluster.close()
        await client.close()
        await upstream.close()
