"""The connection options of a command, and the admin client made from them.

Rules: only argparse is imported before a client is made.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from coterie import client
from coterie.cli.durations import whole_duration_of
from coterie.client import settings
from coterie.errors import ClientError, SettingError
from coterie.types import PORT_MAX


def add_connection_options(
    parser: argparse.ArgumentParser, *, names_cluster: bool = True
) -> None:
    """Declare the connection options, as a separate group in `--help`.

    `open_admin` accepts a namespace that has only some of them. `names_cluster=False`
    leaves out --bootstrap-server, for a command that gets the address elsewhere.
    """
    group = parser.add_argument_group(
        "connection", "Examples: docs/connecting.md. Test: `coterie config check`."
    )
    if names_cluster:
        group.add_argument(
            "--bootstrap-server",
            metavar="HOST:PORT[,...]",
            help="addresses of one or more brokers of the cluster "
            "(or COTERIE_BOOTSTRAP_SERVER)",
        )
    group.add_argument(
        "--profile",
        metavar="NAME",
        help="name of a profile in ~/.config/coterie/profiles.toml "
        "(or COTERIE_PROFILE)",
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help="path of a Java client.properties file; librdkafka's names work too "
        "(or COTERIE_COMMAND_CONFIG)",
    )
    group.add_argument(
        "-X",
        metavar="KEY=VALUE",
        dest="overrides",
        action="append",
        help="one setting, by its Java or librdkafka name, secrets excepted; may be "
        "repeated",
    )
    group.add_argument(
        "--timeout",
        metavar="MS",
        type=whole_duration_of("milliseconds", least=1, most=2**31 - 1),
        help="time limit of a call including its retries, in milliseconds or as 30s "
        "(default 60000, but 5000 while no broker has ever responded)",
    )
    group.add_argument(
        "--verbose",
        action="store_true",
        help="also list the settings that have no effect here",
    )


def open_admin(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> client.AdminClient:
    """Return an `AdminClient` for the cluster of the options and other sources.

    It connects on its first call. Warnings about settings go to stderr. Raises
    SettingError when no cluster is named or a setting is invalid.
    """
    target = read_target(options, environ)
    try:
        return client.AdminClient(target.bootstrap, target.options)
    except ClientError as error:
        raise SettingError(str(error)) from error


def read_target(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> settings.Target:
    """Return the cluster's address and the client's options. Raises SettingError."""
    from coterie.cli.setting_sources import read_sources

    collected = read_sources(options, environ)
    option = getattr(options, "cluster_option", "--bootstrap-server")
    target = settings.make_target(settings.effective_settings(collected), option)
    _warn(collected, target, options)
    return target


def read_portable_settings(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> settings.PortableSettings:
    """Return the settings in a form that Spark's executors can open a client from.
    Raises SettingError."""
    from coterie.cli.setting_sources import read_sources

    collected = read_sources(options, environ)
    portable = settings.PortableSettings.of_settings(
        settings.effective_settings(collected)
    )
    _warn(collected, portable.target(), options)
    return portable


def _warn(
    collected: settings.CollectedSettings,
    target: settings.Target,
    options: argparse.Namespace,
) -> None:
    for warning in (*collected.warnings, *target.warnings):
        sys.stderr.write(f"coterie: warning: {warning}\n")
    for note in collected.notes if getattr(options, "verbose", False) else ():
        sys.stderr.write(f"coterie: {note}\n")


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; the default host is 127.0.0.1. Raises ArgumentTypeError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not HOST:PORT; write for example 127.0.0.1:9092"
        )
    return host.strip("[]") or "127.0.0.1", int(port)
