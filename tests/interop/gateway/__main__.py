"""Run tests with a gateway as the broker under test.

    python -m tests.interop.gateway build/kafka tests/real_clients -n 0
    python -m tests.interop.gateway build/kafka --nodes 1 --kafka 3.9 tests/real_clients
    python -m tests.interop.gateway build/kafka --upstream HOST:PORT tests/real_clients
    python -m tests.interop.gateway build/kafka --upstream kfake tests/real_clients

It starts three brokers (`upstreams.py`), or one of an older release of Kafka, and
gateway nodes in front of them, and calls pytest with COTERIE_TEST_BOOTSTRAP. Arguments
that are not listed by --help go to pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interop.gateway.nodes import GatewayNodes
from tests.interop.gateway.upstreams import (
    KFAKE,
    NEWEST,
    NO_AUTHORIZER,
    UPSTREAMS,
    running_upstream,
)
from tests.interop.kafka import Unavailable
from tests.interop.versions.nodes import RELEASES, fetch, running
from tests.real_clients.confluent_admin import FOREIGN_BROKER
from tests.real_clients.conftest import OFFSETS_TOPIC, SETTINGS

_UNSUPPORTED: Final = frozenset({"0.11", "1.1", "2.8"})
_OLDER: Final = [
    each.name for each in RELEASES if each.name not in _UNSUPPORTED | {NEWEST}
]


def main(words: list[str]) -> int:
    """Run pytest against a gateway; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.gateway")
    parser.add_argument("jars", type=Path, help="folder of Kafka's jars")
    parser.add_argument("--nodes", type=int, default=3, help="gateway nodes")
    parser.add_argument(
        "--kafka",
        choices=_OLDER,
        help="an older release of Kafka, as one broker",
    )
    parser.add_argument(
        "--upstream",
        default=NEWEST,
        help=f"{', '.join(UPSTREAMS)}, or HOST:PORT,... of brokers that run already",
    )
    options, rest = parser.parse_known_args(words)
    try:
        with (
            tempfile.TemporaryDirectory() as directory,
            _upstream(options, Path(directory)) as (bootstrap, brokers),
        ):
            return _run(bootstrap, brokers, options, rest)
    except Unavailable as reason:
        sys.stderr.write(f"nothing was run: {reason}\n")
        return 0


@contextmanager
def _upstream(
    options: argparse.Namespace, directory: Path
) -> Iterator[tuple[str, int]]:
    """Yield the upstream cluster's addresses and its number of brokers."""
    jars = options.jars.absolute()
    if options.kafka:
        [release] = [each for each in RELEASES if each.name == options.kafka]
        versions = fetch(release, jars.with_name("kafka-versions"))
        with running(release, versions, directory) as bootstrap:
            yield bootstrap, 1
    elif options.upstream in UPSTREAMS:
        with running_upstream(options.upstream, jars, directory) as cluster:
            yield cluster.bootstrap, cluster.bootstrap.count(",") + 1
    else:
        yield options.upstream, options.upstream.count(",") + 1


def _run(
    bootstrap: str, brokers: int, options: argparse.Namespace, words: list[str]
) -> int:
    settings = [
        word
        for name, value in SETTINGS.items()
        for word in ("--set", f"{name}={value}")
    ]
    if options.upstream == KFAKE and not options.kafka:
        settings += NO_AUTHORIZER
    gateway = GatewayNodes(
        bootstrap, "tests", settings, nodes=options.nodes, brokers=brokers
    )
    with gateway:
        environment = {
            **os.environ,
            FOREIGN_BROKER: gateway.bootstrap,
            OFFSETS_TOPIC: f"__coterie_{gateway.name}",
        }
        command = [sys.executable, "-m", "pytest", *words]
        done = subprocess.run(command, check=False, env=environment)
        if done.returncode:
            logs = "\n".join(node.log for node in gateway.nodes)
            sys.stderr.write(f"the end of the logs of the nodes:\n{logs[-20_000:]}\n")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
