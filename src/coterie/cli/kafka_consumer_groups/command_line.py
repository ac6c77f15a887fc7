"""A parsed command line of kafka-consumer-groups.sh, and the checks of its options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coterie.cli.kafka_consumer_groups.options import (
    ACTIONS,
    BY_NAME,
    OPTIONS,
    SCENARIOS,
    Option,
    Takes,
)
from coterie.errors import SettingError
from coterie.operations.selection import TopicSelector

_PARTITION_MAX: Final = 2**31 - 1
_GROUP_OPTIONS: Final = ("group", "all-groups")
_TABLES: Final = ("members", "offsets", "state")
_LONG: Final = re.compile(r"[+-]?[0-9]+")
_LONG_MAX: Final = 2**63 - 1


class UsageError(SettingError):
    """An invalid command line, rejected before any request is sent."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The given options with their values."""

    given: Mapping[str, tuple[str, ...]]

    def has(self, *names: str) -> bool:
        """Return whether any of these options is given."""
        return any(name in self.given for name in names)

    def all(self, name: str) -> tuple[str, ...]:
        """Return the distinct values of a repeatable option in their order."""
        return tuple(dict.fromkeys(self.given.get(name, ())))

    def one(self, name: str) -> str | None:
        """Return the value of an option; None without one."""
        values = self.given.get(name, ())
        return values[0] if values else None

    def number(self, name: str) -> int | None:
        """Return the value of an option that takes a number."""
        value = self.one(name)
        return None if value is None else int(value)

    @property
    def is_strict(self) -> bool:
        """Whether the output is exactly that of kafka-consumer-groups.sh."""
        return self.has("strict")


def parse(words: Sequence[str]) -> CommandLine:
    """Parse a command line as jopt-simple does, but without abbreviations.

    Accepts `--name value`, `--name=value` and `-name value`. An option with a required
    argument takes the next word even if it starts with a hyphen; one with an optional
    argument takes it only if it does not start with a hyphen. Words that belong to no
    option are ignored, and so is everything after `--`. Raises UsageError.
    """
    given: dict[str, tuple[str, ...]] = {}
    remaining = list(reversed(words))
    while remaining:
        word = remaining.pop()
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in BY_NAME:
            # jopt-simple parses each letter after one hyphen as an option; report the
            # first.
            unknown = name if word.startswith("--") else name[:1]
            raise UsageError(f"{unknown} is not a recognized option")
        option = BY_NAME[name]
        values = given.setdefault(option.name, ())
        if option.takes is Takes.NO_ARGUMENT:
            continue
        argument = value if equals else _pop_argument(option, remaining)
        if argument is not None:
            given[option.name] = (*values, argument)
    line = CommandLine(given)
    if not line.has("help", "version"):
        _check_options(line)
    return line


def _pop_argument(option: Option, remaining: list[str]) -> str | None:
    """Remove and return the next word if it is the argument of the option."""
    if option.takes is Takes.ARGUMENT:
        if not remaining:
            raise UsageError(f"Option {option.name} requires an argument")
        return remaining.pop()
    if not remaining or (remaining[-1].startswith("-") and remaining[-1] != "-"):
        return None
    return remaining.pop()


def _check_options(line: CommandLine) -> None:
    """Check each option as jopt-simple does. Raises UsageError."""
    given = [option for option in OPTIONS if line.has(option.name)]
    stray = [
        option.name
        for option in given
        if option.only_with and not line.has(*option.only_with)
    ]
    if stray:
        raise UsageError(
            f"Option(s) [{', '.join(stray)}] are unavailable given other options on "
            "the command line"
        )
    for option in given:
        values = line.given[option.name]
        if len(values) > 1 and not option.is_repeatable:
            raise UsageError(
                f"Found multiple arguments for option {option.name}, but you asked for "
                "only one"
            )
        if option.is_number and not (
            _LONG.fullmatch(values[0]) and abs(int(values[0])) <= _LONG_MAX
        ):
            raise UsageError(
                f"Cannot parse argument '{values[0]}' of option {option.name}"
            )


