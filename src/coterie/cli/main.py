"""The command `coterie`. One verb a file, imported when it is called and not before.

Exit codes: 0 it went well, 1 it or a part of it did not, 2 it was asked for wrongly,
3 a --fail-if condition is true, 130 interrupted.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

if TYPE_CHECKING:
    from typing import TypeAlias

    Commands: TypeAlias = argparse._SubParsersAction[Any]  # noqa: SLF001


class Verb(NamedTuple):
    """One command, called by one word or by two, and its module of `coterie.cli`:
    "groups list" is `groups/list.py` (with _ for -).

    A word that Python keeps for itself has a _ behind it.
    The module has `EXAMPLES`, `configure(parser)` and `run(options)`; one with a
    grammar of its own has `main(arguments)` instead.
    """

    name: str
    summary: str
    has_own_grammar: bool = False
    is_hidden: bool = False
    """Not in lists of commands: something for programs."""

    @property
    def words(self) -> list[str]:
        """What calls it."""
        return self.name.split()

    def load(self) -> ModuleType:
        """Its module."""
        names = (f"{word}_" if iskeyword(word) else word for word in self.words)
        return import_module(f"coterie.cli.{'.'.join(names).replace('-', '_')}")


VERBS: Final = (
    Verb("serve", "start a server that Kafka clients can use"),
    Verb("groups list", "which groups there are"),
    Verb("groups describe", "how far they are on each partition, and who owns it"),
    Verb("groups members", "who is in them, and who is to own what"),
    Verb("groups lag", "how far they are behind, added up"),
    Verb("groups watch", "how far they are behind, as it changes"),
    Verb("topics consumers", "which groups read a topic"),
    Verb("users add", "add a user to a server's data, or change the password"),
    Verb("users list", "which users a server's data has"),
    Verb("users remove", "take a user away from a server's data"),
    Verb("acls list", "who is allowed or denied what"),
    Verb("acls add", "allow somebody something, or deny it"),
    Verb("acls remove", "take back what is allowed or denied"),
    Verb("config explain", "every setting of the connection, and where it is from"),
    Verb("config check", "connect to every broker, and say as whom"),
    Verb("groups reset", "choose where groups read next"),
    Verb("groups delete", "delete groups that have no members"),
    Verb("groups clone", "give one group the offsets of another"),
    Verb("groups remove-members", "make members leave a group"),
    Verb("groups offsets list", "what groups committed"),
    Verb("groups offsets set", "commit exact offsets"),
    Verb("groups offsets delete", "delete committed offsets"),
    Verb("groups offsets export", "write committed offsets to a file"),
    Verb("groups offsets import", "commit the offsets of a file"),
    Verb("groups plan", "write what is to be done to a file, for review"),
    Verb("groups apply", "do what a plan file says"),
    Verb("groups undo", "take back what an earlier command wrote"),
    Verb("pipeline generate", "write a log to test on, and what happened in it"),
    Verb("pipeline decode", "show what stands in segment files, without a lake"),
    Verb("pipeline run", "read the coordinator's log into tables"),
    Verb("pipeline backfill", "make tables anew from a lake's records"),
    Verb("pipeline compact", "merge a lake's small files, drop what is left over"),
    Verb("pipeline report", "write one page of HTML about what a lake says"),
    Verb("pipeline check", "does a lake say what the brokers say?"),
    Verb("pipeline plan-stale", "write which groups may be deleted to a plan file"),
    Verb("pipeline sql", "ask the tables in Spark SQL: one query, or a prompt"),
    Verb("pipeline show current", "which groups a lake has, and who is in them"),
    Verb("pipeline show offsets", "where each group goes on from"),
    Verb("pipeline show lag", "how far behind groups were, in records and in time"),
    Verb("pipeline show status", "which groups were in trouble, and why"),
    Verb("pipeline show history", "what each group committed, and who did it"),
    Verb("pipeline show rebalances", "when groups rebalanced, why, what it moved"),
    Verb("pipeline show ownership", "who owned a partition, and at what time"),
    Verb("pipeline show expiry", "which offsets go by themselves, and when"),
    Verb("pipeline show stale", "which groups may go"),
    Verb("pipeline show quality", "how good is what the tables say"),
    Verb(
        "kafka-consumer-groups",
        "Apache Kafka's kafka-consumer-groups.sh: the same options and tables",
        has_own_grammar=True,
    ),
    Verb("completion", "let a shell complete commands, options, groups and topics"),
    Verb("complete", "", has_own_grammar=True, is_hidden=True),
)

FAMILIES: Final = {
    "groups": "look at consumer groups and change them",
    "acls": "look at who may do what, and change it",
    "config": "look at how a cluster is reached",
    "groups offsets": "look at what groups committed and change it",
    "users": "look at who may come in by SASL, and change it",
    "topics": "look at topics as groups see them",
    "pipeline": "turn the coordinator's log into tables",
    "pipeline show": "look at the tables, without Spark",
}
"""Words that take a further one."""

_GARBAGE_THRESHOLDS: Final = (50_000, 20, 20)

_EXAMPLES: Final = """\
examples:
  coterie serve                       on 127.0.0.1:9092, with data in ./coterie-data
  coterie serve --memory --listen :0  to try things on, on a free port
  coterie groups list                 every group of a cluster
  coterie kafka-consumer-groups --bootstrap-server localhost:9092 --list
