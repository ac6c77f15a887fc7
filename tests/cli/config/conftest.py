"""A home without profiles for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.connect.world import World


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    return made
