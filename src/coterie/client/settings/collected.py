"""Settings as collected from flags, environment, profile and files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coterie import client
from coterie.client.settings import keys
from coterie.errors import SettingError


class Source(NamedTuple):
    """The source of a value: its kind, and the place."""

    kind: str
    """flag, env, profile, file, option (of a data source) or default."""
    where: str = ""
    file: str | None = None
    line: int | None = None
    """The line of the file, from 1."""

    def __str__(self) -> str:
        if self.kind == "file":
            return self.where
        return f"{self.kind} {self.where}".rstrip()


DEFAULT: Final = Source("default")
_PROVIDERS: Final = "config.providers"


class SettingValue(NamedTuple):
    """A setting's value in one source. `written` is the setting's name in that
    source."""

    value: str | client.Secret
    source: Source
    written: str


@dataclass(slots=True)
class CollectedSettings:
    """The values of every source; a later one takes precedence."""

    by_key: dict[str, list[SettingValue]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """Warnings, always shown on stderr."""
    notes: list[str] = field(default_factory=list)
    """Notes, shown with --verbose."""

    def add(self, written: str, text: str, source: Source) -> None:
        """Add a value. Raises SettingError for an unknown name, unless the source is
        shared with other programs."""
        if written in keys.EXPANDED:
            self._add_all(written, text, source)
            return
        key = keys.KEYS.get(keys.canonical(written))
        if key is None:
            self._add_unknown(written, source)
            return
        value: str | client.Secret = text
        if key.kind is keys.Kind.SECRET:
            value = client.Secret(text)
        self.by_key.setdefault(key.name, []).append(
            SettingValue(value, source, written)
        )

    def has_secret_from(self, where: str) -> bool:
        """Return whether a source at that place contains a secret."""
        return any(
            where in each.source.where
            for key, found in self.by_key.items()
            if keys.KEYS[key].kind is keys.Kind.SECRET
            for each in found
        )

    def _add_all(self, written: str, text: str, source: Source) -> None:
        from coterie.client.settings.jaas import read_jaas, read_unsecured

        try:
            parts = read_jaas(text) if written == keys.JAAS else read_unsecured(text)
        except SettingError as error:
            raise SettingError(f"{source}: {error}") from None
        for key, value in parts.items():
            self.add(key, value, source)
            self.by_key[key][-1] = self.by_key[key][-1]._replace(written=written)

    def _add_unknown(self, written: str, source: Source) -> None:
        if keys.is_meaningless(written):
            self.notes.append(f"{source}: {written} has no effect on this client")
            return
        if written == _PROVIDERS:
            self.warnings.append(
                f"{source}: {written} is for Java; ${{...}} in values is not replaced"
            )
            return
        near = nearest(written, [*keys.KEYS, *keys.ALIASES, *keys.EXPANDED])
        sentence = f"{source}: there is no setting {written}"
        if near:
            sentence += f"; did you mean {near}?"
        if source.kind in {"flag", "profile", "option"}:
            raise SettingError(sentence)
        (self.warnings if near else self.notes).append(sentence)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to a mistyped one."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.8)
    return near[0] if near else None


def effective_settings(collected: CollectedSettings) -> Mapping[str, SettingValue]:
    """Return the effective value of each setting, defaults included, in table order."""
    effective: dict[str, SettingValue] = {}
    for name, key in keys.KEYS.items():
        if values := collected.by_key.get(name):
            effective[name] = values[-1]
        elif key.default is not None:
            effective[name] = SettingValue(key.default, DEFAULT, name)
    return effective
