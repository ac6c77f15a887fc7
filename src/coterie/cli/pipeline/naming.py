"""What --from names, opened: a cluster with the settings of a connection, from the
same flags, environment, profile and file as every command's."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from coterie.cli.connect import add_connection_options

if TYPE_CHECKING:
    from coterie.pipeline.sources.source import Source


def add_source_options(
    parser: argparse.ArgumentParser, *, is_required: bool = True
) -> None:
    """Declare --from, and how a cluster is connected to."""
    parser.add_argument(
        "--from",
        required=is_required,
        dest="source",
        metavar="SOURCE",
        help="kafka:HOST:PORT, store:DIR (the data of a Coterie server) or"
        " segments:DIR (log segments; a URI too); what is plain needs no such word",
    )
    add_connection_options(parser, names_cluster=False)


def open_named(options: argparse.Namespace) -> Source:
    """The source that --from names. Warnings go to stderr. Raises SettingError."""
    from coterie.pipeline.sources.source import open_source, read_name

    kind, where = read_name(options.source)
    if kind != "kafka":
        return open_source(options.source)
    from coterie.cli.connect.opening import read_carried

    options.bootstrap_server = where
    return open_source(options.source, settings=read_carried(options))
