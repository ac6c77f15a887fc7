"""The clusters that tests put gateways in front of, each with three brokers.

| name    | cluster                                                                 |
| ------- | ----------------------------------------------------------------------- |
| 4.4     | Apache Kafka of `pom.xml`, with the classic group protocol only         |
| 4.3     | the same of an older release                                            |
| kfake   | franz-go's cluster for tests, in memory; needs Go and its module proxy  |
| coterie | Coterie's own server, in memory                                         |
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tests.interop.gateway.cluster import ClusterBroker, KafkaCluster
from tests.interop.kafka import BASE, STOP_S, Unavailable, fetch_jars, run
from tests.support.server_process import start_server

NEWEST: Final = "4.4"
_VERSIONS: Final = {NEWEST: None, "4.3": "4.3.1"}
KFAKE: Final = "kfake"
UPSTREAMS: Final = (*_VERSIONS, KFAKE, "coterie")
_PROGRAM: Final = Path(__file__).with_name(KFAKE)
_BUILD_S: Final = 600.0
_NODES: Final = 3


class ForeignCluster(NamedTuple):
    """A cluster whose brokers are not killed. `jars` are those of Kafka's clients."""

    bootstrap: str
    jars: Path
    brokers: Mapping[int, ClusterBroker]


Upstream: TypeAlias = KafkaCluster | ForeignCluster
NO_AUTHORIZER: Final = ("--authorizer", "none")
"""For nodes in front of kfake, which has ACL APIs, no bindings, and no authorizer: by
them, nothing would be allowed."""


@contextmanager
def running_upstream(name: str, jars: Path, directory: Path) -> Iterator[Upstream]:
    """Run a cluster of `UPSTREAMS`; `jars` is the folder of Kafka's jars.

    Raises Unavailable when its programs cannot be had on this machine.
    """
    if name in _VERSIONS:
        version = _VERSIONS[name]
        folder = jars if version is None else jars.with_name(f"kafka-{version}")
        with KafkaCluster(fetch_jars(folder, version), directory) as cluster:
            yield cluster
        return
    clients = fetch_jars(jars)
    if name == KFAKE:
        with _kfake(directory) as bootstrap:
            yield ForeignCluster(bootstrap, clients, {})
        return
    settings = {name: BASE[name] for name in BASE if name.startswith("group.")}
    settings["group.min.session.timeout.ms"] = "1000"
    with start_server("--nodes", str(_NODES), settings=settings) as server:
        yield ForeignCluster(server.bootstrap, clients, {})


@contextmanager
def _kfake(directory: Path) -> Iterator[str]:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / KFAKE
    try:
        build = run(["go", "build", "-C", str(_PROGRAM), "-o", str(program)], _BUILD_S)
    except FileNotFoundError as error:
        raise Unavailable("go is not installed") from error
    if build.exit_code:
        raise Unavailable(f"kfake was not built: {build.stderr}")
    process = subprocess.Popen(
        [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(STOP_S)
        process.stdout.close()
