"""One live server for all tests of a worker; each test uses groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apis.live import Live


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    server = Live()
    yield server
    server.close()
