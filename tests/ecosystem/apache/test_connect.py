"""A Connect worker that reads a file exactly once, killed in the middle."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.ecosystem.apache.processes import (
    JavaProcess,
    committed_values,
    create_topics,
)
from tests.support.ports import free_ports
from tests.support.server_process import ServerProcess, start_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.apache_tools]
WORKER: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
CONNECTOR: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
LINES: Final = 6_000
UNREAD: Final = 1_000
"""Lines at the end of the file, of which the connector keeps some in its buffer."""
REQUEST_S: Final = 60.0
STEP_S: Final = 300.0


class Worker:
    """A distributed worker, which may be killed and started again."""

    def __init__(self, jars: Path, folder: Path, bootstrap: str) -> None:
        (self._port,) = free_ports(1)
        self._jars, self._log = jars, folder / "connect.log"
        self._file = folder / "worker.properties"
        converter = "org.apache.kafka.connect.storage.StringConverter"
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": "workers",
            "exactly.once.source.support": "enabled",
            "key.converter": converter,
            "value.converter": converter,
            "offset.storage.topic": "connect-offsets",
            "config.storage.topic": "connect-configs",
            "status.storage.topic": "connect-status",
            "offset.storage.replication.factor": "1",
            "config.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "listeners": f"http://127.0.0.1:{self._port}",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        lines = (f"{key}={value}\n" for key, value in properties.items())
        self._file.write_text("".join(lines), encoding="utf-8")

    def start(self) -> JavaProcess:
        """Start it, without waiting for its REST interface."""
        return JavaProcess(self._jars, self._log, WORKER, str(self._file))

    def create(self, name: str, config: dict[str, str]) -> None:
        """Create a connector once the worker answers."""
        body = json.dumps({"name": name, "config": config})

        def is_created() -> bool:
            connection = http.client.HTTPConnection(
                "127.0.0.1", self._port, timeout=REQUEST_S
            )
            try:
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/connectors", body, headers)
                # 409 while the group of workers rebalances, or when an earlier
                # request was carried out and its answer was lost.
                return connection.getresponse().status == http.client.CREATED
            except OSError:
                return False
            finally:
                connection.close()

        eventually(is_created, within_s=STEP_S, expected="a connector")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Run a server with data on disk, and the topic."""
    with start_server(data=tmp_path / "data", settings=SETTINGS) as running:
        create_topics(running.bootstrap, "lines", partitions=1)
        yield running


def wait_for_lines(bootstrap: str, count: int) -> list[str]:
    """Wait until the topic has this many records at least; return their values."""
    return eventually(
        lambda: (
            values
            if len(values := committed_values(bootstrap, "lines")) >= count
            else []
        ),
        within_s=STEP_S,
        expected=f"{count} lines",
    )


def source(file: Path) -> dict[str, str]:
    """Return the connector of a file; a transaction has ten lines."""
    return {
        "connector.class": CONNECTOR,
        "tasks.max": "1",
        "file": str(file),
        "topic": "lines",
        "batch.size": "10",
        "exactly.once.support": "required",
    }


def write_lines(file: Path) -> list[str]:
    """Write numbered lines; return those that the connector must produce."""
    lines = [f"line {number}" for number in range(LINES + UNREAD)]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines[:LINES]


def test_each_line_is_a_record_once_when_the_worker_is_killed(
    jars: Path, tmp_path: Path, server: ServerProcess
) -> None:
    lines = write_lines(tmp_path / "lines.txt")
    worker = Worker(jars, tmp_path, server.bootstrap)
    with worker.start() as process:
        worker.create("reader", source(tmp_path / "lines.txt"))
        wait_for_lines(server.bootstrap, 1)
        process.kill()
    before = committed_values(server.bootstrap, "lines")
    assert len(before) < LINES, "it was killed too late to show anything"
    with worker.start():
        values = wait_for_lines(server.bootstrap, LINES)
    assert values[:LINES] == lines


def test_each_line_is_a_record_once_when_the_server_is_killed(
    jars: Path, tmp_path: Path, server: ServerProcess
) -> None:
    lines = write_lines(tmp_path / "lines.txt")
    worker = Worker(jars, tmp_path, server.bootstrap)
    with worker.start():
        worker.create("reader", source(tmp_path / "lines.txt"))
        before = wait_for_lines(server.bootstrap, 1)
        server.kill()
        with start_server(
            data=tmp_path / "data", settings=SETTINGS, listen=server.bootstrap
        ) as again:
            values = wait_for_lines(again.bootstrap, LINES)
    assert len(before) < LINES, "it was killed too late to show anything"
    assert values[:LINES] == lines
