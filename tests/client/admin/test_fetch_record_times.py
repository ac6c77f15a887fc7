"""Timestamps of records, on a server of three nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.fetch import _timestamp
from coterie.client.admin.topics import NewTopic
from coterie.errors import ApiError, ClientError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BY_NAME = 12


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(node_count=3) as server:
        yield server


@pytest_asyncio.fixture
async def admin(server: ThreadServer) -> AsyncIterator[AdminClient]:
    host, port = server.addresses[0]
    async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
        (await admin.create_topics([NewTopic("t", 2, 1)])).all()
        with server.client() as client:
            for time_ms in (1_000, 2_000):
                batch = batch_of(b"a", b"b", timestamp_ms=time_ms)
                client.call(produce_request(batch, topic="t"), BY_NAME)
        yield admin


@pytest.mark.asyncio
async def test_the_timestamp_of_each_record_is_returned(admin: AdminClient) -> None:
    for offset, time_ms in ((0, 1_000), (1, 1_000), (2, 2_000), (3, 2_000)):
        assert (await admin.record_times({T0: offset})).one(T0) == time_ms


@pytest.mark.asyncio
async def test_each_partition_has_its_own_error(admin: AdminClient) -> None:
    gone = TopicPartition("gone", 0)
    found = await admin.record_times({T0: 3, T1: 0, gone: 0})
    assert found.values == {T0: 2_000}
    with pytest.raises(ClientError, match="t-1 has no record at offset 0"):
        found.one(T1)
    error = found.errors[gone]
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    beyond = (await admin.record_times({T0: 99})).errors[T0]
    assert isinstance(beyond, ApiError)
    assert beyond.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_invalid_batches_are_an_error_of_their_partition() -> None:
    assert isinstance(_timestamp(b"x" * 80, T0, 0), ClientError)
