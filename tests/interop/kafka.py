"""Apache Kafka: one KRaft node on loopback, and kafka-consumer-groups.sh.

`make interop` fetches the jars from Maven Central with Maven (`pom.xml`).
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.support.ports import free_ports
from tests.support.waiting import eventually

JARS: Final = "COTERIE_TEST_KAFKA_JARS"
"""The environment variable that names the folder of the jars."""
POM: Final = Path(__file__).with_name("pom.xml")
SPARK_KAFKA_JARS: Final = "COTERIE_TEST_SPARK_KAFKA_JARS"
"""The same for Spark's Kafka source; the default is build/spark-kafka."""
_SPARK_KAFKA_POM: Final = Path(__file__).with_name("spark-kafka.xml")
START_S: Final = 90.0
STOP_S: Final = 120.0
FETCH_S: Final = 600.0
CLUSTER_ID: Final = "Y290ZXJpZWludGVyb3BzMQ"
_CONTROLLER: Final = "CONTROLLER"
# A small heap and the C1 compiler start fast and leave the cores to the tests.
_JVM: Final = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=128m",
)
_LOG: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel"
_GROUP_COMMAND: Final = Path(__file__).with_name("GroupCommand.java")

BASE: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": _CONTROLLER,
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "300",
    # Kafka keeps the positions of share groups in another internal topic.
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "log.cleaner.enable": "false",
    # No sweep deletes an empty group in the middle of a test.
    "offsets.retention.check.interval.ms": "3600000",
}


class Unavailable(Exception):
    """An error with the reason why Kafka is unavailable on this machine."""


class CommandOutput(NamedTuple):
    """The output and exit code of a command."""

    stdout: str
    stderr: str
    exit_code: int


def run(
    command: Sequence[str], limit_s: float, stdin: str | None = None
) -> CommandOutput:
    """Run a command and wait for it."""
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s,
        input=stdin,
    )
    return CommandOutput(done.stdout, done.stderr, done.returncode)


def fetch_jars(into: Path, version: str | None = None) -> Path:
    """Fetch Kafka's jars with Maven; return the folder. The default is the version of
    `pom.xml`.

    Raises:
        Unavailable: Java or Maven is missing, or Maven Central cannot be reached.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed")
    wanted = version or _version_of_pom()
    if (into / f"kafka-tools-{wanted}.jar").exists():
        return into
    shutil.rmtree(into, ignore_errors=True)  # the jars of another version
    if not _copied(POM, into, f"-Dkafka.version={wanted}"):
        raise Unavailable("Maven could not fetch its jars")
    return into


def _version_of_pom() -> str:
    found = re.search(r"<kafka.version>(.*)</kafka.version>", POM.read_text("utf-8"))
    assert found is not None
    return found[1]


def version_of(jars: Path) -> str:
    """Return the version of Kafka in a folder of jars."""
    (server,) = jars.glob("kafka_2.13-*.jar")
    return server.stem.rpartition("-")[2]


def fetch_spark_kafka(into: Path) -> bool:
    """Fetch the jars of Spark's Kafka source; return whether they are present."""
    if any(into.glob("spark-sql-kafka-*.jar")):
        return True
    return shutil.which("mvn") is not None and _copied(_SPARK_KAFKA_POM, into)


def _copied(pom: Path, into: Path, *words: str) -> bool:
    goal = "dependency:copy-dependencies"
    command = ["mvn", "-q", "-B", "-f", str(pom), goal, f"-DoutputDirectory={into}"]
    return run([*command, *words], FETCH_S).exit_code == 0


