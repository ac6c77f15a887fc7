"""A runner of one family of `coterie` commands against a server of the test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.cli.main import main
from tests.broker.server.harness import ThreadServer


class ServerShell:
    """A runner of commands such as `coterie acls`; `error` has the last stderr."""

    def __init__(
        self, family: str, server: ThreadServer, capture: pytest.CaptureFixture[str]
    ) -> None:
        [(host, port)] = server.addresses
        self._family = family
        self.connection = f"--bootstrap-server {host}:{port}"
        self._capture = capture
        self.error = ""

    def __call__(self, line: str, *, code: int = 0) -> str:
        assert main(f"{self._family} {line} {self.connection}".split()) == code
        out, self.error = self._capture.readouterr()
        return out

    def items(self, line: str, *, code: int = 0) -> list[dict[str, Any]]:
        """Return the items that a command prints as JSON."""
        text = self(f"{line} --output json", code=code)
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items
