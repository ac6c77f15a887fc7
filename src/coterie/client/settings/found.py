"""What was found where: every setting, by every source that has it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie.client.settings.keys import (
    ALIASES,
    EXPANDED,
    JAAS,
    KEYS,
    Kind,
    canonical,
    is_meaningless,
)
from coterie.errors import SettingError

if TYPE_CHECKING:
    from coterie.client.secret import Secret


class Source(NamedTuple):
    """Where a value came from: of which kind, and where exactly."""

    kind: str
    """flag, env, profile, file, option (of a data source) or default."""
    where: str = ""

    def __str__(self) -> str:
        if self.kind == "file":
            return self.where
        return f"{self.kind} {self.where}".rstrip()


DEFAULT: Final = Source("default")
_PROVIDERS: Final = "config.providers"


class Found(NamedTuple):
    """A value that a source has. `written` is the name under which it stands there."""

    value: str | Secret
    source: Source
    written: str


@dataclass(slots=True)
class Findings:
    """All that was found; what comes later counts more."""

    by_key: dict[str, list[Found]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """For everybody, on stderr."""
    notes: list[str] = field(default_factory=list)
    """For who asks, by --verbose."""

    def add(self, written: str, text: str, source: Source) -> None:
        """Take note of a setting. Raises SettingError for a name nobody knows, where
        that cannot be something of another program's."""
        if written in EXPANDED:
            self._add_all(written, text, source)
            return
        key = KEYS.get(canonical(written))
        if key is None:
            self._add_unknown(written, source)
            return
        value: str | Secret = text
        if key.kind is Kind.SECRET:
            from coterie.client.secret import Secret

            value = Secret(text)
        self.by_key.setdefault(key.name, []).append(Found(value, source, written))

    def has_secret_from(self, where: str) -> bool:
        """Whether a secret came from a source there."""
        return any(
            where in each.source.where
            for key, found in self.by_key.items()
            if KEYS[key].kind is Kind.SECRET
            for each in found
        )

    def _add_all(self, written: str, text: str, source: Source) -> None:
        from coterie.client.settings.jaas import read_jaas, read_unsecured

        try:
            parts = read_jaas(text) if written == JAAS else read_unsecured(text)
        except SettingError as error:
            raise SettingError(f"{source}: {error}") from None
        for key, value in parts.items():
            self.add(key, value, source)
            self.by_key[key][-1] = self.by_key[key][-1]._replace(written=written)

    def _add_unknown(self, written: str, source: Source) -> None:
        if is_meaningless(written):
            self.notes.append(f"{source}: {written} means nothing to this client")
            return
        if written == _PROVIDERS:
            self.warnings.append(
                f"{source}: {written} is for Java; ${{...}} in values stays as it is"
            )
            return
        near = nearest(written, [*KEYS, *ALIASES, *EXPANDED])
        sentence = f"{source}: there is no setting {written}"
        if near:
            sentence += f"; did you mean {near}?"
        if source.kind in {"flag", "profile", "option"}:
            raise SettingError(sentence)
        (self.warnings if near else self.notes).append(sentence)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one most likely is."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.8)
    return near[0] if near else None


def effective(findings: Findings) -> Mapping[str, Found]:
    """What counts of each setting, defaults included, in the order of the table."""
    counts: dict[str, Found] = {}
    for name, key in KEYS.items():
        if found := findings.by_key.get(name):
            counts[name] = found[-1]
        elif key.default is not None:
            counts[name] = Found(key.default, DEFAULT, name)
    return counts
