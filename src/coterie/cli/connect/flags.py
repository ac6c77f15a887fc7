"""The flags of every command that talks to a cluster. Only argparse is imported."""

from __future__ import annotations

import argparse


def add_connection_options(
    parser: argparse.ArgumentParser, *, names_cluster: bool = True
) -> None:
    """Declare the connection's flags, as a group of their own in `--help`.

    `open_admin` reads them; a parser that has only some of them will do. Without
    `names_cluster` something else says which cluster is meant.
    """
    group = parser.add_argument_group(
        "connection", "docs/connecting.md has examples; `coterie config check` tries it"
    )
    if names_cluster:
        group.add_argument(
            "--bootstrap-server",
            metavar="HOST:PORT[,...]",
            help="brokers to start from; any of the cluster does "
            "(or COTERIE_BOOTSTRAP_SERVER)",
        )
    group.add_argument(
        "--profile",
        metavar="NAME",
        help="settings of that name in ~/.config/coterie/profiles.toml "
        "(or COTERIE_PROFILE)",
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help="a client.properties of Java, or the same with librdkafka's names "
        "(or COTERIE_COMMAND_CONFIG)",
    )
    group.add_argument(
        "-X",
        metavar="KEY=VALUE",
        dest="overrides",
        action="append",
        help="one setting, by Java's name or librdkafka's; may be repeated, but "
        "secrets have no place here",
    )
    group.add_argument(
        "--timeout",
        metavar="MS",
        type=_milliseconds,
        help="how long a call may take in all, tries included (default 60000, but 5000 "
        "where no broker ever answers)",
    )
    group.add_argument(
        "--verbose",
        action="store_true",
        help="say which settings mean nothing here",
    )


def _milliseconds(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time-out; write whole milliseconds, for example 5000"
        )
    return int(text)
