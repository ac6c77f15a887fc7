"""What goes together on a command line, in the order and words of Apache's tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coterie.cli.kafka_consumer_groups.grammar import CommandLine, UsageError
from coterie.cli.kafka_consumer_groups.options import ACTIONS, SCENARIOS

WHOLE_GROUPS: Final = ("group", "all-groups")
_TABLES: Final = ("members", "offsets", "state")


def check(line: CommandLine) -> None:
    """Raises UsageError when options do not go together."""
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
        _check_what_to_reset(line)
    if line.has("delete-offsets") and len(line.all("group")) > 1:
        raise UsageError(
            "Found multiple arguments for option group, but you asked for only one"
        )


def _check_describe(line: CommandLine) -> None:
    _need_groups(line, "describe")
    if sum(line.has(table) for table in _TABLES) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: " + _names(_TABLES)
        )
    if line.one("state") is not None:
        raise UsageError("Option [describe] does not take a value for [state]")
    if line.has("topic") and line.has("members", "state") and not line.is_strict:
        raise UsageError("Option [topic] selects rows of the table of offsets only")


def _check_delete(line: CommandLine) -> None:
    _need_groups(line, "delete")
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
    _need_groups(line, "reset-offsets")
    for scenario in SCENARIOS:
        _exclude(line, scenario, [each for each in SCENARIOS if each != scenario])


def _check_what_to_reset(line: CommandLine) -> None:
    if not line.has("all-topics", "topic", "from-file"):
        raise UsageError(
            "One of the reset scopes should be defined: --all-topics, --topic."
        )
    if not line.has(*SCENARIOS):
        raise UsageError(
            "Option '[reset-offsets]' requires one of the following scenarios: "
            f"[{_names(SCENARIOS)}]"
        )


def _need_groups(line: CommandLine, action: str) -> None:
    if not line.has(*WHOLE_GROUPS):
        raise UsageError(
            f"Option [{action}] takes one of these options: {_names(WHOLE_GROUPS)}"
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
