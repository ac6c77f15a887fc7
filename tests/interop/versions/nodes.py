"""Brokers of several releases of Apache Kafka, from Maven Central, one at a time.

Releases before 2.8 need a ZooKeeper, which runs in a second small JVM. Java 17 runs all
of them: Kafka 0.11 needs the classes of `javax.xml.bind`, which Java 11 removed, so the
library is on its class path.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.interop.kafka import (
    START_S,
    STOP_S,
    KafkaNode,
    Unavailable,
    fetch_jars,
    run,
)
from tests.support.ports import free_ports
from tests.support.waiting import eventually

FETCH_S: Final = 600.0
_JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=128m",
)


class Release(NamedTuple):
    """A release of Kafka, and how it is fetched and started."""

    name: str
    version: str
    scala: str
    has_zookeeper: bool


RELEASES: Final = (
    Release("0.11", "0.11.0.3", "2.12", has_zookeeper=True),
    Release("1.1", "1.1.1", "2.12", has_zookeeper=True),
    Release("2.8", "2.8.2", "2.13", has_zookeeper=True),
    Release("3.9", "3.9.1", "2.13", has_zookeeper=False),
    Release("4.3", "4.3.1", "2.13", has_zookeeper=False),
    Release("4.4", "4.4.0", "2.13", has_zookeeper=False),
)

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>coterie</groupId><artifactId>versions</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY: Final = """\
<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency>
"""
_LOG4J: Final = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %c %m%n
"""


def fetch(release: Release, into: Path) -> Path:
    """Fetch the jars of a release with Maven; return their folder. Raises
    Unavailable."""
    if release.name == "4.4":
        return fetch_jars(into.parent / "kafka")
    folder = into / release.name
    if any(folder.glob("kafka_*.jar")):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    dependencies = [
        ("org.apache.kafka", f"kafka_{release.scala}", release.version),
        *(
            (
                ("org.slf4j", "slf4j-log4j12", "1.7.25"),
                ("log4j", "log4j", "1.2.17"),
                ("javax.xml.bind", "jaxb-api", "2.3.1"),
            )
            if release.has_zookeeper
            else (("org.slf4j", "slf4j-simple", "1.7.36"),)
        ),
    ]
    pom = folder / "pom.xml"
    text = "".join(_DEPENDENCY.format(*each) for each in dependencies)
    pom.write_text(_POM.format(dependencies=text), encoding="utf-8")
    goal = "dependency:copy-dependencies"
    command = ["mvn", "-q", "-B", "-f", str(pom), goal, f"-DoutputDirectory={folder}"]
    try:
        done = run(command, FETCH_S)
    except FileNotFoundError as error:
        raise Unavailable("mvn is not installed") from error
    if done.exit_code:
        raise Unavailable(f"Maven could not fetch Kafka {release.version}")
    return folder


@contextmanager
def running(release: Release, jars: Path, directory: Path) -> Iterator[str]:
    """Run a node of the release; yield its HOST:PORT."""
    if release.has_zookeeper:
        with _zookeeper_node(jars, directory) as bootstrap:
            yield bootstrap
        return
    listeners = {"PLAINTEXT": "PLAINTEXT"}
    with KafkaNode(jars, directory, listeners=listeners) as node:
        yield node.addresses["PLAINTEXT"]


@contextmanager
def _zookeeper_node(jars: Path, directory: Path) -> Iterator[str]:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "log4j.properties").write_text(_LOG4J, encoding="utf-8")
    keeper, broker = free_ports(2)
    zookeeper = {
        "dataDir": directory / "zookeeper",
        "clientPort": keeper,
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
    }
    settings = {
        "broker.id": 1,
        "zookeeper.connect": f"127.0.0.1:{keeper}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "log.dirs": directory / "data",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        "controlled.shutdown.enable": "false",
        "log.cleaner.enable": "false",
        "delete.topic.enable": "true",  # the default since 1.0
    }
    peer = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    with (
        _jvm(jars, directory, "64m", peer, zookeeper, keeper),
        _jvm(jars, directory, "512m", "kafka.Kafka", settings, broker),
    ):
        yield f"127.0.0.1:{broker}"


@contextmanager
def _jvm(
    jars: Path,
    directory: Path,
    heap: str,
    main: str,
    settings: Mapping[str, object],
    port: int,
) -> Iterator[None]:
    """Run a class with a file of settings, and wait until it listens."""
    name = main.rpartition(".")[2]
    file = directory / f"{name}.properties"
    lines = (f"{key}={value}\n" for key, value in settings.items())
    file.write_text("".join(lines), encoding="utf-8")
    log4j = f"-Dlog4j.configuration=file:{directory}/log4j.properties"
    command = ["java", f"-Xmx{heap}", *_JVM, log4j, "-cp", f"{jars}/*", main]
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, str(file)], stdout=output, stderr=output)
    try:
        eventually(
            lambda: process.poll() is not None or _listens(port),
            within_s=START_S,
            expected=f"a listening {main}",
        )
        assert process.poll() is None, f"{main} died:\n{log.read_text()}"
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
