"""The server in the process of a test, from start to kill and restart."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.server.broker import Broker
from coterie.errors import SettingError
from coterie.testing import Kafka
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually


def connect(kafka: Kafka, node: int = 0) -> WireClient:
    host, _, port = kafka.bootstrap_servers.split(",")[node].partition(":")
    return WireClient(host, int(port))


def coordinator_id(broker: Broker, group: str) -> int:
    node = broker.shard_node(broker.shard_of(group))
    assert node is not None
    return node.node_id


def commit(client: WireClient, offset: int) -> None:
    topic = m.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    response = client.call(
        m.OffsetCommitRequest(
            group_id="billing",
            topics=[m.OffsetCommitRequestTopic(name="orders", partitions=[partition])],
        ),
        8,
    )
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def committed(client: WireClient) -> list[int]:
    request = m.OffsetFetchRequest(
        groups=[m.OffsetFetchRequestGroup(group_id="billing", topics=None)]
    )

    def fetch() -> Any:
        group = client.call(request, 8).groups[0]
        is_loading = group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return None if is_loading else group

    group = eventually(fetch, expected="a loaded group")
    return [
        part.committed_offset for topic in group.topics for part in topic.partitions
    ]


def test_closing_ends_the_thread_and_frees_the_port() -> None:
    before = set(threading.enumerate())
    with Kafka() as kafka, connect(kafka) as client:
        assert client.call(m.ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
        assert set(threading.enumerate()) > before
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        connect(kafka)
    kafka.close()
    with pytest.raises(RuntimeError, match="not running"):
        _ = kafka.server


def test_a_failed_test_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), Kafka(data=tmp_path):
        raise ZeroDivisionError
    assert set(threading.enumerate()) == before


def test_wrong_settings_are_refused_before_the_start() -> None:
    with pytest.raises(SettingError, match=r"num\.partitions"):
        Kafka(settings={"num.partitons": 3})


def test_a_port_in_use_is_an_error_and_leaves_no_thread() -> None:
    with Kafka() as kafka:
        before = set(threading.enumerate())
        with pytest.raises(OSError, match="in use"):
            Kafka(port=int(kafka.bootstrap_servers.rpartition(":")[2])).start()
        assert set(threading.enumerate()) == before


@pytest.mark.parametrize("is_on_disk", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restart_keeps_what_was_durable_and_the_addresses(
    tmp_path: Path, *, is_on_disk: bool, is_killed: bool
) -> None:
    with Kafka(data=tmp_path if is_on_disk else None, nodes=3) as kafka:
        addresses = kafka.bootstrap_servers
        coordinator = kafka.call(
            lambda server: coordinator_id(server.assembly.broker, "billing")
        )
        with connect(kafka, coordinator - 1) as client:
            commit(client, 7)
            if is_killed:
                kafka.kill()
                assert not kafka.is_running
            kafka.restart()
        assert kafka.bootstrap_servers == addresses
        with connect(kafka, coordinator - 1) as client:
            assert committed(client) == [7]


def test_what_was_not_durable_is_lost_by_a_kill() -> None:
    with Kafka() as kafka:
        with connect(kafka) as client:
            commit(client, 7)

            def stage() -> None:
                kafka.server.assembly.broker.log.put("test", b"key", b"value")

            kafka.call(lambda _: stage())
            kafka.kill()
        kafka.restart()
        assert kafka.call(lambda s: s.assembly.broker.log.get("test", b"key")) is None
        with connect(kafka) as client:
            assert committed(client) == [7]


def test_a_close_after_a_kill_loses_the_log() -> None:
    kafka = Kafka()
    kafka.start()
    with connect(kafka) as client:
        commit(client, 7)
    kafka.kill()
    kafka.close()
    kafka.start()
    with connect(kafka) as client:
        assert committed(client) == []
    kafka.close()


def test_a_paused_server_answers_when_it_is_resumed() -> None:
    with Kafka() as kafka, connect(kafka) as client:
        kafka.pause()
        kafka.pause()
        with pytest.raises(RuntimeError, match="paused"):
            kafka.call(lambda server: server)
        answers: list[int] = []
        thread = threading.Thread(
            target=lambda: answers.append(
                client.call(m.ApiVersionsRequest(), 0).error_code
            )
        )
        thread.start()
        assert thread.is_alive()
        assert answers == []
        kafka.resume()
        thread.join(60)
        assert answers == [ErrorCode.NONE]


def test_a_paused_server_can_be_closed() -> None:
    with Kafka() as kafka:
        kafka.pause()
    assert not kafka.is_running


def test_starting_twice_is_an_error() -> None:
    with Kafka() as kafka, pytest.raises(RuntimeError, match="already running"):
        kafka.start()


@pytest.mark.posix
@pytest.mark.parametrize("end", [Kafka.close, Kafka.kill])
def test_a_socket_that_is_accepted_at_the_end_is_closed(
    end: Callable[[Kafka], None],
) -> None:
    kafka = Kafka()
    for _ in range(30):
        kafka.start()
        host, _, port = kafka.bootstrap_servers.partition(":")
        with socket.create_connection((host, int(port))):
            end(kafka)
    kafka.close()
    gc.collect()  # an unclosed socket is a ResourceWarning, which fails the test
