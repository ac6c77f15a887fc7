"""Every option there is: Apache's, in the order of its help, and Coterie's own."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Takes(Enum):
    """Whether an option has an argument."""

    NOTHING = "nothing"
    ARGUMENT = "argument"
    MAYBE_ARGUMENT = "maybe"


class Option(NamedTuple):
    """One option. `only_with`: at least one of these has to be there too."""

    name: str
    help: str
    takes: Takes = Takes.NOTHING
    argument: str = ""
    is_number: bool = False
    is_repeatable: bool = False
    only_with: tuple[str, ...] = ()
    is_ours: bool = False


def _with(name: str, argument: str, text: str) -> Option:
    return Option(name, text, Takes.ARGUMENT, argument)


def _number(name: str, argument: str, text: str) -> Option:
    return Option(name, text, Takes.ARGUMENT, argument, is_number=True)


def _many(name: str, argument: str, text: str) -> Option:
    return Option(name, text, Takes.ARGUMENT, argument, is_repeatable=True)


def _describing(name: str, text: str) -> Option:
    return Option(name, text, only_with=("describe",))


TIMEOUT_MS: Final = 30_000

OPTIONS: Final = (
    Option("all-groups", "every consumer group instead of those named by --group"),
    Option("all-topics", "reset every partition for which the group has an offset"),
    _with("bootstrap-server", "HOST:PORT[,...]", "brokers to start from; required"),
    _with("by-duration", "PnDTnHnMnS", "reset to so long before now"),
    _with("command-config", "FILE", "client.properties with the connection's settings"),
    Option("delete", "delete consumer groups with their offsets"),
    Option("delete-offsets", "delete offsets of one group for the topics given"),
    Option("describe", "show offsets and lag of groups, their members, or their state"),
    Option("dry-run", "show what would be done, and do nothing"),
    Option("execute", "reset the offsets"),
    Option("export", "print the offsets of a reset as CSV"),
    _with("from-file", "FILE", "reset to the offsets of a CSV file"),
    _many("group", "ID", "the consumer group; may be repeated"),
    Option("help", "show this and leave"),
    Option("list", "list consumer groups"),
    _describing("members", "describe the members"),
    _describing(
        "offsets", "describe offsets and lag; so it is without this option too"
    ),
    Option("reset-offsets", "move the offsets of groups that have no members"),
    _number("shift-by", "N", "reset by so many offsets, backwards if negative"),
    Option(
        "state",
        "describe the state; with --list show states, or list only groups in these",
        Takes.MAYBE_ARGUMENT,
        "STATE,...",
        only_with=("describe", "list"),
    ),
    _number("timeout", "MS", f"how long each call may take (default: {TIMEOUT_MS})"),
    Option(
        "to-current", "reset to the committed offset; without one, to the log's end"
    ),
    _with(
        "to-datetime", "YYYY-MM-DDThh:mm:ss.sss", "reset to that time; UTC or a zone"
    ),
    Option("to-earliest", "reset to the start of the log"),
    Option("to-latest", "reset to the end of the log"),
    _number("to-offset", "N", "reset to this offset"),
    _many("topic", "TOPIC[:0,1,2]", "the topic to reset or delete offsets of"),
    Option(
        "type",
        "with --list show types, or list only groups of these",
        Takes.MAYBE_ARGUMENT,
        "TYPE,...",
        only_with=("list",),
    ),
    _with("validate-regex", "REGEX", "say whether a regular expression is valid RE2"),
    _describing("verbose", "describe more columns"),
    Option("version", "show the version and leave"),
    Option(
        "strict",
        "print what Apache's tool prints, without Coterie's columns",
        is_ours=True,
    ),
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
