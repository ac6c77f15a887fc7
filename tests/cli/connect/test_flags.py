"""The connection's flags, and a command that has none of them right."""

from __future__ import annotations

import argparse

import pytest

from coterie.cli.connect import add_connection_options, open_admin
from coterie.errors import SettingError


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_connection_options(parser)
    return parser.parse_args(arguments)


def test_without_a_cluster_the_sentence_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COTERIE_BOOTSTRAP_SERVER", raising=False)
    with pytest.raises(SettingError, match="say --bootstrap-server HOST:PORT"):
        open_admin(parse())


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "soon", "2147483648"])
def test_a_time_out_is_a_whole_number_of_milliseconds(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parse("--timeout", text)
    assert left.value.code == 2
    assert "milliseconds" in capsys.readouterr().err