class GroupCommand:
    """kafka-consumer-groups.sh of Apache Kafka in one JVM; see GroupCommand.java."""

    def __init__(self, jars: Path) -> None:
        self._process = subprocess.Popen(
            [*java_command(jars, "warn"), str(_GROUP_COMMAND)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(STOP_S)
        self._process.stdout.close()

    def run(self, *words: str) -> CommandOutput:
        """Run the command with these arguments."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join(words).encode() + b"\n")
        stdin.flush()
        exit_code, out, err = map(int, stdout.readline().split())
        return CommandOutput(
            stdout.read(out).decode(), stdout.read(err).decode(), exit_code
        )


def run_tool(
    jars: Path, tool: str, *words: str, stdin: str | None = None
) -> CommandOutput:
    """Run a command-line tool, given by its class in Apache Kafka or its source."""
    return run([*java_command(jars, "error"), tool, *words], START_S, stdin)


def dump_segments(jars: Path, files: Sequence[Path], *, decoder: bool = True) -> str:
    """Return DumpLogSegments' output for segments, of __consumer_offsets unless without
    its decoder."""
    tool = "org.apache.kafka.tools.DumpLogSegments"
    names = ",".join(map(str, files))
    option = "--offsets-decoder" if decoder else "--print-data-log"
    done = run_tool(jars, tool, option, "--files", names)
    assert done.exit_code == 0, done.stderr
    return done.stdout


class KafkaNode:
    """A broker and controller in one process, for one test session.

    `listeners` maps names to security protocols; each gets a free loopback port, listed
    in `addresses`. `settings` are added to BASE. `jvm` are the options of the broker's
    JVM; benchmarks give it more memory and both compilers. Clients are told to connect
    to the host `advertised`.
    """

    def __init__(
        self,
        jars: Path,
        directory: Path,
        *,
        listeners: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
        format_with: Sequence[str] = (),
        jvm: Sequence[str] = _JVM,
        advertised: str = "127.0.0.1",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._jars = jars
        self._jvm = jvm
        self._log = directory / "log"
        self._file = directory / "server.properties"
        ports = free_ports(len(listeners) + 1)
        self.addresses = {
            name: f"127.0.0.1:{port}"
            for name, port in zip(listeners, ports, strict=False)
        }
        controller = f"127.0.0.1:{ports[-1]}"
        properties = {
            **BASE,
            "log.dirs": str(directory / "data"),
            "controller.quorum.voters": f"1@{controller}",
            "listeners": listed({**self.addresses, _CONTROLLER: controller}),
            "advertised.listeners": listed(
                {
                    name: f"{advertised}:{port}"
                    for name, port in zip(listeners, ports, strict=False)
                }
            ),
            "inter.broker.listener.name": next(iter(listeners)),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}"
                for name, protocol in {**listeners, _CONTROLLER: "PLAINTEXT"}.items()
            ),
            **(settings or {}),
        }
        lines = (f"{key}={value}\n" for key, value in properties.items())
        self._file.write_text("".join(lines), encoding="utf-8")
        self._format(format_with)
        self._process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Terminate the process; kill it when it does not stop in time."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)

    def restart(self) -> None:
        """Stop the process and start it on the same data and ports."""
        self.stop()
        self._process = self._start()

    def _format(self, more: Sequence[str]) -> None:
        command = [
            *java_command(self._jars, "error"),
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            CLUSTER_ID,
            "--config",
            str(self._file),
            *more,
        ]
        done = run(command, START_S)
        if done.exit_code:
            raise AssertionError(
                f"Kafka's folder could not be formatted:\n{done.stderr}"
            )

    def _start(self) -> subprocess.Popen[bytes]:
        java = java_command(self._jars, "warn", self._jvm)
        command = [*java, "kafka.Kafka", str(self._file)]
        with self._log.open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            eventually(
                lambda: process.poll() is not None or all(map(listens, self._ports())),
                within_s=START_S,
                expected="a listening Kafka",
            )
            assert process.poll() is None, "Kafka died at start"
        except AssertionError as error:
            process.kill()
            process.wait(STOP_S)
            raise AssertionError(f"{error}\n{self._log.read_text()}") from None
        return process

    def _ports(self) -> list[int]:
        return [int(each.rpartition(":")[2]) for each in self.addresses.values()]


def java_command(jars: Path, level: str, jvm: Sequence[str] = _JVM) -> list[str]:
    """Return the command of a JVM with the jars, without its class."""
    return ["java", *jvm, f"{_LOG}={level}", "-cp", f"{jars}{os.sep}*"]


def listed(addresses: Mapping[str, str]) -> str:
    """Return addresses by listener in the format of `listeners`."""
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


def listens(port: int) -> bool:
    """Return whether a process accepts connections on a loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
