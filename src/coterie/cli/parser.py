"""The command line of `coterie`: the registry as an argparse parser, and as JSON.

The parser of one command has the options of that command only: declaring those of all
commands takes a tenth of a short run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from coterie.cli.registry import COMMANDS, FAMILIES, FAMILY_EXAMPLES, Entry

if TYPE_CHECKING:
    from coterie.cli.command import Command

    _Subparsers: TypeAlias = argparse._SubParsersAction[Any]  # noqa: SLF001

_EXAMPLES: Final = """\
examples:
  coterie serve                       on 127.0.0.1:9092, with data in ./coterie-data
  coterie serve --memory --listen :0  in memory, on a free port, for experiments
  coterie groups list                 every group of a cluster
  coterie kafka-consumer-groups --bootstrap-server localhost:9092 --list
"""
_KAFKA_OPTIONS: Final[Mapping[str, str]] = {
    "--group": "group ids need no option",
    "--all-groups": "it is --all here",
    "--all-topics": "all topics are the default",
    "--dry-run": "a preview is the default",
    "--members": "`coterie groups members` shows members",
    "--offsets": "`coterie groups offsets list` shows offsets",
}
"""Options of kafka-consumer-groups.sh that are habits, and what to write instead."""
_HELP_SCHEMA: Final = "coterie.help"


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser with positionals between options, and errors of one sentence.

    Names of groups or topics may be placed before, between and after the options.
    Options cannot be abbreviated: `--exec` must not write, and an abbreviation that is
    unique today is ambiguous once another option is added.
    """

    has_all_options = False
    """Set on the parser of a command: an unknown option is an error there."""
    takes_names = False
    """Set when the only positional argument is a list of names."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        if not self.has_all_options:
            return super().parse_known_args(args, namespace)
        # parse_known_intermixed_args calls this method again.
        self.has_all_options = False
        parse = super().parse_known_args
        if self.takes_names and "--" not in (args or ()):
            parse = self.parse_known_intermixed_args
        options, unknown = parse(args, namespace)
        if unknown:
            self.error("; ".join(map(self._describe_unknown, unknown)))
        return options, []

    def _describe_unknown(self, word: str) -> str:
        from difflib import get_close_matches

        option = word.partition("=")[0]
        near = get_close_matches(option, self._option_string_actions)
        hint = f" (did you mean {near[0]}?)" if near else ""
        if option in _KAFKA_OPTIONS and self.prog.startswith("coterie groups "):
            hint = f" ({_KAFKA_OPTIONS[option]})"
        return f"unknown argument {word}{hint}"

    def error(self, message: str) -> NoReturn:
        """Exit with 2 and one sentence, instead of argparse's full usage."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def make_parser(called: Entry | None = None) -> argparse.ArgumentParser:
    """Return the parser of `coterie`: for one command with its options, or for the
    names and summaries of all commands."""
    parser = CommandParser(
        prog="coterie",
        description="Kafka's group coordinator in Python.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version",
        action=_Print,
        nargs=0,
        const=_version_text,
        help="show the version and exit",
    )
    parser.add_argument(
        "--help-json",
        action=_Print,
        nargs=0,
        const=_help_text,
        help="show every command and its options as JSON, and exit",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    families: dict[str, _Subparsers] = {"": commands}
    for entry in COMMANDS if called is None else (called,):
        *family, name = entry.words
        subparser = _family(families, family).add_parser(
            name,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            help=entry.summary,
        )
        if called is not None and not entry.parses_itself:
            command: Command = entry.load()
            command.configure(subparser)
            subparser.set_defaults(run=command.run, command=entry.name)
            subparser.has_all_options = True
            positional = [each.nargs for each in subparser._get_positional_actions()]  # noqa: SLF001
            subparser.takes_names = positional in (["*"], ["+"])
    return parser


def _family(families: dict[str, _Subparsers], words: list[str]) -> _Subparsers:
    """Return the subparsers of a family of commands; add the family when it is new."""
    name = " ".join(words)
    if name not in families:
        summary = FAMILIES[name]
        parser = _family(families, words[:-1]).add_parser(
            words[-1],
            help=summary,
            description=f"{summary}.",
            epilog=FAMILY_EXAMPLES.get(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        families[name] = parser.add_subparsers(metavar="COMMAND", required=True)
    return families[name]


def arguments_of(entry: Entry) -> tuple[argparse.ArgumentParser, list[argparse.Action]]:
    """Return the parser of one command, and its arguments."""
    parser = command_parser(make_parser(entry), entry)
    return parser, parser._actions  # noqa: SLF001


def command_parser(
    parser: argparse.ArgumentParser, entry: Entry
) -> argparse.ArgumentParser:
    """Return the parser of a command below that of `coterie`."""
    for word in entry.words:
        subparsers = next(
            each
            for each in parser._actions  # noqa: SLF001 - argparse has no public way
            if isinstance(each, argparse._SubParsersAction)  # noqa: SLF001
        )
        parser = subparsers.choices[word]
    return parser


class _Print(argparse.Action):
    """An argparse action that prints the text that a function returns, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        sys.stdout.write(f"{self.const()}\n")
        parser.exit()


def _version_text() -> str:
    from importlib.metadata import version  # slow to import

    from coterie.wire.codec import COMPILED

    build = "compiled" if COMPILED else "pure Python"
    return f"coterie {version('coterie')} ({build})"


def _help_text() -> str:
    import json

    return json.dumps(help_document(), indent=2)


def help_document() -> dict[str, Any]:
    """Return the document of `coterie --help-json`."""
    commands = [_command_item(entry) for entry in COMMANDS]
    return {"schema": _HELP_SCHEMA, "schema_version": 1, "commands": commands}


def _command_item(entry: Entry) -> dict[str, Any]:
    # A command that parses its own arguments declares no options to argparse.
    if entry.parses_itself:
        return {"name": entry.name, "summary": entry.summary, "arguments": None}
    parser, arguments = arguments_of(entry)
    return {
        "name": entry.name,
        "summary": entry.summary,
        "description": parser.description,
        "examples": parser.epilog,
        "arguments": [
            _argument_item(each)
            for each in arguments
            if each.dest != "help" and each.help is not argparse.SUPPRESS
        ],
    }


def _argument_item(action: argparse.Action) -> dict[str, Any]:
    default = action.default
    is_json = default is None or isinstance(default, bool | int | float | str | list)
    return {
        "names": list(action.option_strings),
        "value": (
            None if action.nargs == 0 else str(action.metavar or action.dest).upper()
        ),
        "choices": (
            None if action.choices is None else [str(each) for each in action.choices]
        ),
        "default": default if is_json else str(default),
        "required": action.required,
        "repeatable": action.nargs in {"*", "+"} or "Append" in type(action).__name__,
        "help": action.help,
    }
