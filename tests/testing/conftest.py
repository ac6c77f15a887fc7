"""The server that the tests of the kit's helpers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.testing import Kafka


@pytest.fixture(scope="module")
def shared_kafka() -> Iterator[Kafka]:
    with Kafka(nodes=2) as server:
        yield server
