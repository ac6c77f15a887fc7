"""Fixtures that run each test against Coterie and against Apache Kafka.

`make interop` passes the address of a Kafka node in the environment; without it the
tests run against Coterie alone. Where `make test` runs a test against Coterie, `make
interop` runs it against Kafka alone.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import pytest

from tests.pipeline.conftest import spark  # noqa: F401 - a fixture
from tests.real_clients.confluent_admin import create_topic
from tests.support.server_process import start_server

from .kafka import BASE, JARS, CommandOutput, GroupCommand
from .kafka import run as run_to_end
from .node import variable_of
from .sasl_listener import SaslListener, start_with_sasl

KAFKA: Final = variable_of("PLAIN")
KINDS: Final = ("coterie", "kafka") if KAFKA in os.environ else ("coterie",)
# These tests run tools or a node of Apache Kafka, so they need its jars: `make test`
# leaves them out, like single tests with the mark `apache_tools`.
APACHE_TOOLS: Final = [
    "test_admin_tools.py",
    "test_dump_log_segments.py",
    "test_kafka_consumer_groups.py",
    "test_pipeline_truth.py",
    "test_share_and_streams.py",
]
collect_ignore = [] if KAFKA in os.environ else APACHE_TOOLS
COMMAND_S: Final = 60.0
# Settings of BASE that Coterie has too, so that both servers behave the same.
SHARED: Final = tuple(name for name in BASE if name.startswith("group."))


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what this run cannot do, or what another run does."""
    if JARS not in os.environ:
        for item in items:
            if item.get_closest_marker("apache_tools"):
                item.add_marker(pytest.mark.skip("needs the jars of Apache Kafka"))
    if KAFKA in os.environ:
        elsewhere = {item for item in items if _is_in_make_test(item)}
        config.hook.pytest_deselected(items=list(elsewhere))
        items[:] = [item for item in items if item not in elsewhere]


def _is_in_make_test(item: pytest.Item) -> bool:
    """Return whether a test of this folder runs against Coterie without the jars."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    brokers = [item.callspec.params.get(name) for name in ("broker", "sasl")]
    return (
        "coterie" in brokers
        and item.path.name not in APACHE_TOOLS
        and item.get_closest_marker("apache_tools") is None
    )


class Broker(NamedTuple):
    """A running server of Coterie or Apache Kafka."""

    kind: str
    bootstrap: str


class Command(Protocol):
    """A function that runs `coterie` with these arguments and the broker's address."""

    def __call__(self, *words: str, exit_code: int = 0) -> CommandOutput:
        """Run the command and check the exit code; return the output."""


@pytest.fixture(scope="session")
def apache() -> Iterator[GroupCommand]:
    """kafka-consumer-groups.sh of Apache Kafka."""
    with GroupCommand(Path(os.environ[JARS])) as command:
        yield command


@pytest.fixture(scope="session", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """The broker under test; each kind is started once per session."""
    yield from brokers(request.param)


def brokers(kind: str) -> Iterator[Broker]:
    """Yield the running node of Kafka, or a new server of Coterie."""
    if kind == "kafka":
        yield Broker("kafka", os.environ[KAFKA])
        return
    with start_server(settings={name: BASE[name] for name in SHARED}) as server:
        yield Broker("coterie", server.bootstrap)


@pytest.fixture(scope="session", params=KINDS)
def sasl(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SaslListener]:
    """The listener with SASL of Coterie, then of Apache Kafka."""
    if request.param == "kafka":
        yield SaslListener("kafka", os.environ[variable_of("SASL")])
        return
    directory = tmp_path_factory.mktemp("sasl")
    server = start_with_sasl(directory, *(f"{name}={BASE[name]}" for name in SHARED))
    yield SaslListener("coterie", server.bootstrap)
    server.stop()


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    """HOST:PORT of the server under test."""
    return broker.bootstrap


@pytest.fixture
def broker_kind(broker: Broker) -> str:
    """ "coterie" or "kafka", for behaviour that differs on purpose."""
    return broker.kind


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A unique name, of the same length for both servers."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.originalname).strip("-")
    return f"{readable[:40]}-{secrets.token_hex(4)}"


@pytest.fixture
def group(name: str) -> str:
    """A group id for this test."""
    return f"g-{name}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A topic of two partitions for this test."""
    return create_topic(bootstrap, f"t-{name}", partitions=2)


@pytest.fixture
def new_topic(bootstrap: str, name: str) -> Callable[[str, int], str]:
    """A function that creates a topic from a suffix and a number of partitions."""

    def make(suffix: str, partitions: int) -> str:
        return create_topic(bootstrap, f"t-{name}-{suffix}", partitions=partitions)

    return make


@pytest.fixture
def coterie(bootstrap: str) -> Command:
    """The command `coterie` in its own process, connected to the server."""

    def run(*words: str, exit_code: int = 0) -> CommandOutput:
        program = str(Path(sys.executable).with_name("coterie"))
        command = [program, *words, "--bootstrap-server", bootstrap]
        output = run_to_end(command, COMMAND_S)
        assert output.exit_code == exit_code, output
        return output

    return run
