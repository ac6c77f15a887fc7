"""`coterie serve` as a process: the ready line, signals, exit codes, restarts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.server_process import start_server


def create_topic(client: WireClient, name: str = "t", partitions: int = 1) -> None:
    topic = m.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    created = client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 6)
    assert created.topics[0].error_code == 0


def commit(client: WireClient, group_id: str, offset: int) -> int:
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata="m"
    )
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[partition])
    response = client.call(m.OffsetCommitRequest(group_id=group_id, topics=[topic]), 8)
    code: int = response.topics[0].partitions[0].error_code
    return code


def fetch(client: WireClient, group_id: str) -> int:
    topic = m.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    while True:
        response = client.call(
            m.OffsetFetchRequest(group_id=group_id, topics=[topic]), 7
        )
        if response.error_code != 14:
            offset: int = response.topics[0].partitions[0].committed_offset
            return offset


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coterie.cli.main", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_ready_line_is_printed_and_a_signal_stops_the_server(number: int) -> None:
    with start_server() as server:
        assert re.fullmatch(
            re.escape(server.READY) + r"127\.0\.0\.1:\d+\n", server.ready_line
        )
        assert server.stop(number) == ""


@pytest.mark.slow
def test_three_nodes_print_three_addresses() -> None:
    with start_server("--nodes", "3") as server:
        assert len(set(server.addresses)) == 3
        with server.client() as client:
            request = m.FindCoordinatorRequest(coordinator_keys=["a", "b", "c", "d"])
            found = client.call(request, 4).coordinators
        ports = {each.node_id: each.port for each in found}
        assert all(ports[at] == server.addresses[at - 1][1] for at in ports)
        assert len(ports) > 1


@pytest.mark.slow
@pytest.mark.parametrize("cleanly", [True, False])
def test_committed_offsets_survive_a_restart_of_the_process(
    tmp_path: Path, cleanly: bool
) -> None:
    with start_server(data=tmp_path) as server:
        with server.client() as client:
            create_topic(client)
            for offset in range(10):
                assert commit(client, "g", offset) == 0
        server.stop() if cleanly else server.kill()
    for _ in range(2):  # the second server reads data from the first
        with start_server(data=tmp_path) as server, server.client() as client:
            assert fetch(client, "g") == 9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partition=3"], "did you mean num.partitions?"),
        (["--set", "num.partitions=0"], "1 to"),
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--nodes", "0"], "1 to"),
        (["--config", "/nonexistent/coterie.toml"], "cannot read"),
    ],
)
def test_invalid_options_are_refused_with_a_message(
    arguments: list[str], message: str
) -> None:
    refused = run(*arguments)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert refused.stdout == ""


@pytest.mark.slow
def test_an_address_in_use_is_an_error() -> None:
    with start_server() as server:
        failed = run("--memory", "--listen", server.bootstrap)
    assert failed.returncode == 1
    assert "coterie serve: " in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.slow
def test_a_data_directory_in_use_is_an_error(tmp_path: Path) -> None:
    with start_server(data=tmp_path):
        failed = run("--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr


@pytest.mark.slow
def test_python_without_assertions_is_refused() -> None:
    refused = subprocess.run(
        [sys.executable, "-O", "-m", "coterie.cli.main", "serve", "--memory"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert refused.returncode == 1
    assert "python -O" in refused.stderr
