"""The Prometheus endpoint of a running server."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections.abc import Iterator

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WAIT_S, ThreadServer, WireClient

KAFKA = "kafka_server_group_coordinator_metrics_"


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(metrics_port=0) as server:
        yield server


def scrape(server: ThreadServer, path: str = "/metrics") -> dict[str, float]:
    """Return every sample by name and labels."""
    port = server.server.metrics_port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text: str = answer.read().decode()
    found = re.findall(r"^(\w+(?:\{[^}]*\})?) ([-+.\deInf]+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def heartbeat(server: ThreadServer, member_id: str, epoch: int) -> None:
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch
    )
    if not epoch:
        request.rebalance_timeout_ms = 10_000
        request.subscribed_topic_names = ["t"]
        request.topic_partitions = []
    with WireClient(*server.addresses[0]) as client:
        assert client.call(request, 1).error_code == 0


@pytest.mark.fact("E26-01b")
def test_groups_are_counted_by_protocol_and_state(server: ThreadServer) -> None:
    before = scrape(server)
    assert before[KAFKA + 'group_count{protocol="consumer"}'] == 0
    heartbeat(server, "m", 0)
    now = scrape(server)
    assert now[KAFKA + 'group_count{protocol="consumer"}'] == 1
    assert now[KAFKA + 'group_count{protocol="classic"}'] == 0
    assert now[KAFKA + 'consumer_group_count{state="stable"}'] == 1
    assert now[KAFKA + "consumer_group_rebalance_count_total"] == 1
    assert now["coterie_group_rebalance_seconds_count"] == 1
    assert now["coterie_flush_seconds_count"] > before["coterie_flush_seconds_count"]
    heartbeat(server, "m", -1)
    left = scrape(server)
    assert left[KAFKA + 'consumer_group_count{state="empty"}'] == 1
    assert left[KAFKA + "consumer_group_rebalance_count_total"] == 1


@pytest.mark.fact("I-08")
def test_renamed_partition_metrics_have_both_names(server: ThreadServer) -> None:
    now = scrape(server, "/")
    for state in ("loading", "active", "failed"):
        label = f'{{state="{state}"}}'
        assert (
            now[KAFKA + "num_partitions" + label]
            == (now[KAFKA + "partition_count" + label])
        )
    assert now[KAFKA + 'num_partitions{state="active"}'] == 50
    assert KAFKA + 'group_count{protocol="generic"}' in now


def test_without_a_port_no_metrics_are_served_or_counted() -> None:
    with ThreadServer() as server:
        assert server.server.metrics_port is None
        assert server.server.assembly.broker.runtime.metrics is None


def test_an_open_metrics_connection_does_not_block_the_stop() -> None:
    with ThreadServer(metrics_port=0) as server:
        idle = socket.create_connection(("127.0.0.1", server.server.metrics_port))
        scrape(server)
    with idle:
        idle.settimeout(WAIT_S)
        assert idle.recv(1) == b""
