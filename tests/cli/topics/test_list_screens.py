"""Screens of topics and records, compared with the files in ../screens/."""

from __future__ import annotations

import json
import sys

import pytest

from coterie.cli.main import main
from coterie.display import cells
from tests.cli.output.test_terminal_screens import SCREENS, WIDTHS, Terminal
from tests.cli.server_shell import ServerShell

from ..groups.cli_cluster import is_golden
from .conftest import Feed

LONG = "prod.eu-west-1.settlement-service.nightly-reconciliation.v2"
HEADER = {"key": "trace", "value": "8f3c3c9e"}
COMMANDS = {
    "topics-list": "topics list",
    "topics-describe": f"topics describe orders {LONG}",
    "topics-delete": f"topics delete orders {LONG} refunds-eu",
    "topics-configs": "topics configs show orders",
    "topics-records": "topics records read orders --from earliest --limit 4",
}


@pytest.fixture(scope="module")
def made() -> set[str]:
    """Names of servers that have their topics."""
    return set()


@pytest.fixture
def filled(topics: ServerShell, feed: Feed, made: set[str]) -> ServerShell:
    """The server with three topics and four records of a fixed time."""
    if topics.connection in made:
        return topics
    made.add(topics.connection)
    topics("create orders --partitions 2 --config retention.ms=3600000")
    topics(f"create {LONG} refunds-eu --partitions 1")
    start_ms = 1_767_312_000_000
    records = [
        {"partition": 0, "key": "4711", "value": '{"state":"paid"}'},
        {"partition": 0, "key": "4711", "value": None},
        {"partition": 0, "key": "注文-1", "value": "\x1b[31mred"},
        {"partition": 0, "value": "long " * 60, "headers": [HEADER]},
    ]
    lines = [
        json.dumps({**each, "timestamp_ms": start_ms + 1_000 * number})
        for number, each in enumerate(records)
    ]
    feed("\n".join(lines).encode())
    topics("records produce orders --format jsonl")
    return topics


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_is_as_in_its_file(
    filled: ServerShell, monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(width))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main([*COMMANDS[name].split(), *filled.connection.split()]) == 0
    text = terminal.getvalue()
    assert all(cells(line) <= width for line in text.splitlines())
    assert is_golden(f"{name}-{width}", text, SCREENS)
