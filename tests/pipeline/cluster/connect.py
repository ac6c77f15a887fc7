"""A Spark Connect server on loopback, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.pipeline.cluster.standalone import SPARK_BIN, environment
from tests.pipeline.conftest import SMALL_JOBS
from tests.support.ports import free_ports
from tests.support.waiting import eventually

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_S = 120.0


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Run a server without Coterie on its workers; return its address."""
    (port,) = free_ports(1)
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SMALL_JOBS,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    options = [f"--conf={name}={value}" for name, value in settings.items()]
    output = folder / "connect-server.log"
    with output.open("wb") as log:
        server = subprocess.Popen(
            [
                SPARK_BIN / "spark-submit",
                "--class",
                _SERVER,
                *options,
                "spark-internal",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=folder,
            start_new_session=True,
        )
    try:
        eventually(
            lambda: _listens(server, port, output), within_s=_START_S, expected="port"
        )
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def _listens(server: subprocess.Popen[bytes], port: int, output: Path) -> bool:
    assert server.poll() is None, output.read_text()[-2_000:]
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
