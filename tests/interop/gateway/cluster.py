"""A cluster of three Apache Kafka brokers on loopback, whose processes tests may kill.

    with KafkaCluster(jars, directory) as cluster:
        cluster.brokers[2].kill()
        cluster.brokers[2].start()

Each is a combined KRaft node (broker and controller) with a small heap. By default the
cluster has the classic group protocol only, as the clusters that a gateway is for. A
dead broker loses its leaders within about four seconds: its time-outs are shorter than
Kafka's.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from tests.interop.kafka import (
    BASE,
    CLUSTER_ID,
    START_S,
    STOP_S,
    java_command,
    listens,
)
from tests.support.ports import free_ports
from tests.support.waiting import eventually

JVM: Final = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=128m",
    "-XX:+ExitOnOutOfMemoryError",
)
_SERVES_S: Final = 3 * START_S
"""The cores may be busy with two brokers, three nodes and their clients."""
_SETTINGS: Final[Mapping[str, str]] = {
    **BASE,
    "group.coordinator.rebalance.protocols": "classic",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAIN",
}


class ClusterBroker:
    """One process of the cluster; it keeps its data and ports over restarts."""

    def __init__(
        self, jars: Path, directory: Path, node_id: int, settings: Mapping[str, str]
    ) -> None:
        directory.mkdir(parents=True)
        self.node_id = node_id
        self.port = int(settings["advertised.listeners"].rpartition(":")[2])
        self._jars = jars
        self._log = directory / "log"
        self._file = directory / "server.properties"
        properties = {**settings, "log.dirs": str(directory / "data")}
        lines = (f"{key}={value}\n" for key, value in properties.items())
        self._file.write_text("".join(lines), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT of the broker."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """The broker's output."""
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""
        return self._process is not None and self._process.poll() is None

    def format(self) -> subprocess.Popen[bytes]:
        """Start to format the data directory; return the process."""
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID]
        command = [*java_command(self._jars, "error"), *tool, "--config"]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [*command, str(self._file)], stdout=log, stderr=subprocess.STDOUT
            )

    def start(self, *, wait: bool = True) -> None:
        """Start the process, and wait until it serves clients."""
        command = [*java_command(self._jars, "warn", JVM), "kafka.Kafka"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._file)], stdout=log, stderr=subprocess.STDOUT
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until the broker serves clients. Raises AssertionError."""
        eventually(
            lambda: not self.is_running or listens(self.port),
            within_s=_SERVES_S,
            expected=f"broker {self.node_id} of Kafka serves",
        )
        assert self.is_running, f"broker {self.node_id} ended\n{self.log}"

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Terminate the process; kill it when it does not stop in time."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)
        self._process = None


class KafkaCluster:
    """Brokers with the ids from 1. `settings` override those of the cluster."""

    def __init__(
        self,
        jars: Path,
        directory: Path,
        *,
        size: int = 3,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.jars = jars
        ports = free_ports(2 * size)  # a broker keeps them while it is down
        ids = range(1, size + 1)
        voters = ",".join(
            f"{node_id}@127.0.0.1:{port}"
            for node_id, port in zip(ids, ports[size:], strict=True)
        )
        self.brokers = {
            node_id: ClusterBroker(
                jars,
                directory / f"broker-{node_id}",
                node_id,
                {
                    **_SETTINGS,
                    **(settings or {}),
                    "node.id": str(node_id),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAIN://127.0.0.1:{plain},"
                    f"CONTROLLER://127.0.0.1:{controller}",
                    "advertised.listeners": f"PLAIN://127.0.0.1:{plain}",
                },
            )
            for node_id, plain, controller in zip(
                ids, ports[:size], ports[size:], strict=True
            )
        }
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.address for broker in self.brokers.values())

    def stop(self) -> None:
        """Stop every process. A majority is killed: the last would wait for it."""
        for broker in self.brokers.values():
            broker.kill()

    def _start(self) -> None:
        brokers: Sequence[ClusterBroker] = tuple(self.brokers.values())
        for process in [broker.format() for broker in brokers]:
            assert process.wait(START_S) == 0, "a data directory was not formatted"
        for broker in brokers:
            broker.start(wait=False)
        for broker in brokers:
            broker.wait()
