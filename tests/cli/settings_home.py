"""Settings files, environment and options of a command, and the effective settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coterie.cli.connect import add_connection_options
from coterie.cli.setting_sources import read_sources
from coterie.client.secret import Secret
from coterie.client.settings.collected import CollectedSettings, effective_settings
from coterie.client.settings.target import Target, make_target


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_connection_options(parser)
    return parser.parse_args(arguments)


@dataclass
class SettingsHome:
    """A directory of settings files, and an environment."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environ["XDG_CONFIG_HOME"] = str(self.folder / "config")

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="latin-1")
        file.chmod(mode)
        return file

    def profiles(self, text: str, mode: int = 0o600) -> Path:
        return self.write("config/coterie/profiles.toml", text, mode)

    def collected(self, *arguments: str) -> CollectedSettings:
        return read_sources(parse(*arguments), self.environ)

    def values(self, *arguments: str) -> Mapping[str, str]:
        """Return the effective values without defaults, secrets revealed."""
        return {
            key: each.value.reveal() if isinstance(each.value, Secret) else each.value
            for key, each in effective_settings(self.collected(*arguments)).items()
            if each.source.kind != "default"
        }

    def sources(self, *arguments: str) -> Mapping[str, str]:
        """Return the source of each value, with paths relative to the directory."""
        return {
            key: str(each.source).replace(f"{self.folder}/", "")
            for key, each in effective_settings(self.collected(*arguments)).items()
            if each.source.kind != "default"
        }

    def target(self, *arguments: str) -> Target:
        return make_target(effective_settings(self.collected(*arguments)))
