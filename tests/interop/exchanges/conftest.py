"""Connections to the broker under test, for requests of any content.

Every test here runs once on Coterie and once on Apache Kafka, and asserts the same of
both. A test with a fact mark that passes on Kafka makes the fact proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final, TypeAlias

import pytest

from coterie.client.sync import SyncAdmin
from tests.broker.server.harness import WireClient
from tests.interop.conftest import KINDS, Broker, brokers

_GROUPS_ON_ALL_PARTITIONS: Final = 12
"""This many names of groups have hashes of each of the three log partitions."""
KAFKA_ONLY: Final = tuple(kind for kind in KINDS if kind == "kafka")
"""The parameter of `broker` for tests that run on Coterie elsewhere."""
Connect: TypeAlias = Callable[[], WireClient]


def open_client(bootstrap: str) -> WireClient:
    host, _, port = bootstrap.rpartition(":")
    return WireClient(host, int(port))


@pytest.fixture(scope="session", params=KINDS)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The broker under test: on Coterie one of its own, as exchanges leave groups and
    transactions that tests of the whole log would see."""
    yield from brokers(request.param)


@pytest.fixture(scope="session")
def ready(broker: Broker) -> str:
    """HOST:PORT of a broker that has loaded its group coordinators."""
    with SyncAdmin(broker.bootstrap) as admin:  # it repeats what is refused meanwhile
        for number in range(_GROUPS_ON_ALL_PARTITIONS):
            admin.group_offsets.fetch(f"exchanges-{number}")
    return broker.bootstrap


@pytest.fixture
def connect(ready: str) -> Iterator[Connect]:
    """A function that opens a connection; the end of the test closes it."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(open_client(ready))


@pytest.fixture
def wire(connect: Connect) -> WireClient:
    """An open connection."""
    return connect()
