"""A cluster with a page that may change it, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.testing import Kafka

from .page_client import TOKEN, PageClient, served_page


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as server:
        server.topic("orders", partitions=2)
        server.produce("orders", [str(number) for number in range(20)])
        yield server


@pytest.fixture(scope="module")
def page_port(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("page")
    with served_page(
        kafka.bootstrap_servers, folder, allow_changes=True, token=TOKEN
    ) as page:
        yield page.port


@pytest.fixture
def page(page_port: int) -> PageClient:
    client = PageClient(page_port)
    client.log_in()
    return client
