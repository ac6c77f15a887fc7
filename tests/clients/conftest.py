"""A broker for a worker's whole session, and fresh names for each test."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator

import pytest

from .admin import create_topic
from .process import ServerProcess

FOREIGN_BROKER = "COTERIE_TEST_BOOTSTRAP"
# Short, so that a test waits for what it tests, not for company or a heartbeat.
SETTINGS = (
    "group.initial.rebalance.delay.ms=100",
    "group.consumer.min.heartbeat.interval.ms=300",
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
)
ARGUMENTS = tuple(part for one in SETTINGS for part in ("--set", one))


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The HOST:PORT of a broker: ours on a free port, or the one named outside."""
    if foreign := os.environ.get(FOREIGN_BROKER):
        yield foreign
        return
    server = ServerProcess(tmp_path_factory.mktemp("broker"), "--memory", *ARGUMENTS)
    yield server.address
    server.stop()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test and no other run has."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{readable}-{secrets.token_hex(4)}"


@pytest.fixture
def group(name: str) -> str:
    """A group id of this test's own."""
    return f"g-{name}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A topic of four partitions of this test's own."""
    return create_topic(bootstrap, f"t-{name}", partitions=4)


@pytest.fixture
def new_topic(bootstrap: str, name: str) -> Callable[[str, int], str]:
    """Makes one more topic from a suffix and a number of partitions."""

    def make(suffix: str, partitions: int) -> str:
        return create_topic(bootstrap, f"t-{name}-{suffix}", partitions=partitions)

    return make
