"""Options that the commands of the gateway share, and the types of their values."""

from __future__ import annotations

import argparse
import re
from typing import Final

from coterie.cli.connect import add_connection_options

NODES_MAX: Final = 10_000
_NAME_MAX: Final = 200
"""Topics have names of up to 249 characters; the prefix takes some."""
_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{_NAME_MAX}}}")


def add_upstream_options(parser: argparse.ArgumentParser) -> None:
    """Declare the address of the upstream cluster and how to connect to it."""
    group = parser.add_argument_group("upstream cluster")
    group.add_argument(
        "--upstream",
        "--bootstrap-server",
        dest="bootstrap_server",
        metavar="HOST:PORT[,...]",
        help="addresses of one or more brokers (or COTERIE_BOOTSTRAP_SERVER)",
    )
    add_connection_options(parser, names_cluster=False)
    parser.set_defaults(cluster_option="--upstream")


def gateway_name(text: str) -> str:
    """Return a name that may be part of a topic's name. Raises ArgumentTypeError."""
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name: use up to {_NAME_MAX} letters, digits, '.', '_' "
            "and '-'"
        )
    return text
