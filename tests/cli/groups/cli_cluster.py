"""Run command lines against a fake admin client."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coterie.cli import connect
from coterie.cli.main import main
from coterie.client.admin.configs import ConfigEntry, ConfigResource
from coterie.client.admin.groups import ClusterDescription
from coterie.client.admin.results import Progress, Results
from coterie.errors import ApiError, CoterieError
from coterie.wire.configs import ConfigSource
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import NODE, FakeAdmin


@dataclass
class CliAdmin(FakeAdmin):
    """A fake admin client that `open_admin` returns."""

    run_error: CoterieError | None = None
    retention: str | None = "10080"

    async def __aenter__(self) -> CliAdmin:
        if self.run_error:
            raise self.run_error
        return self

    async def __aexit__(self, *_: object) -> None:
        self.record("close")

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("cluster-1", 1, (NODE,))

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Collection[str] | None = None,
        with_synonyms: bool = False,
        with_documentation: bool = False,
        progress: Progress | None = None,
    ) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
        (broker,) = resources
        if self.retention is None:
            return Results(
                {}, {broker: ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}
            )
        name = "offsets.retention.minutes"
        assert names == [name]
        return Results(
            {broker: (ConfigEntry(name, self.retention, ConfigSource.DEFAULT),)}
        )


@dataclass
class Shell:
    """A runner of command lines against the fake admin client."""

    admin: CliAdmin
    capture: pytest.CaptureFixture[str]
    code: int = 0
    error: str = ""

    def __call__(self, line: str) -> str:
        """Run `coterie LINE` and return its stdout; set `code` and `error`."""
        self.code = main(shlex.split(line))
        out, self.error = self.capture.readouterr()
        return out

    def json(self, line: str) -> Any:
        """Run `coterie LINE --output json` and return the document."""
        return json.loads(self(f"{line} --output json"))


GOLDEN = Path(__file__).parent / "golden"


def is_golden(name: str, text: str, directory: Path = GOLDEN) -> bool:
    """Compare a text with golden/NAME.txt. COTERIE_TEST_GOLDEN=write rewrites the file;
    read the difference before you commit it."""
    path = directory / f"{name}.txt"
    if os.environ.get("COTERIE_TEST_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    return True


def make_shell(
    admin: CliAdmin,
    monkeypatch: pytest.MonkeyPatch,
    capture: pytest.CaptureFixture[str],
) -> Shell:
    def open_admin(_: argparse.Namespace) -> CliAdmin:
        return admin

    monkeypatch.setattr(connect, "open_admin", open_admin)
    return Shell(admin, capture)
