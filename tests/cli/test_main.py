"""What `coterie` makes of a command that fails."""

from __future__ import annotations

import argparse

import pytest

from coterie.cli import main as cli
from coterie.cli import serve
from coterie.errors import SettingError


def test_a_setting_that_cannot_be_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: argparse.Namespace) -> int:
        raise SettingError(f"{options.nodes} are too many")

    monkeypatch.setattr(serve, "run", run)
    assert cli.main(["serve", "--nodes", "3"]) == 2
    assert capsys.readouterr().err == "coterie: 3 are too many\n"
