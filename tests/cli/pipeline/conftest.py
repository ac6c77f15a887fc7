"""The example lake, and a runner of `coterie pipeline` commands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.main import main
from tests.pipeline.lakes import make_lake
from tests.pipeline.story import story


@dataclass
class LakeShell:
    """A runner of `coterie pipeline` commands on a lake."""

    lake: Path
    capture: pytest.CaptureFixture[str]
    code: int = 0
    error: str = ""

    def __call__(self, line: str, *names: str) -> str:
        """Run `coterie pipeline LINE --lake ...`; return its stdout."""
        words = ["pipeline", *line.split(), *names, "--lake", str(self.lake)]
        self.code = main(words)
        out, self.error = self.capture.readouterr()
        return out

    def items(self, line: str, *names: str) -> list[dict[str, Any]]:
        """Run the command with JSON output; return the items."""
        items: list[dict[str, Any]] = json.loads(self(f"{line} -o json", *names))[
            "items"
        ]
        return items


@pytest.fixture(scope="session")
def story_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("story") / "lake", story())


@pytest.fixture
def shell(story_lake: Path, capsys: pytest.CaptureFixture[str]) -> LakeShell:
    return LakeShell(story_lake, capsys)
