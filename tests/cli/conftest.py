"""A settings directory for every test of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.settings_home import SettingsHome


@pytest.fixture
def home(tmp_path: Path) -> SettingsHome:
    return SettingsHome(tmp_path)


@pytest.fixture
def home_in_environment(
    home: SettingsHome, monkeypatch: pytest.MonkeyPatch
) -> SettingsHome:
    """Make every command of the test read its settings from the directory."""
    for name, value in home.environ.items():
        monkeypatch.setenv(name, value)
    return home
