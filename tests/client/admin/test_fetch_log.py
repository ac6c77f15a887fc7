"""Fetched batches, on a server and on scripted brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.fetch import AbortedTxn, FetchResult, fetch_log
from coterie.client.admin.topics import NewTopic
from coterie.client.cluster import Cluster
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import split_batches
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.admin.scripted_cluster import ScriptedCluster
from tests.client.scripted_broker import OPTIONS

T0 = TopicPartition("t", 0)
BY_NAME = 12


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(node_count=2) as server:
        yield server


@pytest_asyncio.fixture
async def cluster(server: ThreadServer) -> AsyncIterator[Cluster]:
    host, port = server.addresses[0]
    async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
        (await admin.create_topics([NewTopic("t", 1, 1)])).all()
    with server.client() as client:
        for _ in range(3):
            client.call(produce_request(batch_of(b"a", b"b"), topic="t"), BY_NAME)
    found = Cluster(f"{host}:{port}", OPTIONS)
    yield found
    await found.close()


@pytest.mark.asyncio
async def test_the_first_returned_batch_contains_the_offset(
    cluster: Cluster,
) -> None:
    fetched = await fetch_log(cluster, T0, 3)
    assert [header.base_offset for header, _ in split_batches(fetched.data)] == [2, 4]
    assert fetched[1:] == ((), 0, 6, 6, False)


@pytest.mark.asyncio
async def test_at_least_one_batch_is_returned_with_any_limit(
    cluster: Cluster,
) -> None:
    fetched = await fetch_log(cluster, T0, 0, bytes_max=1)
    assert [header.base_offset for header, _ in split_batches(fetched.data)] == [0]


@pytest.mark.asyncio
async def test_an_offset_after_the_end_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as caught:
        await fetch_log(cluster, T0, 99)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def answer(
    data: bytes = b"", code: int = 0, throttle_time_ms: int = 0
) -> m.FetchResponse:
    part = m.PartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=9,
        last_stable_offset=7,
        log_start_offset=2,
        aborted_transactions=[m.AbortedTransaction(producer_id=5, first_offset=3)],
        records=data,
    )
    topic = m.FetchableTopicResponse(topic="t", partitions=[part])
    return m.FetchResponse(responses=[topic], throttle_time_ms=throttle_time_ms)


@pytest.mark.asyncio
async def test_a_fetch_is_retried_on_the_new_leader() -> None:
    async with ScriptedCluster(2) as nodes:
        nodes.lead(1, "t", 0)

        def moved(_: m.FetchRequest) -> m.FetchResponse:
            nodes.lead(2, "t", 0)
            return answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)

        nodes.brokers[0].answers[ApiKey.FETCH] = moved
        nodes.brokers[1].answers[ApiKey.FETCH] = lambda _: answer(b"x", 0, 1)
        found = await fetch_log(nodes.client(), T0, 4, committed_only=True)
    assert found == FetchResult(b"x", (AbortedTxn(5, 3),), 2, 7, 9, is_throttled=True)


@pytest.mark.asyncio
async def test_committed_only_fetches_with_read_committed() -> None:
    asked: list[int] = []
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)

        def note(request: m.FetchRequest) -> m.FetchResponse:
            asked.append(request.isolation_level)
            return answer()

        nodes.brokers[0].answers[ApiKey.FETCH] = note
        client = nodes.client()
        await fetch_log(client, T0, 4, committed_only=True)
        await fetch_log(client, T0, 4)
    assert asked == [1, 0]
