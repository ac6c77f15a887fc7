"""What may stand where a command line is being typed, one word a line: for the scripts
of `coterie completion`.

    coterie complete -- groups describe or

The last word is the one being typed; it may be empty. Options and their values come
from the verb's own parser, so they are never out of date. Names come from the cluster,
which has a second and a half to answer.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from coterie.cli.main import VERBS, Verb

_TIMEOUT_MS: Final = "1500"
_GROUPS: Final = "groups"
_TOPICS: Final = "topics"
_NAMED: Final = {
    "GROUP": _GROUPS,
    "--group": _GROUPS,
    "TOPIC": _TOPICS,
    "--topic": _TOPICS,
}
"""What a positional argument or an option stands for, by its metavar or name."""


def main(arguments: Sequence[str]) -> int:
    """Print the candidates."""
    words = list(arguments[1:] if arguments[:1] == ["--"] else arguments) or [""]
    for each in sorted(set(candidates(words))):
        sys.stdout.write(f"{each}\n")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """What the last word may become."""
    *before, typed = words
    verb = _verb(before)
    found = _next_words(before) if verb is None else _of_verb(verb, before, typed)
    return [each for each in found if each.startswith(typed)]


def _verb(before: Sequence[str]) -> Verb | None:
    return next(
        (each for each in VERBS if before[: len(each.words)] == each.words), None
    )


def _next_words(before: Sequence[str]) -> list[str]:
    at = len(before)
    return [
        each.words[at]
        for each in VERBS
        if not each.is_hidden and each.words[:at] == before and len(each.words) > at
    ]


def _of_verb(verb: Verb, before: Sequence[str], typed: str) -> Iterable[str]:
    typed_before = before[len(verb.words) :]
    last = typed_before[-1] if typed_before else ""
    if verb.has_own_grammar:
        return _live(_NAMED.get(last), typed_before)
    actions = _actions(verb)
    option = next((each for each in actions if last in each.option_strings), None)
    if option is not None and option.nargs != 0:
        return _choices(option) or _live(_NAMED.get(last), typed_before)
    if typed.startswith("-"):
        return [name for each in actions for name in each.option_strings]
    positional = next((each for each in actions if not each.option_strings), None)
    if positional is None:
        return ()
    return _choices(positional) or _live(
        _NAMED.get(str(positional.metavar)), typed_before
    )


def _choices(action: argparse.Action) -> list[str]:
    return [str(each) for each in action.choices or ()]


def _actions(verb: Verb) -> list[argparse.Action]:
    """The arguments that a verb takes."""
    from coterie.cli.help_json import parser_of

    return parser_of(verb)._actions  # noqa: SLF001 - argparse has no other way


def _live(kind: str | None, before: Sequence[str]) -> Iterable[str]:
    """Names on the cluster; none when it cannot be asked."""
    if kind is None:
        return ()
    import asyncio

    from coterie.errors import CoterieError

    try:
        return asyncio.run(_names(kind, before))
    except (CoterieError, OSError):
        return ()


async def _names(kind: str, before: Sequence[str]) -> list[str]:
    from coterie.cli import connect

    async with connect.open_admin(_connection(before)) as admin:
        if kind == _TOPICS:
            topics = await admin.describe_topics()
            return [
                each.name for each in topics.values.values() if not each.is_internal
            ]
        listed = await admin.list_groups()
        return [each.group_id for each in listed.groups]


def _connection(before: Sequence[str]) -> argparse.Namespace:
    """The connection that the line says; what else it says does not matter."""
    from coterie.cli.connect import add_connection_options

    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_connection_options(parser)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        stderr, sys.stderr = sys.stderr, nowhere
        try:
            options, _ = parser.parse_known_args(list(before))
        except (argparse.ArgumentError, SystemExit):
            options = parser.parse_args([])
        finally:
            sys.stderr = stderr
    options.timeout = int(_TIMEOUT_MS)
    return options
