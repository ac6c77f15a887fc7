"""The log of the shards on Apache Kafka: fencing, taking over, loading."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from benchmarks.gateway.takeover import PARTITIONS_A_COMMIT, ShardNode
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.configs import ConfigResource
from coterie.client.options import ClientOptions
from coterie.errors import ApiError, CoterieError
from coterie.gateway.upstream.client import UpstreamClient
from coterie.gateway.upstream.topic import ShardsTopic, open_topic
from coterie.wire.configs import ConfigResourceType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, Producer, encode_batch
from tests.interop.node import variable_of

pytestmark = pytest.mark.asyncio

PLAIN = variable_of("PLAIN")
DEADLINE_S = 120


@pytest.fixture
def bootstrap() -> str:
    if PLAIN not in os.environ:
        pytest.skip("no Apache Kafka")
    return os.environ[PLAIN]


@pytest_asyncio.fixture
async def topic(bootstrap: str) -> AsyncIterator[ShardsTopic]:
    name = f"__coterie_log-{secrets.token_hex(4)}"
    async with AdminClient(bootstrap) as admin:
        yield await open_topic(admin, name, partition_count=4)
        await admin.topics.delete([name])


@pytest_asyncio.fixture
async def client(bootstrap: str, topic: ShardsTopic) -> AsyncIterator[UpstreamClient]:
    client = UpstreamClient(bootstrap, ClientOptions(), topic.name)
    await client.start()
    yield client
    await client.close()


async def outcome(call: Callable[[Callable[[Any], None]], None]) -> Any:
    """Return what a call passes to `done`, or raise it.

    It is repeated after retriable errors: Metadata has the leaders of a new topic
    before they lead.
    """
    async with asyncio.timeout(DEADLINE_S):
        while True:
            result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            call(result.set_result)
            value = await result
            if not isinstance(value, CoterieError):
                return value
            if not (isinstance(value, ApiError) and value.code.retriable):
                raise value


async def test_the_topic_is_compacted_and_replicated(
    bootstrap: str, topic: ShardsTopic
) -> None:
    async with AdminClient(bootstrap) as admin:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
        described = (await admin.configs.describe([resource])).one(resource)
        configs = {each.name: each.value for each in described}
        assert configs["cleanup.policy"] == "compact"
        assert configs["unclean.leader.election.enable"] == "false"
        again = await open_topic(admin, topic.name, partition_count=9)
    assert again == topic


async def test_an_earlier_owner_is_fenced_by_the_first_batch_of_the_next(
    client: UpstreamClient, topic: ShardsTopic
) -> None:
    async def init() -> Producer:
        producer = await outcome(lambda done: client.init_producer_id(topic.name, done))
        assert isinstance(producer, Producer)
        return producer

    async def produce(producer: Producer, sequence: int, value: bytes) -> int:
        stamped = producer._replace(base_sequence=sequence)
        batch = encode_batch([LogRecord(0, 0, b"k", value)], producer=stamped)
        offset = await outcome(lambda done: client.produce(0, batch, done))
        assert isinstance(offset, int)
        return offset

    older = await init()
    assert await produce(older, 0, b"barrier") == 0
    newer = await init()
    assert newer[:2] == (older.producer_id, older.producer_epoch + 1)
    assert await produce(older, 1, b"before the barrier: accepted") == 1
    assert await produce(newer, 0, b"barrier") == 2
    with pytest.raises(ApiError) as refused:
        await produce(older, 2, b"after the barrier: refused")
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await produce(newer, 1, b"the next owner's") == 3
    assert await produce(newer, 1, b"the next owner's") == 3, "a repetition"
    with pytest.raises(ApiError) as refused:
        await produce(newer, 7, b"a gap")
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_shard_that_is_taken_over_has_all_acknowledged_commits(
    bootstrap: str, topic: ShardsTopic
) -> None:
    groups = 40
    first = ShardNode(bootstrap, topic)
    await first.own()
    commits = [first.commit(f"g-{at}", at) for at in range(groups)]
    await asyncio.wait_for(asyncio.gather(*commits), DEADLINE_S)
    second = ShardNode(bootstrap, topic)
    await second.own()
    assert second.offsets() == groups * PARTITIONS_A_COMMIT
    with pytest.raises(AssertionError, match="NOT_COORDINATOR"):
        # The first node does not know of it yet.
        await asyncio.wait_for(first.commit("g-1", 7), DEADLINE_S)
    await second.commit("g-1", 8)
    await first.stop()
    await second.stop()


@pytest.mark.slow
async def test_many_offsets_are_loaded(bootstrap: str, topic: ShardsTopic) -> None:
    first = ShardNode(bootstrap, topic)
    await first.own()
    await asyncio.wait_for(first.commit_all(1_000, 1), DEADLINE_S)
    await first.stop()
    second = ShardNode(bootstrap, topic)
    await asyncio.wait_for(second.own(), DEADLINE_S)
    assert second.offsets() == 1_000 * PARTITIONS_A_COMMIT
    await second.stop()
