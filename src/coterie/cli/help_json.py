"""Every command and its options as JSON, for programs: `coterie --help-json`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from coterie.cli.main import VERBS, Verb, make_parser

SCHEMA = "coterie.help"
_ALWAYS = ("help",)


def print_help() -> None:
    """Write it to stdout."""
    commands = [command(verb) for verb in VERBS if not verb.is_hidden]
    document = {"schema": SCHEMA, "schema_version": 1, "commands": commands}
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def command(verb: Verb) -> dict[str, Any]:
    """One command. Of one with a grammar of its own only the name is known here."""
    if verb.has_own_grammar:
        return {"name": verb.name, "summary": verb.summary, "arguments": None}
    parser = parser_of(verb)
    return {
        "name": verb.name,
        "summary": verb.summary,
        "description": parser.description,
        "examples": parser.epilog,
        "arguments": [
            _argument(each)
            for each in parser._actions  # noqa: SLF001 - argparse has no other way
            if each.dest not in _ALWAYS and each.help is not argparse.SUPPRESS
        ],
    }


def parser_of(verb: Verb) -> argparse.ArgumentParser:
    """The parser of a verb, with its options."""
    parser = make_parser(verb.name)
    for word in verb.words:
        commands = next(
            each
            for each in parser._actions  # noqa: SLF001
            if isinstance(each, argparse._SubParsersAction)  # noqa: SLF001
        )
        parser = commands.choices[word]
    return parser


def _argument(action: argparse.Action) -> dict[str, Any]:
    is_flag = action.nargs == 0
    choices = None if action.choices is None else [str(each) for each in action.choices]
    return {
        "names": list(action.option_strings),
        "value": None if is_flag else _metavar(action),
        "choices": choices,
        "default": action.default if _is_plain(action.default) else str(action.default),
        "required": action.required,
        "repeatable": action.nargs in {"*", "+"} or "Append" in type(action).__name__,
        "help": action.help,
    }


def _metavar(action: argparse.Action) -> str:
    return str(action.metavar or action.dest).upper()


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list)
