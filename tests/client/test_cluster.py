"""The client's view of a cluster: brokers, coordinators and topic names."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import replace
from typing import Any

import pytest

from coterie.client.cluster import Cluster
from coterie.errors import (
    ApiError,
    ClientError,
    ConnectionLost,
    MalformedFrame,
    RequestTimedOut,
)
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.scripted_broker import (
    BRIEF,
    HANG_UP,
    IMPATIENT,
    OPTIONS,
    SILENCE,
    ScriptedBroker,
    in_turn,
)

pytestmark = pytest.mark.asyncio


def not_found(code: ErrorCode) -> m.FindCoordinatorResponse:
    return m.FindCoordinatorResponse(
        coordinators=[m.Coordinator(key="g", node_id=-1, port=-1, error_code=code)]
    )


def metadata_of(*brokers: ScriptedBroker) -> m.MetadataResponse:
    """Return metadata with the given brokers."""
    return m.MetadataResponse(
        brokers=[
            m.MetadataResponseBroker(
                node_id=broker.node_id, host="127.0.0.1", port=broker.port
            )
            for broker in brokers
        ]
    )


@pytest.mark.parametrize("bootstrap", ["", " , ", []])
async def test_a_cluster_requires_an_address(bootstrap: Any) -> None:
    with pytest.raises(ClientError, match="no bootstrap address"):
        Cluster(bootstrap, OPTIONS)


async def test_any_reachable_bootstrap_address_is_used() -> None:
    async with ScriptedBroker() as gone:
        pass
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.METADATA] = in_turn(m.MetadataResponse())
        cluster = Cluster([gone.bootstrap, broker.bootstrap], OPTIONS)
        assert await cluster.metadata([]) == m.MetadataResponse()
        await cluster.close()


async def test_all_unreachable_addresses_are_reported() -> None:
    async with ScriptedBroker(1) as one, ScriptedBroker(2) as other:
        pass
    cluster = Cluster(f"{one.bootstrap},{other.bootstrap}", OPTIONS)
    with pytest.raises(ConnectionLost, match=rf"{one.port}.*{other.port}"):
        await cluster.metadata(None)


async def test_a_connection_is_reused_and_reopened_after_a_loss() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.METADATA] = in_turn(
            m.MetadataResponse(), HANG_UP, m.MetadataResponse()
        )
        cluster = Cluster(broker.bootstrap, OPTIONS)
        await cluster.metadata([])
        assert broker.connection_count == 1
        with pytest.raises(ConnectionLost):
            await cluster.metadata([])
        await cluster.metadata([])
        assert broker.connection_count == 2
        await cluster.close()


def accepted(listener: socket.socket) -> int:
    """Accept and close what has connected; return the number."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


async def test_callers_that_wait_for_a_hanging_broker_share_its_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        bootstrap = "{}:{}".format(*listener.getsockname())
        cluster = Cluster(bootstrap, replace(OPTIONS, connect_timeout_ms=100))
        calls = [cluster.connection() for _ in range(20)]
        failures = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(each, ConnectionLost) for each in failures)
        assert accepted(listener) == 1
        with pytest.raises(ConnectionLost):
            await cluster.connection()
        assert accepted(listener) == 1, "a later caller tries again"
        await cluster.close()


async def test_the_address_of_a_node_is_fetched_from_metadata() -> None:
    async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
        one.answers[ApiKey.METADATA] = in_turn(metadata_of(one, two))
        two.answers[ApiKey.HEARTBEAT] = in_turn(m.HeartbeatResponse(error_code=25))
        cluster = Cluster(one.bootstrap, OPTIONS)
        answer = await cluster.call(
            m.HeartbeatRequest(), m.HeartbeatResponse, node_id=2
        )
        assert answer.error_code == 25
        with pytest.raises(ConnectionLost, match="no node 3"):
            await cluster.call(m.HeartbeatRequest(), m.HeartbeatResponse, node_id=3)
        await cluster.close()


@pytest.mark.parametrize("version", [3, 6])
async def test_a_coordinator_is_looked_up_once_in_old_and_new_versions(
    version: int,
) -> None:
    async with ScriptedBroker() as broker:
        broker.versions[ApiKey.FIND_COORDINATOR] = Versions(0, version)
        broker.answers[ApiKey.HEARTBEAT] = in_turn(m.HeartbeatResponse())
        cluster = Cluster(broker.bootstrap, OPTIONS)
        for _ in range(2):
            await cluster.call_coordinator(
                "g", m.HeartbeatRequest(), m.HeartbeatResponse
            )
        (asked,) = broker.asked_of(m.FindCoordinatorRequest)
        assert asked.key or asked.coordinator_keys == ["g"]
        assert broker.connection_count == 1
        await cluster.close()


@pytest.mark.fact("E7-70", "E7-71")
async def test_a_missing_coordinator_is_looked_up_again() -> None:
    async with ScriptedBroker() as broker:
        codes = [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        ]
        there = broker.found(m.FindCoordinatorRequest(coordinator_keys=["g"]))
        answers = [*map(not_found, codes), HANG_UP, there]
        broker.answers[ApiKey.FIND_COORDINATOR] = in_turn(*answers)
        cluster = Cluster(broker.bootstrap, OPTIONS)
        connection = await cluster.coordinator("g")
        assert connection.address.port == broker.port
        assert len(broker.asked) == 5
        await cluster.close()


