"""The options of kafka-consumer-groups.sh in the order of its help, and the help
text."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Takes(Enum):
    """The number of arguments of an option."""

    NO_ARGUMENT = "nothing"
    ARGUMENT = "argument"
    OPTIONAL_ARGUMENT = "maybe"


class Option(NamedTuple):
    """An option of kafka-consumer-groups.sh."""

    name: str
    help: str
    takes: Takes = Takes.NO_ARGUMENT
    argument: str = ""
    is_number: bool = False
    is_repeatable: bool = False
    only_with: tuple[str, ...] = ()
    """Options of which at least one must be given too."""


def _with(name: str, argument: str, text: str) -> Option:
    return Option(name, text, Takes.ARGUMENT, argument)


def _number(name: str, argument: str, text: str) -> Option:
    return Option(name, text, Takes.ARGUMENT, argument, is_number=True)


def _repeatable(name: str, argument: str, text: str) -> Option:
    return Option(name, text, Takes.ARGUMENT, argument, is_repeatable=True)


def _for_describe(name: str, text: str) -> Option:
    return Option(name, text, only_with=("describe",))


TIMEOUT_MS: Final = 30_000

OPTIONS: Final = (
    Option("all-groups", "all consumer groups instead of those of --group"),
    Option("all-topics", "all partitions with a committed offset, for --reset-offsets"),
    _with(
        "bootstrap-server",
        "HOST:PORT[,...]",
        "addresses of one or more brokers; required",
    ),
    _with("by-duration", "PnDTnHnMnS", "reset to a duration before now"),
    _with("command-config", "FILE", "path of a client.properties file"),
    Option("delete", "delete consumer groups with their offsets"),
    Option("delete-offsets", "delete committed offsets of one group for --topic"),
    Option(
        "describe", "describe offsets and lag of groups, their members, or their state"
    ),
    Option("dry-run", "show the change without writing"),
    Option("execute", "reset the offsets"),
    Option("export", "print the new offsets as CSV"),
    _with("from-file", "FILE", "reset to the offsets of a CSV file"),
    _repeatable("group", "ID", "consumer group id; may be repeated"),
    Option("help", "print this help and exit"),
    Option("list", "list consumer groups"),
    _for_describe("members", "describe the members"),
    _for_describe("offsets", "describe offsets and lag, the default of --describe"),
    Option("reset-offsets", "reset the offsets of groups that have no members"),
    _number("shift-by", "N", "reset by a number of offsets, backwards if negative"),
    Option(
        "state",
        "describe the state; with --list, print states or select groups by state",
        Takes.OPTIONAL_ARGUMENT,
        "STATE,...",
        only_with=("describe", "list"),
    ),
    _number("timeout", "MS", f"timeout of each call (default: {TIMEOUT_MS})"),
    Option(
        "to-current",
        "reset to the committed offset; without one, to the log end offset",
    ),
    _with("to-datetime", "YYYY-MM-DDThh:mm:ss.sss", "reset to a time; UTC or a zone"),
    Option("to-earliest", "reset to the log start offset"),
    Option("to-latest", "reset to the log end offset"),
    _number("to-offset", "N", "reset to a given offset"),
    _repeatable(
        "topic", "TOPIC[:0,1,2]", "topic to reset or delete offsets of; may be repeated"
    ),
    Option(
        "type",
        "with --list, print types or select groups by type",
        Takes.OPTIONAL_ARGUMENT,
        "TYPE,...",
        only_with=("list",),
    ),
    _with("validate-regex", "REGEX", "check whether a regular expression is valid RE2"),
    _for_describe("verbose", "describe more columns"),
    Option("version", "print the version and exit"),
)

BY_NAME: Final = {option.name: option for option in OPTIONS}

ACTIONS: Final = (
    "list",
    "describe",
    "delete",
    "reset-offsets",
    "delete-offsets",
    "validate-regex",
)
SCENARIOS: Final = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)

_INTRODUCTION: Final = """\
List, describe and delete consumer groups, and reset or delete their offsets, with the
options, tables and messages of Apache Kafka's kafka-consumer-groups.sh.
"""

_ADDITIONS: Final = """\
additions of Coterie:
  --describe [--offsets] --topic TOPIC[:0,1,2]  only these partitions
  --describe --state                            columns GENERATION-ID and LEADER-ID
  --describe --members                          column ASSIGNMENT-STRATEGY
  --describe --members --verbose                also column SUBSCRIPTION
  a LAG that is never negative and does not count deleted records
  a row for each member without partitions
"""

_EXAMPLES: Final = """\
examples:
  coterie kafka-consumer-groups --bootstrap-server localhost:9092 --list --state
  coterie kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group g
  coterie kafka-consumer-groups --bootstrap-server localhost:9092 \\
      --group g --reset-offsets --to-earliest --topic orders:0,1 --dry-run
  printf '#!/bin/sh\\nexec coterie kafka-consumer-groups "$@"\\n' \\
      > kafka-consumer-groups.sh; chmod +x kafka-consumer-groups.sh
      a script with the original name

exit codes: 0 success, 1 failure or usage error
"""

_LEFT: Final = 40


def usage() -> str:
    """Return the help text."""
    options = "".join(map(_usage_line, OPTIONS))
    return f"{_INTRODUCTION}\noptions:\n{options}\n{_ADDITIONS}\n{_EXAMPLES}"


def _usage_line(option: Option) -> str:
    left = f"  --{option.name}"
    if option.takes is Takes.ARGUMENT:
        left += f" {option.argument}"
    if option.takes is Takes.OPTIONAL_ARGUMENT:
        left += f" [{option.argument}]"
    gap = " " if len(left) < _LEFT else "\n" + " " * (_LEFT + 1)
    return f"{left:<{_LEFT}}{gap}{option.help}\n"
