"""The command `coterie`. One verb a file; a verb's imports wait until it is called.

Exit codes: 0 it went well, 1 it did not, 2 it was asked for wrongly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple


class Verb(NamedTuple):
    """One subcommand: a module of `coterie.cli` with `configure` and `run`."""

    name: str
    summary: str


VERBS: Final = (Verb("serve", "start a server that Kafka clients can use"),)

_EXAMPLES: Final = """\
examples:
  coterie serve                       on 127.0.0.1:9092, with data in ./coterie-data
  coterie serve --memory --listen :0  to try things on, on a free port
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
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
        module = import_module(f"coterie.cli.{verb.name}")
        subparser = verbs.add_parser(
            verb.name,
            help=verb.summary,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    if not __debug__:
        sys.stderr.write(
            "coterie does not run under python -O: its assertions are what stops a "
            "shard before it tells a client something untrue\n"
        )
        return 1
    options = make_parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    from coterie.errors import SettingError

    try:
        return run(options)
    except SettingError as error:
        sys.stderr.write(f"coterie: {error}\n")
        return 2


class _ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for: that import is a slow one."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"coterie {version('coterie')}")
        parser.exit()


if __name__ == "__main__":
    raise SystemExit(main())
