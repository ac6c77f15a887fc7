"""A broker for a pytest worker's session, and unique names for each test."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient

from tests.real_clients.confluent_admin import (
    FOREIGN_BROKER,
    admin_client,
    create_topic,
)
from tests.support.server_process import start_server

OFFSETS_TOPIC = "COTERIE_TEST_OFFSETS_TOPIC"
"""The environment variable with the topic of the groups' records, if another one."""
# Short intervals, so that tests do not wait for rebalance delays and heartbeats.
SETTINGS: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 6_000,
    # No session ends on a busy machine; a test that needs it configures its group.
    "group.consumer.session.timeout.ms": 45_000,
}


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """HOST:PORT of the broker under test: a new one, or that of the environment."""
    if foreign := os.environ.get(FOREIGN_BROKER):
        yield foreign
        return
    with start_server(settings=SETTINGS) as server:
        yield server.bootstrap


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    """confluent-kafka's admin client of the broker under test."""
    return admin_client(bootstrap)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that is unique among tests and runs."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{readable}-{secrets.token_hex(4)}"


@pytest.fixture
def group(name: str) -> str:
    """A group id that only this test uses."""
    return f"g-{name}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A topic of four partitions that only this test uses."""
    return create_topic(bootstrap, f"t-{name}", partitions=4)


@pytest.fixture
def new_topic(bootstrap: str, name: str) -> Callable[[str, int], str]:
    """A function that creates a topic from a suffix and a number of partitions."""

    def make(suffix: str, partitions: int) -> str:
        return create_topic(bootstrap, f"t-{name}-{suffix}", partitions=partitions)

    return make
