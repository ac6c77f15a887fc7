"""A server for the tests of this folder, and `coterie topics` on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.server.harness import ThreadServer
from tests.cli.server_shell import ServerShell


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadServer]:
    with ThreadServer() as server:
        yield server


@pytest.fixture
def topics(server: ThreadServer, capsys: pytest.CaptureFixture[str]) -> ServerShell:
    return ServerShell("topics", server, capsys)
