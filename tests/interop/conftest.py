"""The same tests against Coterie and against Apache Kafka.

Kafka takes part in `make interop`, which says in the environment where it is;
otherwise the tests run against Coterie alone.
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

from tests.clients.admin import create_topic
from tests.clients.process import ServerProcess
from tests.pipeline.conftest import spark  # noqa: F401 - a fixture

from .door import Door, open_door
from .kafka import BASE, JARS, GroupCommand, Ran
from .kafka import run as run_to_end
from .node import variable_of

KAFKA: Final = variable_of("PLAIN")
KINDS: Final = ("coterie", "kafka") if KAFKA in os.environ else ("coterie",)
# What compares with Apache's own tool is nothing without it.
ITS_TOOLS: Final = ["test_kafka_consumer_groups.py", "test_dump_log_segments.py"]
collect_ignore = [] if KAFKA in os.environ else ITS_TOOLS
COMMAND_S: Final = 60.0
# What both servers know of Kafka's settings for the tests, so that both behave alike.
SHARED: Final = tuple(name for name in BASE if name.startswith("group."))


class Broker(NamedTuple):
    """A running server of one of the two kinds."""

    kind: str
    bootstrap: str


class Command(Protocol):
    """Runs `coterie` with these words, the broker's address put behind them."""

    def __call__(self, *words: str, exit_code: int = 0) -> Ran:
        """What it said; the exit code is asserted."""


@pytest.fixture(scope="session")
def apache() -> Iterator[GroupCommand]:
    """Apache's own kafka-consumer-groups."""
    with GroupCommand(Path(os.environ[JARS])) as command:
        yield command


@pytest.fixture(scope="session", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Coterie, then Apache Kafka: one of each for the whole session."""
    if request.param == "kafka":
        yield Broker("kafka", os.environ[KAFKA])
        return
    directory = tmp_path_factory.mktemp("coterie")
    words = [word for name in SHARED for word in ("--set", f"{name}={BASE[name]}")]
    server = ServerProcess(directory, "--memory", *words)
    yield Broker("coterie", server.address)
    server.stop()


@pytest.fixture(scope="session", params=KINDS)
def door(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    """The listener where clients say who they are, of Coterie, then of Apache Kafka."""
    if request.param == "kafka":
        yield Door("kafka", os.environ[variable_of("SASL")])
        return
    directory = tmp_path_factory.mktemp("door")
    server = open_door(directory, *(f"{name}={BASE[name]}" for name in SHARED))
    yield Door("coterie", server.address)
    server.stop()


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    """HOST:PORT of the server under test."""
    return broker.bootstrap


@pytest.fixture
def broker_kind(broker: Broker) -> str:
    """ "coterie" or "kafka", where they are meant to differ."""
    return broker.kind


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has, of the same length whatever the server."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.originalname).strip("-")
    return f"{readable[:40]}-{secrets.token_hex(4)}"


@pytest.fixture
def group(name: str) -> str:
    """A group id of this test's own."""
    return f"g-{name}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A topic of two partitions of this test's own."""
    return create_topic(bootstrap, f"t-{name}", partitions=2)


@pytest.fixture
def new_topic(bootstrap: str, name: str) -> Callable[[str, int], str]:
    """Makes one more topic from a suffix and a number of partitions."""

    def make(suffix: str, partitions: int) -> str:
        return create_topic(bootstrap, f"t-{name}-{suffix}", partitions=partitions)

    return make


@pytest.fixture
def coterie(bootstrap: str) -> Command:
    """The command `coterie`, in a process of its own, talking to the server."""

    def run(*words: str, exit_code: int = 0) -> Ran:
        program = str(Path(sys.executable).with_name("coterie"))
        command = [program, *words, "--bootstrap-server", bootstrap]
        ran = run_to_end(command, COMMAND_S)
        assert ran.exit_code == exit_code, ran
        return ran

    return run
