"""Tests for the examples of docs/connecting.md, which use only known settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coterie.cli.setting_sources import PROFILES
from coterie.client.settings.keys import ALIASES, EXPANDED, KEYS
from tests.cli.settings_home import SettingsHome

PAGE = (Path(__file__).parents[2] / "docs/connecting.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def blocks(kind: str) -> list[str]:
    texts = [text for name, text in BLOCKS if name == kind]
    assert texts
    return texts


@pytest.mark.parametrize("text", blocks("properties"))
def test_every_setting_of_each_file_is_known(text: str, home: SettingsHome) -> None:
    file = home.write("client.properties", text)
    collected = home.collected("--command-config", str(file))
    assert "security.protocol" in collected.by_key
    assert (collected.warnings, collected.notes) == ([], [])


def test_every_setting_of_the_profiles_is_known(home: SettingsHome) -> None:
    [text] = blocks("toml")
    file = home.profiles(text)
    home.write(str(file.with_name("prod.properties")), "client.id=file\n")
    assert home.values() == {"bootstrap.servers": "localhost:9092"}
    assert home.values("--profile", "staging")["sasl.mechanism"] == "SCRAM-SHA-512"
    assert home.values("--profile", "prod") == {"client.id": "alice-at-a-terminal"}


def test_every_setting_in_the_text_is_known() -> None:
    named = set(re.findall(r"`((?:ssl|sasl|https|enable)\.[a-z.0-9]+)", PAGE))
    known = {*KEYS, *ALIASES, *EXPANDED, "ssl.keystore.type", "ssl.truststore.type"}
    assert named <= known
    assert PROFILES in PAGE


def test_the_python_example_compiles() -> None:
    [text] = blocks("python")
    compile(text, "connecting.md", "exec")
