"""Shell completion, by argcomplete.

The scripts of `coterie completion` run `coterie` with `_ARGCOMPLETE` in its
environment. Commands, options and choices come from the parser of the command, so they
are never out of date; here are the values that a parser does not know: states, columns,
profiles, snapshots, and names that the cluster has at that moment.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from typing import Any, Final, TypeAlias

from coterie import client
from coterie import operations as ops
from coterie.cli import connect
from coterie.cli.command import Command
from coterie.cli.connect import add_connection_options
from coterie.cli.output.outcome import Column
from coterie.cli.output.tables import encodable
from coterie.cli.registry import find_command
from coterie.errors import CoterieError

_SHELLS: Final = ("bash", "zsh", "fish")
_TIMEOUT_MS: Final = 1_500
"""The limit for a cluster."""

Line: TypeAlias = Sequence[str]
"""The words of a command before the one that is completed, with the command's own."""
Source: TypeAlias = Callable[[Line], Iterable[str]]
"""A function that returns the values of an argument."""


def _declare_shell(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="name of the shell")


def print_script(options: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["coterie"], shell=options.shell))
    return 0


COMPLETION: Final = Command(
    description="""\
Print the completion script of a shell. It completes commands, options and their values,
profiles, snapshots, and the names of groups and topics on the cluster.

The cluster is the one of the command line being typed, of the environment, or of a
profile. When it does not respond in 1.5 s, no names are offered.
""",
    examples="""\
examples:
  source <(coterie completion bash)
      in ~/.bashrc
  source <(coterie completion zsh)
      in ~/.zshrc, after compinit
  coterie completion fish | source
      in ~/.config/fish/config.fish
""",
    options=(_declare_shell,),
    run=print_script,
)


def complete() -> None:
    """Print the candidates for the line in the environment, and exit."""
    from argcomplete.finders import CompletionFinder
    from argcomplete.lexers import split_line

    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    _, _, _, words, _ = split_line(line, point)
    begins = _command_start(words)
    os.environ["_ARGCOMPLETE"] = str(begins + 1)  # argcomplete counts from 1
    parser = parser_for(words[begins + 1 :])
    CompletionFinder()(parser, **FINDING)


def _command_start(words: Line) -> int:
    """Return the index of the command in a line, of which zsh sends the whole: after
    `true;`, `sudo` or `A=b`, for example."""
    begins = 0
    for index, word in enumerate(words):
        if word.endswith((";", "&", "|")):
            begins = index + 1
    names = [word.rpartition("/")[2] for word in words[begins:]]
    return begins + names.index("coterie") if "coterie" in names else begins


def parser_for(words: Line) -> argparse.ArgumentParser:
    """Return the parser of a line with the values of its arguments."""
    from coterie.cli.parser import CommandParser, command_parser, make_parser

    entry = find_command(words)
    parser = make_parser(entry)
    if entry is not None:
        command = command_parser(parser, entry)
        if entry.parses_itself:
            _declare_kafka_options(command)
        if isinstance(command, CommandParser):
            # An unfinished line has no errors, and no last name.
            command.has_all_options = False
        _add_completers(command, words)
    return parser


def _is_shown(candidate: str, typed: str) -> bool:
    # A name with a line feed or an escape sequence cannot be shown, nor one that the
    # encoding of the terminal does not have.
    return (
        candidate.startswith(typed)
        and candidate.isprintable()
        and encodable(candidate, sys.stdout.encoding) == candidate
    )


FINDING: Final[Mapping[str, Any]] = {
    "always_complete_options": False,
    "validator": _is_shown,
}
"""The parameters of argcomplete."""