def check(line: CommandLine) -> None:
    """Check combinations of options, in the order and with the messages of
    kafka-consumer-groups.sh.

    Raises UsageError.
    """
    if not line.has("validate-regex", "bootstrap-server"):
        raise UsageError('Missing required argument "[bootstrap-server]"')
    timeout_ms = line.number("timeout")
    if timeout_ms is not None and timeout_ms < 1:
        raise UsageError("Option [timeout] takes a number of milliseconds, at least 1")
    if line.has("describe"):
        _check_describe(line)
    if line.has("delete"):
        _check_delete(line)
    if line.has("delete-offsets") and not (line.has("group") and line.has("topic")):
        raise UsageError(
            "Option [delete-offsets] takes the following options: [group], [topic]"
        )
    if line.has("reset-offsets"):
        _check_reset(line)
    _exclude(line, "group", ("all-groups", "list"))
    _exclude(line, "topic", ("list", "describe") if line.is_strict else ("list",))
    if sum(line.has(action) for action in ACTIONS) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {actions}")
    if line.has("reset-offsets"):
        _check_reset_scope(line)
    if line.has("delete-offsets") and len(line.all("group")) > 1:
        raise UsageError(
            "Found multiple arguments for option group, but you asked for only one"
        )


def _check_describe(line: CommandLine) -> None:
    _require_groups(line, "describe")
    if sum(line.has(table) for table in _TABLES) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: " + _names(_TABLES)
        )
    if line.one("state") is not None:
        raise UsageError("Option [describe] does not take a value for [state]")
    if line.has("topic") and line.has("members", "state") and not line.is_strict:
        raise UsageError("Option [topic] selects rows of the table of offsets only")


def _check_delete(line: CommandLine) -> None:
    _require_groups(line, "delete")
    if line.has("topic"):
        raise UsageError(
            "The consumer does not support topic-specific offset deletion from a "
            "consumer group."
        )


def _check_reset(line: CommandLine) -> None:
    if line.has("dry-run") and line.has("execute"):
        raise UsageError(
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
        )
    _require_groups(line, "reset-offsets")
    for scenario in SCENARIOS:
        _exclude(line, scenario, [each for each in SCENARIOS if each != scenario])


def _check_reset_scope(line: CommandLine) -> None:
    if not line.has("all-topics", "topic", "from-file"):
        raise UsageError(
            "One of the reset scopes should be defined: --all-topics, --topic."
        )
    if not line.has(*SCENARIOS):
        raise UsageError(
            "Option '[reset-offsets]' requires one of the following scenarios: "
            f"[{_names(SCENARIOS)}]"
        )


def _require_groups(line: CommandLine, action: str) -> None:
    if not line.has(*_GROUP_OPTIONS):
        raise UsageError(
            f"Option [{action}] takes one of these options: {_names(_GROUP_OPTIONS)}"
        )


def _exclude(line: CommandLine, used: str, others: Iterable[str]) -> None:
    if not line.has(used):
        return
    for other in others:
        if line.has(other):
            raise UsageError(
                f'Option "[{used}]" can\'t be used with option "[{other}]"'
            )


def _names(options: Iterable[str]) -> str:
    return ", ".join(f"[{option}]" for option in options)


def selectors(line: CommandLine) -> tuple[TopicSelector, ...]:
    """Return the topics of `--topic t` and `--topic t:0,1,2`. Raises UsageError.

    The messages are those of kafka-consumer-groups.sh (C-64).
    """
    return tuple(_read_selector(text) for text in line.all("topic"))


def _read_selector(text: str) -> TopicSelector:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return TopicSelector(text)
    if not topic or not numbers or ":" in numbers:
        raise UsageError(
            f"Invalid topic arg '{text}', expected topic name and partitions"
        )
    return TopicSelector(topic, tuple(sorted(set(_read_partitions(text, numbers)))))


def _read_partitions(text: str, numbers: str) -> Iterable[int]:
    for number in numbers.split(","):
        if not (
            number.isascii() and number.isdigit() and int(number) <= _PARTITION_MAX
        ):
            raise UsageError(
                f"Invalid partition '{number}' specified in topic arg '{text}'"
            )
        yield int(number)
