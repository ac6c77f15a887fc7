"""The connection options of gateway commands: --upstream, and those of all commands."""

from __future__ import annotations

import argparse

from coterie.cli.connect import add_connection_options


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
