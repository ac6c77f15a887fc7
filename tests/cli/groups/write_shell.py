"""Run commands that change groups against a model of a cluster."""

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
from tests.operations.small_cluster import small_cluster


class WriteAdmin(ClusterModel):
    """A model of a cluster that `open_admin` returns."""

    async def __aenter__(self) -> WriteAdmin:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.calls.append("close")


@dataclass
class WriteShell:
    """A runner of command lines; `home` is the directory for files."""

    admin: WriteAdmin
    capture: pytest.CaptureFixture[str]
    home: Path
    code: int = 0
    error: str = ""

    def __call__(self, line: str, *more: str) -> str:
        """Run `coterie groups LINE` and return its stdout; set `code` and `error`."""
        words = [word.replace("HOME", str(self.home)) for word in line.split()]
        self.code = main(["groups", *words, *more])
        out, self.error = self.capture.readouterr()
        return out

    def write(self, line: str) -> str:
        """Run `coterie groups LINE --execute`, with the snapshots saved below
        `home`."""
        return self(f"{line} --execute --snapshots HOME/snapshots")

    def json(self, line: str) -> Any:
        """Run `coterie groups LINE --output json` and return the document."""
        return json.loads(self(f"{line} --output json"))

    @property
    def snapshot_ids(self) -> list[str]:
        """The ids of the saved snapshots, oldest first."""
        paths = (self.home / "snapshots").glob("*.jsonl")
        ordered = sorted(paths, key=lambda path: path.stat().st_mtime_ns)
        return [path.stem for path in ordered]


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> WriteShell:
    model = small_cluster()
    admin = WriteAdmin(known_groups=model.known_groups, known_logs=model.known_logs)

    def open_admin(_: argparse.Namespace) -> WriteAdmin:
        return admin

    monkeypatch.setattr(connect, "open_admin", open_admin)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return WriteShell(admin, capsys, tmp_path)
