"""Runs a command line against a cluster of values."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coterie.cli import connect
from coterie.cli.main import main
from coterie.client.admin.cluster_values import ClusterDescription
from coterie.client.admin.config_values import ConfigEntry, ConfigResource
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError
from coterie.wire.config_kinds import ConfigSource
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import NODE, FakeAdmin


@dataclass
class CliAdmin(FakeAdmin):
    """An admin client as `open_admin` gives it."""

    run_error: CoterieError | None = None
    retention: str | None = "10080"

    async def __aenter__(self) -> CliAdmin:
        if self.run_error:
            raise self.run_error
        return self

    async def __aexit__(self, *_: object) -> None:
        self.calls.append(("close", None))

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("cluster-1", 1, (NODE,))

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Collection[str] | None
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
    """Where command lines are typed."""

    admin: CliAdmin
    capture: pytest.CaptureFixture[str]
    code: int = 0
    error: str = ""

    def __call__(self, line: str) -> str:
        """Run `coterie LINE`; its stdout. `code` and `error` tell the rest."""
        self.code = main(line.split())
        out, self.error = self.capture.readouterr()
        return out

    def json(self, line: str) -> Any:
        """Run it with --output json."""
        return json.loads(self(f"{line} --output json"))


def is_golden(name: str, text: str) -> bool:
    """Whether a text is the one in golden/NAME.txt, which COTERIE_GOLDEN=write makes
    anew: read the difference before you commit it."""
    path = Path(__file__).parent / "golden" / f"{name}.txt"
    if os.environ.get("COTERIE_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
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
