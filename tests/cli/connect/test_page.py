"""docs/connecting.md: its examples are settings that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coterie.cli.connect.sources import PROFILES
from coterie.client.settings.keys import ALIASES, EXPANDED, KEYS
from tests.cli.connect.world import World

PAGE = (Path(__file__).parents[3] / "docs/connecting.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def blocks(kind: str) -> list[str]:
    found = [text for name, text in BLOCKS if name == kind]
    assert found
    return found


@pytest.mark.parametrize("text", blocks("properties"))
def test_every_file_is_understood_as_a_whole(text: str, world: World) -> None:
    file = world.write("client.properties", text)
    findings = world.findings("--command-config", str(file))
    assert "security.protocol" in findings.by_key
    assert (findings.warnings, findings.notes) == ([], [])


def test_the_profiles_are_understood_as_a_whole(world: World) -> None:
    [text] = blocks("toml")
    file = world.profiles(text)
    world.write(str(file.with_name("prod.properties")), "client.id=file\n")
    assert world.values() == {"bootstrap.servers": "localhost:9092"}
    assert world.values("--profile", "staging")["sasl.mechanism"] == "SCRAM-SHA-512"
    assert world.values("--profile", "prod") == {"client.id": "alice-at-a-terminal"}


def test_every_setting_it_names_is_one() -> None:
    named = set(re.findall(r"`((?:ssl|sasl|https|enable)\.[a-z.0-9]+)", PAGE))
    known = {*KEYS, *ALIASES, *EXPANDED, "ssl.keystore.type", "ssl.truststore.type"}
    assert named <= known
    assert PROFILES in PAGE


def test_the_example_in_python_is_python() -> None:
    [text] = blocks("python")
    compile(text, "connecting.md", "exec")