"""


class _Parser(argparse.ArgumentParser):
    """One that takes names of groups or topics takes them before, between and after
    the options. Options are written out: `--exec` must not write, and what is short
    for one option today is short for two tomorrow."""

    is_verb = False
    """It has all the options of a verb: what it does not know, nobody does."""
    takes_names = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        if not self.is_verb:
            return super().parse_known_args(args, namespace)
        self.is_verb = False  # for what follows comes back here
        parse = super().parse_known_args
        if self.takes_names and "--" not in (args or ()):
            parse = self.parse_known_intermixed_args
        options, unknown = parse(args, namespace)
        if unknown:
            self.error("; ".join(map(self._unknown, unknown)))
        return options, []

    def _unknown(self, word: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(word.partition("=")[0], self._option_string_actions)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"there is no {word}{hint}"

    def error(self, message: str) -> NoReturn:
        """One sentence: in the names of twenty options it would drown."""
        for verb in VERBS:
            if verb.is_hidden:
                message = message.replace(f", {verb.name!r}", "")
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def make_parser(called: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line; when it is known which verb is called, of
    that one alone, with its options: making all takes a tenth of a short run."""
    parser = _Parser(
        prog="coterie",
        description="Kafka's group coordinator in Python.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="show the version and exit"
    )
    parser.add_argument(
        "--help-json",
        action=_ShowHelpJson,
        nargs=0,
        help="show every command and its options as JSON, and exit",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    families: dict[str, Commands] = {"": commands}
    for verb in VERBS:
        if called not in {None, verb.name}:
            continue
        *family, name = verb.words
        subparser = _add_verb(_family(families, family), name, verb)
        if verb.name == called and not verb.has_own_grammar:
            _fill(subparser, verb)
    return parser


def _family(families: dict[str, Commands], words: list[str]) -> Commands:
    """Where the commands of a family go; it is made when its first one comes."""
    name = " ".join(words)
    if name not in families:
        summary = FAMILIES[name]
        parser = _family(families, words[:-1]).add_parser(
            words[-1], help=summary, description=f"{summary.capitalize()}."
        )
        families[name] = parser.add_subparsers(metavar="COMMAND", required=True)
    return families[name]


def _add_verb(commands: Commands, name: str, verb: Verb) -> argparse.ArgumentParser:
    shown: dict[str, Any] = {} if verb.is_hidden else {"help": verb.summary}
    parser: argparse.ArgumentParser = commands.add_parser(
        name, formatter_class=argparse.RawDescriptionHelpFormatter, **shown
    )
    return parser


def _fill(parser: argparse.ArgumentParser, verb: Verb) -> None:
    module = verb.load()
    parser.description = module.__doc__
    parser.epilog = module.EXAMPLES
    module.configure(parser)
    parser.set_defaults(run=module.run, command=verb.name)
    assert isinstance(parser, _Parser)
    parser.is_verb = True
    positional = [each.nargs for each in parser._get_positional_actions()]  # noqa: SLF001
    parser.takes_names = positional in (["*"], ["+"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    if not __debug__:
        sys.stderr.write(
            "coterie does not run under python -O: its assertions are what stops a "
            "shard before it tells a client something untrue\n"
        )
        return 1
    # Nearly all that a command makes lives until it ends: looking for cycles so often
    # would take a tenth of a short run, and a quarter of one over 65,000 groups.
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    run = _chosen(sys.argv[1:] if arguments is None else list(arguments))
    from coterie.errors import CoterieError, SettingError

    try:
        return run()
    except SettingError as error:
        sys.stderr.write(f"coterie: {error}\n")
        return 2
    except CoterieError as error:
        sys.stderr.write(f"coterie: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _chosen(arguments: list[str]) -> Callable[[], int]:
    """What a command line asks for. Leaves by SystemExit when that is not clear."""
    called = next(
        (verb for verb in VERBS if arguments[: len(verb.words)] == verb.words), None
    )
    if called and called.has_own_grammar:
        return partial(called.load().main, arguments[len(called.words) :])
    options = make_parser(called.name if called else None).parse_args(arguments)
    return partial(options.run, options)


class _ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for: that import is a slow one."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"coterie {version('coterie')}")
        parser.exit()


class _ShowHelpJson(argparse.Action):
    """Imports every verb."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from coterie.cli.help_json import print_help

        print_help()
        parser.exit()


if __name__ == "__main__":
    raise SystemExit(main())
