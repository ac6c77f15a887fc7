"""A parsed command line of kafka-consumer-groups.sh, and the checks of its options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coterie import operations as ops
from coterie.cli.kafka_consumer_groups.options import (
    ACTIONS,
    BY_NAME,
    OPTIONS,
    SCENARIOS,
    Option,
    Takes,
)
from coterie.errors import SettingError

_PARTITION_MAX: Final = 2**31 - 1
_GROUP_OPTIONS: Final = ("group", "all-groups")
_TABLES: Final = ("members", "offsets", "state")
_CHECKED_SCENARIOS: Final = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)
"""The scenarios in the order in which kafka-consumer-groups.sh checks them."""
# Long.valueOf and Integer.parseInt read the decimal digits of every script.
_LONG: Final = re.compile(r"[+-]?\d+")
_LONG_MAX: Final = 2**63 - 1


class UsageError(SettingError):
    """An invalid command line, rejected before any request is sent."""


_ONLY_ONE: Final = "Found multiple arguments for option {}, but you asked for only one"


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
        _check_strays(line)
        _check_values(line)
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


def _check_strays(line: CommandLine) -> None:
    """Check that options have those that they need. Raises UsageError."""
    stray = [
        option.name
        for option in OPTIONS
        if line.has(option.name)
        and option.only_with
        and not line.has(*option.only_with)
    ]
    if stray:
        raise UsageError(
            f"Option(s) [{', '.join(stray)}] are unavailable given other options on "
            "the command line"
        )


def _check_values(line: CommandLine) -> None:
    """Check that options which take one value have one, and the numbers. Raises
    UsageError."""
    for name, values in line.given.items():
        option = BY_NAME[name]
        if len(values) > 1 and not option.is_repeatable:
            raise UsageError(_ONLY_ONE.format(name))
        for value in values if option.is_number else ():
            if not (
                _LONG.fullmatch(value) and -_LONG_MAX - 2 < int(value) <= _LONG_MAX
            ):
                raise UsageError(f"Cannot parse argument '{value}' of option {name}")


def check_actions(line: CommandLine) -> None:
    """Check the options of actions, in the order and with the messages of
    kafka-consumer-groups.sh: those checks that come before the warning of a reset.

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
    if line.has("reset-offsets") and line.has("dry-run") and line.has("execute"):
        raise UsageError(
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
        )


def check_combinations(line: CommandLine) -> None:
    """Make the checks that come after the warning of a reset. Raises UsageError."""
    if line.has("reset-offsets"):
        _check_reset(line)
    _exclude(line, "group", ("all-groups", "list"))
    _exclude(line, "topic", ("list",))
    if sum(line.has(action) for action in ACTIONS) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {actions}")
    if line.has("reset-offsets"):
        _check_reset_scope(line)
    if line.has("delete-offsets") and len(line.all("group")) > 1:
        raise UsageError(_ONLY_ONE.format("group"))


def _check_describe(line: CommandLine) -> None:
    _require_groups(line, "describe")
    if sum(line.has(table) for table in _TABLES) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: " + _names(_TABLES)
        )
    if line.one("state") is not None:
        raise UsageError("Option [describe] does not take a value for [state]")
    if line.has("topic") and line.has("members", "state"):
        raise UsageError("Option [topic] selects rows of the table of offsets only")


def _check_delete(line: CommandLine) -> None:
    _require_groups(line, "delete")
    if line.has("topic"):
        raise UsageError(
            "The consumer does not support topic-specific offset deletion from a "
            "consumer group."
        )


def _check_reset(line: CommandLine) -> None:
    _require_groups(line, "reset-offsets")
    for scenario in _CHECKED_SCENARIOS:
        _exclude(line, scenario, [each for each in SCENARIOS if each != scenario])


def _check_reset_scope(line: CommandLine) -> None:
    """Check that a reset has a scope and a scenario. Raises UsageError."""
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


def selectors(line: CommandLine) -> tuple[ops.TopicSelector, ...]:
    """Return the topics of `--topic t` and `--topic t:0,1,2`. Raises UsageError.

    The messages are those of kafka-consumer-groups.sh (C-64).
    """
    return tuple(_read_topic(text) for text in line.given.get("topic", ()))


def _read_topic(text: str) -> ops.TopicSelector:
    if ":" not in text:
        return ops.TopicSelector(text)
    parts = text.split(":")
    if len(parts) != 2 or not all(parts):
        raise UsageError(
            f"Invalid topic arg '{text}', expected topic name and partitions"
        )
    topic, joined = parts
    numbers = joined.split(",")
    for number in numbers:
        if not (_LONG.fullmatch(number) and 0 <= int(number) <= _PARTITION_MAX):
            raise UsageError(
                f"Invalid partition '{number}' specified in topic arg '{text}'"
            )
    return ops.TopicSelector(topic, tuple(sorted({int(number) for number in numbers})))