async def test_an_authorization_error_of_find_coordinator_is_final() -> None:
    async with ScriptedBroker() as broker:
        refused = not_found(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        broker.answers[ApiKey.FIND_COORDINATOR] = in_turn(refused)
        cluster = Cluster(broker.bootstrap, OPTIONS)
        with pytest.raises(ApiError, match="group g is not authorized"):
            await cluster.coordinator("g")
        assert len(broker.asked) == 1
        await cluster.close()


async def test_a_find_coordinator_response_about_another_group_is_malformed() -> None:
    async with ScriptedBroker() as broker:
        other = m.FindCoordinatorResponse(coordinators=[m.Coordinator(key="other")])
        broker.answers[ApiKey.FIND_COORDINATOR] = lambda _: other
        cluster = Cluster(broker.bootstrap, OPTIONS)
        with pytest.raises(MalformedFrame, match="omits group g"):
            await cluster.coordinator("g")
        await cluster.close()


async def test_retries_end_with_the_last_error() -> None:
    async with ScriptedBroker() as broker:
        missing = not_found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        broker.answers[ApiKey.FIND_COORDINATOR] = in_turn(missing)
        cluster = Cluster(broker.bootstrap, BRIEF)
        with pytest.raises(ApiError) as caught:
            await cluster.coordinator("g")
        assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await cluster.close()


async def test_a_lost_coordinator_is_looked_up_again() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = in_turn(
            HANG_UP, SILENCE, m.HeartbeatResponse()
        )
        cluster = Cluster(broker.bootstrap, OPTIONS)
        for error, options in ((ConnectionLost, OPTIONS), (RequestTimedOut, IMPATIENT)):
            connection = await cluster.coordinator("g")
            connection._options = options
            with pytest.raises(error):
                await cluster.call_coordinator(
                    "g", m.HeartbeatRequest(), m.HeartbeatResponse
                )
        await cluster.call_coordinator("g", m.HeartbeatRequest(), m.HeartbeatResponse)
        assert len(broker.asked_of(m.FindCoordinatorRequest)) == 3
        await cluster.close()


@pytest.mark.fact("E7-82")
async def test_topic_names_are_requested_by_id_and_unknown_ids_omitted() -> None:
    known, unknown = b"k" * 16, b"u" * 16
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.METADATA] = in_turn(
            m.MetadataResponse(
                topics=[
                    m.MetadataResponseTopic(name="orders", topic_id=known),
                    m.MetadataResponseTopic(
                        name=None,
                        topic_id=unknown,
                        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    ),
                ]
            )
        )
        cluster = Cluster(broker.bootstrap, OPTIONS)
        assert await cluster.topic_names([known, unknown]) == {known: "orders"}
        (asked,) = broker.asked_of(m.MetadataRequest)
        assert [(each.name, each.topic_id) for each in asked.topics] == [
            (None, known),
            (None, unknown),
        ]
        assert not asked.allow_auto_topic_creation
        await cluster.close()


async def test_a_metadata_error_is_raised() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.METADATA] = in_turn(
            m.MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        )
        cluster = Cluster(broker.bootstrap, OPTIONS)
        with pytest.raises(ApiError, match="refused: REBOOTSTRAP_REQUIRED"):
            await cluster.metadata(["orders"])
        await cluster.close()


async def test_a_connection_opened_during_close_is_closed() -> None:
    async with ScriptedBroker() as broker:
        cluster = Cluster(broker.bootstrap, OPTIONS)
        asking = asyncio.create_task(cluster.connection())
        await broker.until_connected()
        await cluster.close()
        connection = await asking
        assert not connection.is_open


async def test_a_closed_cluster_opens_no_connection() -> None:
    async with ScriptedBroker() as broker:
        cluster = Cluster(broker.bootstrap, OPTIONS)
        await cluster.coordinator("g")
        await cluster.close()
        with pytest.raises(ConnectionLost, match="the client is closed"):
            await cluster.coordinator("g")


async def test_connecting_to_a_new_cluster_is_retried_for_first_contact_ms() -> None:
    async with ScriptedBroker() as broker:
        pass
    options = replace(OPTIONS, api_timeout_ms=600_000, first_contact_ms=1)
    cluster = Cluster(broker.bootstrap, options)
    with pytest.raises(ConnectionLost, match="connection refused"):
        await cluster.coordinator("g")


async def test_reconnecting_to_a_cluster_is_retried_for_the_whole_call() -> None:
    async with ScriptedBroker() as broker:
        cluster = Cluster(broker.bootstrap, replace(OPTIONS, first_contact_ms=0))
        await cluster.connection()
        found = m.Coordinator(
            key="g", node_id=broker.node_id, host="127.0.0.1", port=broker.port
        )
        broker.answers[ApiKey.FIND_COORDINATOR] = in_turn(
            HANG_UP, m.FindCoordinatorResponse(coordinators=[found])
        )
        connection = await cluster.coordinator("g")
        assert connection.is_open
        await cluster.close()
