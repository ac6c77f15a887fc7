"""A command line, read as Apache's tool reads it (jopt-simple, without abbreviations).

`--name value`, `--name=value`, and also `-name value`. An option that needs an
argument takes the next word whatever it looks like; one that may have an argument takes
it unless it starts with a hyphen. Words that belong to no option are passed over, and
so is everything behind `--`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coterie.cli.kafka_consumer_groups.options import BY_NAME, OPTIONS, Option, Takes
from coterie.errors import SettingError

_LONG = re.compile(r"[+-]?[0-9]+")
_LONG_MAX = 2**63 - 1


class UsageError(SettingError):
    """A command line that asks for nothing that can be done; the message says why."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The options that were given, each with the values it was given."""

    given: Mapping[str, tuple[str, ...]]

    def has(self, *names: str) -> bool:
        """Whether any of these options is there."""
        return any(name in self.given for name in names)

    def all(self, name: str) -> tuple[str, ...]:
        """The values of a repeatable option, each once, in the order given."""
        return tuple(dict.fromkeys(self.given.get(name, ())))

    def one(self, name: str) -> str | None:
        """The value of an option; None when it has none."""
        values = self.given.get(name, ())
        return values[0] if values else None

    def number(self, name: str) -> int | None:
        """The value of an option that takes a number."""
        value = self.one(name)
        return None if value is None else int(value)

    @property
    def is_strict(self) -> bool:
        """Whether to print nothing that Apache's tool would not."""
        return self.has("strict")


def parse(words: Sequence[str]) -> CommandLine:
    """The options of a command line. Raises UsageError."""
    given: dict[str, tuple[str, ...]] = {}
    rest = iter(words)
    waiting: list[str] = []
    for word in _unread(waiting, rest):
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        option = _recognise(word, name)
        values = given.setdefault(option.name, ())
        if option.takes is Takes.NOTHING:
            continue
        found = value if equals else _argument(option, waiting, rest)
        if found is not None:
            given[option.name] = (*values, found)
    line = CommandLine(given)
    if not line.has("help", "version"):
        _check(line)
    return line


def _unread(waiting: list[str], rest: Iterator[str]) -> Iterator[str]:
    """The words that are left, one that was looked at and not taken included."""
    while True:
        word = waiting.pop() if waiting else next(rest, None)
        if word is None:
            return
        yield word


def _recognise(word: str, name: str) -> Option:
    if name in BY_NAME:
        return BY_NAME[name]
    # After one hyphen every letter is an option of its own, and there are none.
    unknown = name if word.startswith("--") else name[:1]
    raise UsageError(f"{unknown} is not a recognized option")


def _argument(option: Option, waiting: list[str], rest: Iterator[str]) -> str | None:
    word = next(rest, None)
    if option.takes is Takes.ARGUMENT:
        if word is None:
            raise UsageError(f"Option {option.name} requires an argument")
        return word
    if word is not None and word.startswith("-") and word != "-":
        waiting.append(word)
        return None
    return word


def _check(line: CommandLine) -> None:
    """What jopt-simple refuses by itself. Raises UsageError."""
    here = [option for option in OPTIONS if line.has(option.name)]
    stray = [
        option.name
        for option in here
        if option.only_with and not line.has(*option.only_with)
    ]
    if stray:
        raise UsageError(
            f"Option(s) [{', '.join(stray)}] are unavailable given other options on "
            "the command line"
        )
    for option in here:
        values = line.given[option.name]
        if len(values) > 1 and not option.is_repeatable:
            raise UsageError(
                f"Found multiple arguments for option {option.name}, but you asked for "
                "only one"
            )
        if option.is_number and not _is_long(values[0]):
            raise UsageError(
                f"Cannot parse argument '{values[0]}' of option {option.name}"
            )


def _is_long(text: str) -> bool:
    return _LONG.fullmatch(text) is not None and abs(int(text)) <= _LONG_MAX
