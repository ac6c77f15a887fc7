"""The command `coterie`. One verb a file, imported when it is called and not before.

Exit codes: 0 it went well, 1 it did not, 2 it was asked for wrongly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Final, NamedTuple


class Verb(NamedTuple):
    """One subcommand: a module of `coterie.cli`, named like it (with _ for -).

    The module has `EXAMPLES`, `configure(parser)` and `run(options)`; one with a
    grammar of its own has `main(arguments)` instead.
    """

    name: str
    summary: str
    has_own_grammar: bool = False

    def load(self) -> ModuleType:
        """Its module."""
        return import_module(f"coterie.cli.{self.name.replace('-', '_')}")


VERBS: Final = (Verb("serve", "start a server that Kafka clients can use"),)

_EXAMPLES: Final = """\
examples:
  coterie serve                       on 127.0.0.1:9092, with data in ./coterie-data
  coterie serve --memory --listen :0  to try things on, on a free port
"""


def make_parser(called: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line; only the verb called knows its options."""
    parser = argparse.ArgumentParser(
        prog="coterie",
        description="Kafka's group coordinator in Python.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="show the version and exit"
    )
    verbs = parser.add_subparsers(metavar="COMMAND", required=True)
    for verb in VERBS:
        subparser = verbs.add_parser(
            verb.name,
            help=verb.summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if verb.name == called and not verb.has_own_grammar:
            _fill(subparser, verb.load())
    return parser


def _fill(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    parser.description = module.__doc__
    parser.epilog = module.EXAMPLES
    module.configure(parser)
    parser.set_defaults(run=module.run)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    if not __debug__:
        sys.stderr.write(
            "coterie does not run under python -O: its assertions are what stops a "
            "shard before it tells a client something untrue\n"
        )
        return 1
    run = _chosen(sys.argv[1:] if arguments is None else list(arguments))
    from coterie.errors import SettingError

    try:
        return run()
    except SettingError as error:
        sys.stderr.write(f"coterie: {error}\n")
        return 2


def _chosen(arguments: list[str]) -> Callable[[], int]:
    """What a command line asks for. Leaves by SystemExit when that is not clear."""
    called = arguments[0] if arguments else None
    for verb in VERBS:
        if verb.name == called and verb.has_own_grammar:
            return partial(verb.load().main, arguments[1:])
    options = make_parser(called).parse_args(arguments)
    return partial(options.run, options)


class _ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for: that import is a slow one."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"coterie {version('coterie')}")
        parser.exit()


if __name__ == "__main__":
    raise SystemExit(main())