def _declare_kafka_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of kafka-consumer-groups, which parses itself."""
    from coterie.cli.kafka_consumer_groups.options import OPTIONS, Takes

    nargs: dict[Takes, Any] = {
        Takes.NO_ARGUMENT: {"action": "store_true"},
        Takes.OPTIONAL_ARGUMENT: {"nargs": "?"},
        Takes.ARGUMENT: {},
    }
    for each in OPTIONS:
        if each.name != "help":  # argparse has it
            parser.add_argument(f"--{each.name}", help=each.help, **nargs[each.takes])


def _add_completers(parser: argparse.ArgumentParser, words: Line) -> None:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                _add_completers(each, words)
            continue
        # An argument is known by its option or, for a positional one, its metavar.
        for name in [*action.option_strings] or [str(action.metavar)]:
            source = _SOURCES.get(name)
            if name == "--config" and words[:1] == ["topics"]:
                source = _of_cluster(_topic_configs)
            if source is not None:
                action.completer = (  # type: ignore[attr-defined]
                    lambda source=source, **_: _values_of(source, words)
                )


def _values_of(source: Source, line: Line) -> list[str]:
    """Return the values of an argument. A source that fails has none: a message would
    appear in the middle of the line being typed."""
    try:
        # Settings may cause warnings.
        with redirect_stderr(StringIO()):
            return list(source(line))
    except (CoterieError, OSError, ValueError):
        return []


def _option_value(line: Line, option: str) -> str | None:
    """Return the last value of an option on the line."""
    found = None
    for word, following in zip(line, [*line[1:], None], strict=False):
        if word == option:
            found = following
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found


def _states(_: Line) -> Iterable[str]:
    return (
        each.value
        for each in client.GroupState
        if each is not client.GroupState.UNKNOWN
    )


def _types(_: Line) -> Iterable[str]:
    return (
        each.value for each in client.GroupType if each is not client.GroupType.UNKNOWN
    )


def _lag_columns(line: Line) -> Iterable[str]:
    """Return the columns of a command about lag, which depend on --by."""
    from coterie.cli.groups import lag_report

    default = "partition" if list(line[:2]) == ["groups", "describe"] else "group"
    by = _option_value(line, "--by") or default
    columns: tuple[Column, ...] = lag_report.PARTITION_COLUMNS
    if by != "partition":
        columns = lag_report.rollup_columns(ops.RollupBy(by))
    if list(line[:2]) == ["groups", "watch"]:
        columns = (*columns, *lag_report.RATE_COLUMNS)
    return (each.key for each in columns)


def _shown_columns(line: Line) -> Iterable[str]:
    is_lag = line[0] == "groups" and line[1] in {"describe", "lag", "watch"}
    return _lag_columns(line) if is_lag else ()


def _profiles(_: Line) -> Iterable[str]:
    from coterie.cli.setting_sources import profile_names

    return profile_names(os.environ)


def _snapshots(line: Line) -> Iterable[str]:
    from coterie.cli.groups.write import snapshot_directory

    directory = _option_value(line, "--snapshots")
    options = argparse.Namespace(snapshots=directory)
    return (
        each.head.snapshot_id
        for each in ops.list_snapshots(snapshot_directory(options))
    )


# Names on the cluster.


def _of_cluster(
    fetch: Callable[[client.AdminClient, Line], Awaitable[Iterable[str]]],
) -> Source:
    """Return a source that fetches names from the cluster of the line."""

    async def connect_and_fetch(line: Line) -> Iterable[str]:
        import asyncio

        async with (
            asyncio.timeout(_TIMEOUT_MS / 1000),
            connect.open_admin(_connection_options(line)) as admin,
        ):
            return await fetch(admin, line)

    def names(line: Line) -> Iterable[str]:
        import asyncio

        return asyncio.run(connect_and_fetch(line))

    return names


async def _groups(admin: client.AdminClient, _: Line) -> Iterable[str]:
    listings = await admin.groups.list()
    return [each.group_id for each in listings.groups]


async def _topics(admin: client.AdminClient, _: Line) -> Iterable[str]:
    topics = await admin.topics.describe()
    return [each.name for each in topics.values.values() if not each.is_internal]


async def _topic_configs(admin: client.AdminClient, _: Line) -> Iterable[str]:
    """Return the names of topic configurations, from those of any topic."""
    topics = await admin.topics.describe()
    for name in topics.values:
        resource = client.ConfigResource(client.ConfigResourceType.TOPIC, name)
        configs = await admin.configs.describe([resource])
        return [each.name for each in configs.one(resource)]
    return []


def _connection_options(line: Line) -> argparse.Namespace:
    """Parse the connection options of an unfinished line and ignore everything else."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_connection_options(parser)
    try:
        options, _ = parser.parse_known_args(list(line))
    except (argparse.ArgumentError, SystemExit):
        options = parser.parse_args([])
    options.timeout = _TIMEOUT_MS
    return options


_SOURCES: Final[Mapping[str, Source]] = {
    "--state": _states,
    "--type": _types,
    "--protocol": lambda _: ("connect", "consumer", "share", "simple", "streams"),
    "--sort": _lag_columns,
    "--columns": _shown_columns,
    "--profile": _profiles,
    "ID": _snapshots,
    **dict.fromkeys(
        ("GROUP", "--group", "SOURCE", "DESTINATION"), _of_cluster(_groups)
    ),
    **dict.fromkeys(("TOPIC", "--topic", "--partitions"), _of_cluster(_topics)),
}
