"""A server for the tests of this folder, and `coterie topics` on it."""

from __future__ import annotations

import io
import secrets
import sys
from collections.abc import Callable, Iterator

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


@pytest.fixture
def records(server: ThreadServer, capsys: pytest.CaptureFixture[str]) -> ServerShell:
    return ServerShell("topics records", server, capsys)


Feed = Callable[[bytes], None]


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """A function that sets what the next command reads from stdin."""

    def set_stdin(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return set_stdin


@pytest.fixture
def topic(topics: ServerShell) -> str:
    """A new topic of three partitions."""
    name = f"t-{secrets.token_hex(4)}"
    topics(f"create {name} --partitions 3")
    return name
