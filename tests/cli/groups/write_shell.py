"""Runs command lines that write, against a model of a cluster."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coterie.cli import connect
from coterie.cli.main import main
from tests.operations.cluster_model import ClusterModel
from tests.operations.world import small_cluster


class WriteAdmin(ClusterModel):
    """The model as `open_admin` gives it."""

    async def __aenter__(self) -> WriteAdmin:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.calls.append("close")


@dataclass
class WriteShell:
    """Where command lines are typed; `home` is the directory for files."""

    admin: WriteAdmin
    capture: pytest.CaptureFixture[str]
    home: Path
    code: int = 0
    error: str = ""

    def __call__(self, line: str, *more: str) -> str:
        """Run `coterie groups LINE`; its stdout. `code` and `error` tell the rest."""
        words = [word.replace("HOME", str(self.home)) for word in line.split()]
        self.code = main(["groups", *words, *more])
        out, self.error = self.capture.readouterr()
        return out

    def write(self, line: str) -> str:
        """Run it with --execute, and snapshots in the home."""
        return self(f"{line} --execute --snapshots HOME/snapshots")

    def json(self, line: str) -> Any:
        """Run it with --output json."""
        return json.loads(self(f"{line} --output json"))

    @property
    def snapshot_ids(self) -> list[str]:
        """What was kept, the oldest first."""
        found = (self.home / "snapshots").glob("*.jsonl")
        ordered = sorted(found, key=lambda path: path.stat().st_mtime_ns)
        return [path.stem for path in ordered]


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> WriteShell:
    model = small_cluster()
    admin = WriteAdmin(groups=model.groups, logs=model.logs)

    def open_admin(_: argparse.Namespace) -> WriteAdmin:
        return admin

    monkeypatch.setattr(connect, "open_admin", open_admin)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return WriteShell(admin, capsys, tmp_path)
