"""An unexpected exception in a request to upstream ends the call with an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions
from coterie.errors import ConnectionLost
from coterie.gateway.upstream.client import UpstreamClient
from coterie.gateway.upstream.transactions import Application, TransactionClient
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

pytestmark = pytest.mark.asyncio

NOWHERE = "127.0.0.1:1"
LIMIT_S = 60


async def _fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a bug")


async def _outcome(call: Callable[[Callable[[Any], None]], None]) -> Any:
    result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    call(result.set_result)
    return await asyncio.wait_for(result, LIMIT_S)


@pytest.mark.parametrize(
    "call",
    [
        lambda client, done: client.producers(0, done),
        lambda client, done: client.add_partition(Application("t", 1, 0), 0, done),
    ],
    ids=["producers", "add_partition"],
)
async def test_a_transaction_request_ends_after_a_bug(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[TransactionClient, Callable[[Any], None]], None],
) -> None:
    for name in ("connection", "metadata", "retrying"):
        monkeypatch.setattr(Cluster, name, _fail)
    client = TransactionClient(NOWHERE, ClientOptions(), "t")
    try:
        assert isinstance(
            await _outcome(lambda done: call(client, done)), ConnectionLost
        )
    finally:
        await client.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda client, done: client.init_producer_id("t", done),
        lambda client, done: client.fetch(0, 0, done),
        lambda client, done: client.produce(0, b"", done),
    ],
    ids=["init_producer_id", "fetch", "produce"],
)
async def test_a_call_to_upstream_ends_after_a_bug(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[UpstreamClient, Callable[[Any], None]], None],
) -> None:
    monkeypatch.setattr(Cluster, "connection", _fail)
    monkeypatch.setattr(Cluster, "call", _fail)
    client = UpstreamClient(NOWHERE, ClientOptions(), "t")
    client._leaders = {0: 1}
    try:
        assert isinstance(
            await _outcome(lambda done: call(client, done)), ConnectionLost
        )
    finally:
        await client.close()


async def test_the_client_starts_while_a_broker_does_not_know_the_new_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    leader = m.MetadataResponsePartition(partition_index=0, leader_id=5)
    answers = [
        m.MetadataResponse(topics=[m.MetadataResponseTopic(name="t", error_code=code)]),
        m.MetadataResponse(
            topics=[m.MetadataResponseTopic(name="t", partitions=[leader])]
        ),
    ]
    found = asyncio.Event()

    async def metadata(*_: Any) -> m.MetadataResponse:
        if len(answers) == 1:
            found.set()
        return answers.pop(0)

    monkeypatch.setattr(Cluster, "metadata", metadata)
    client = UpstreamClient(NOWHERE, ClientOptions(), "t")
    try:
        await client.start()
        await asyncio.wait_for(found.wait(), LIMIT_S)
    finally:
        await client.close()
