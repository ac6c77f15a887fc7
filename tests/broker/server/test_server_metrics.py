"""The server's own metrics."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.log.memory import MemoryLog
from coterie.broker.server.listener import Listener
from coterie.broker.server.server_metrics import ServerMetrics
from coterie.errors import LogFull
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from tests.broker.runtime.test_quotas import configure
from tests.broker.server.harness import ThreadServer
from tests.broker.server.secured import handshake, plain_token, users_file
from tests.broker.server.test_metrics import heartbeat, scrape
from tests.support.waiting import eventually


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(metrics_port=0) as server:
        yield server


def test_requests_are_counted_by_api_and_version(server: ThreadServer) -> None:
    with server.client() as client:
        for version in (3, 3, 4):
            client.call(m.ApiVersionsRequest(), version)
        now = scrape(server)
        assert now["coterie_connections"] == 1
    assert now['coterie_requests_total{api="ApiVersions",version="3"}'] == 2
    assert now['coterie_requests_total{api="ApiVersions",version="4"}'] == 1


def test_heartbeats_with_a_stored_response_are_counted(server: ThreadServer) -> None:
    heartbeat(server, "m", 0)
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=1, topic_partitions=[]
    )
    with server.client() as client:
        for _ in range(5):
            assert client.call(request, 1).error_code == 0
    counts = server.server.assembly.broker.counts
    assert sum(counts.heartbeats.values()) > 0, "no response was stored"
    name = 'coterie_requests_total{api="ConsumerGroupHeartbeat",version="1"}'
    assert scrape(server)[name] == 6


def test_throttled_requests_are_counted_by_quota(server: ThreadServer) -> None:
    broker = server.server.assembly.broker
    configure(broker.catalog.client_quotas, {"user": None}, controller_mutation_rate=1)
    topic = m.CreatableTopic(name="many", num_partitions=100, replication_factor=1)
    with server.client() as client:
        client.call(m.CreateTopicsRequest(topics=[topic]), 5)
        client.socket.close()
    with server.client() as client:
        topic.name = "more"
        assert (
            client.call(m.CreateTopicsRequest(topics=[topic]), 5).throttle_time_ms > 0
        )
    metrics = scrape(server)
    assert metrics['coterie_throttled_total{quota="controller_mutation_rate"}'] == 2
    name = 'coterie_throttle_ms_total{quota="controller_mutation_rate"}'
    assert metrics[name] > 0
    assert metrics['coterie_throttled_total{quota="producer_byte_rate"}'] == 0


def test_a_client_cannot_create_entries_of_requests(server: ThreadServer) -> None:
    for front in (b"\x7f\x00\x00\x00", b"\x00\x12\x7f\x00"):
        with server.client() as client:
            client.socket.sendall(b"\0\0\0\x0a" + front + bytes(6))
            client.socket.recv(1_000)
    now = scrape(server)
    requests = [name for name in now if name.startswith("coterie_requests_total")]
    assert requests == []
    closed = 'coterie_connections_closed_total{reason="invalid request"}'
    assert now[closed] == 1


def test_refused_authorizations_are_counted_by_operation() -> None:
    with ThreadServer(metrics_port=0, authorizer=AclAuthorizer()) as server:
        with server.client() as client:
            request = m.HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
            assert client.call(request, 4).error_code
        now = scrape(server)
    name = "coterie_authorization_refused_total"
    assert now[name + '{operation="READ",resource="GROUP"}'] == 1


def test_failed_authentications_are_counted(tmp_path: Path) -> None:
    with ThreadServer(
        metrics_port=0,
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        sasl_users_file=str(users_file(tmp_path)),
        sasl_enabled_mechanisms=("PLAIN",),
        connection_failed_authentication_delay_ms=0,
    ) as server:
        with server.client() as client:
            handshake(client, "PLAIN")
            token = plain_token("alice", "wrong")
            client.call(m.SaslAuthenticateRequest(auth_bytes=token), 2)
            assert client.is_closed()
        now = scrape(server)
    name = "coterie_authentication_failures_total"
    assert now[name + '{reason="SASL_AUTHENTICATION_FAILED"}'] == 1
    assert now['coterie_connections_closed_total{reason="not authenticated"}'] == 1


def test_refused_connections_are_counted() -> None:
    with ThreadServer(metrics_port=0, max_connections=1) as server:
        with server.client() as client, server.client() as refused:
            client.call(m.ApiVersionsRequest(), 3)
            assert refused.is_closed()
            now = scrape(server)
        assert now["coterie_connections_refused_total"] == 1


def test_failed_flushes_and_reloaded_shards_are_counted() -> None:
    fails: list[LogFull] = []

    def before_write() -> None:
        if fails:
            raise fails.pop()

    with ThreadServer(metrics_port=0, log=MemoryLog(before_write)) as server:
        before = scrape(server)
        assert before["coterie_flush_failures_total"] == 0
        fails.append(LogFull("no space left"))
        request = m.ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        with server.client() as client:
            assert client.call(request, 1).error_code
        now = scrape(server)
    assert now["coterie_flush_failures_total"] == 1
    assert now["coterie_shard_reloads_total"] == 1


def test_the_memory_of_connections_is_measured(server: ThreadServer) -> None:
    with server.client() as client:
        client.call(m.ApiVersionsRequest(), 3)
        size = 1_000_000
        header = struct.pack(">ihhih", size, 0, 3, 1, -1)
        client.socket.sendall(header + bytes(size // 2))  # half a request

        def held() -> bool:
            return scrape(server)["coterie_connection_bytes"] >= size // 2

        eventually(held, expected="half a request is counted")
        now = scrape(server)
        assert now["coterie_connections_paused"] == 0
        assert "coterie_exhausted_turns_total" in now


def test_the_process_and_the_event_loop_are_measured(server: ThreadServer) -> None:
    now = scrape(server)
    assert now["process_resident_memory_bytes"] > 0
    assert "coterie_event_loop_delay_seconds_count" in now
    assert now["coterie_event_loop_long_turns_total"] >= 0


def test_the_size_of_the_log_is_that_of_its_files(
    server: ThreadServer, tmp_path: Path
) -> None:
    (tmp_path / "coterie.db").write_bytes(bytes(1_000))
    (tmp_path / "segments").mkdir()
    (tmp_path / "segments" / "0.log").write_bytes(bytes(234))
    listener = server.server._listener
    assert isinstance(listener, Listener)
    broker = server.server.assembly.broker
    made = ServerMetrics(CollectorRegistry(), broker, listener.connections, tmp_path)
    made.measure_disk()
    values = {each.name: each.samples for each in made.collect()}
    assert values["coterie_log_bytes"][0].value == 1_234
    assert values["coterie_disk_free_bytes"][0].value > 0


def test_metrics_are_served_without_the_data_directory(
    server: ThreadServer, tmp_path: Path
) -> None:
    listener = server.server._listener
    assert isinstance(listener, Listener)
    broker = server.server.assembly.broker
    made = ServerMetrics(
        CollectorRegistry(), broker, listener.connections, tmp_path / "none"
    )
    names = {each.name for each in made.collect()}
    assert "coterie_connections" in names
    assert "coterie_log_bytes" not in names
