"""`coterie ui`: a page that shows the groups of a cluster live."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie import client
from coterie.cli.command import Command
from coterie.cli.connect import add_connection_options, parse_address, read_target
from coterie.cli.durations import duration_of
from coterie.errors import ClientError, CoterieError, SettingError
from coterie.files import decode_text
from coterie.portable_os import STOP_SIGNALS, handle_signals
from coterie.types import SecurityProtocol

if TYPE_CHECKING:
    from coterie.broker.server.server import Server
    from coterie.ui.server import PageOptions, PageServer

TOKEN_VARIABLE: Final = "COTERIE_UI_TOKEN"  # noqa: S105
DEFAULT_LISTEN: Final = "127.0.0.1:8080"
_TIMEOUT_MS: Final = 15_000
_MARK: Final = "coterie ui on "


def declare_page(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the page."""
    group = parser.add_argument_group("page")
    add = group.add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        type=parse_address,
        default=DEFAULT_LISTEN,
        help="address of the page; port 0 selects a free port "
        f"(default {DEFAULT_LISTEN})",
    )
    add(
        "--allow-changes",
        action="store_true",
        help="let the page reset and delete groups; without it, it is read-only",
    )
    add(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="path of the token that a browser needs, 16 characters or more (default: "
        f"the environment's {TOKEN_VARIABLE}; a random one if a token is needed, for "
        "changes and for an address other than loopback)",
    )
    add(
        "--allowed-host",
        metavar="NAME",
        action="append",
        default=[],
        help="further name by which browsers address the page, as behind a proxy; may "
        "be repeated",
    )
    add(
        "--interval",
        metavar="SECONDS",
        type=duration_of("seconds", least=0.1, most=3600),
        default=2.0,
        help="time between two measurements, in seconds or as 1m30s (default 2)",
    )
    add(
        "--snapshots",
        metavar="DIR",
        help="directory of the snapshots that an undo restores (default: that of "
        "`coterie groups undo`)",
    )


def page_options(options: argparse.Namespace, title: str) -> PageOptions:
    """Return the options of the page. Raises SettingError and OSError."""
    from coterie.cli.groups.write import snapshot_directory
    from coterie.ui.server import PageOptions

    host, port = options.listen
    return PageOptions(
        host=host,
        port=port,
        token=read_token(options.token_file),
        allow_changes=options.allow_changes,
        allowed_hosts=tuple(options.allowed_host),
        interval_s=options.interval,
        snapshots=snapshot_directory(options),
        title=title,
    )


def read_token(token_file: Path | None) -> str | None:
    """Return the token of a file or of the environment; None without one. Raises
    SettingError."""
    if token_file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        token = decode_text(token_file.read_bytes()).strip()
    except OSError as error:
        raise SettingError(f"--token-file {token_file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"--token-file {token_file}: it is not UTF-8") from error
    if not token:
        raise SettingError(f"--token-file {token_file}: the file is empty")
    return token


def run_page(options: argparse.Namespace) -> int:
    """Serve the page until a signal stops the process; return the exit code."""
    import asyncio

    from coterie.ui.server import PageServer

    target = read_target(options)
    settings = target.options
    if options.timeout is None:
        # A page that is stale says so soon; the next measurement is tried anyway.
        settings = replace(settings, api_timeout_ms=_TIMEOUT_MS)

    def make_admin() -> client.AdminClient:
        return client.AdminClient(target.bootstrap, settings)

    try:
        title = target.bootstrap
        page = PageServer(page_options(options, title), make_admin)
        asyncio.run(_serve_until_signal(page))
    except ClientError as error:
        raise SettingError(str(error)) from error
    except OSError as error:
        raise CoterieError(str(error.strerror or error)) from error
    return 0


async def _serve_until_signal(page: PageServer) -> None:
    import logging

    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format=form)
    logging.getLogger("coterie.ui").setLevel(logging.INFO)  # a line for each change
    with handle_signals(STOP_SIGNALS, lambda _: page.stop()):
        await page.serve(lambda: announce(page))


def announce(page: PageServer) -> None:
    """Print the address of the page; warn of a token that is sent in clear text."""
    from coterie.http_endpoint import is_loopback

    print(f"{_MARK}{page.address}", flush=True)
    if not is_loopback(page.host):
        sys.stderr.write(
            "coterie: warning: browsers send the token in clear text: put a proxy with "
            "TLS before this address, or use an SSH tunnel to 127.0.0.1\n"
        )


class ServedPage:
    """The page of `coterie serve --ui`: read-only, with the reasons of rebalances.

    Its address is bound at once; `start` and `stop` follow the server. It connects to
    the server as any client does. Raises SettingError and OSError.
    """

    def __init__(
        self, address: tuple[str, int], server_host: str, protocol: SecurityProtocol
    ) -> None:
        from coterie.ui.rebalances import Rebalances
        from coterie.ui.server import PageOptions, PageServer

        if protocol is not SecurityProtocol.PLAINTEXT:
            raise SettingError(
                f"--ui cannot connect to a {protocol.value} listener: run coterie ui"
                " beside the server, with a user"
            )
        self._context = ExitStack()
        self._rebalances = Rebalances()
        self._rebalances.expect_reports()
        every = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
        self._host = every.get(server_host, server_host)
        self._bootstrap = ""
        host, port = address
        settings = client.ClientOptions(
            client_id="coterie-ui", api_timeout_ms=_TIMEOUT_MS
        )
        self._page = PageServer(
            PageOptions(host=host, port=port, token=read_token(None)),
            lambda: client.AdminClient(self._bootstrap, settings),
            self._rebalances,
        )

    def start(self, server: Server) -> None:
        """Show the groups of a running server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._bootstrap = f"{host}:{server.ports[0]}"
        runtime = server.assembly.broker.runtime
        runtime.rebalances.listener = self._rebalances.report
        self._context.enter_context(self._page.in_thread())
        announce(self._page)

    def stop(self) -> None:
        """Stop the page."""
        self._context.close()


UI: Final = Command(
    description="""\
Show the groups of any Kafka cluster in a browser, live: state, members and owners,
epochs, lag in offsets and in time, and rebalances as they happen.

The page is for this machine only, and read-only. With --allow-changes it also resets
and deletes groups, each with a preview and an undo, like the commands; brokers check
the permissions of this command's connection. The line on stdout is the address to open;
an address with a token is a secret. The cluster is measured while a page is open.
""",
    examples="""\
examples:
  coterie ui --bootstrap-server kafka.example:9092
      then open http://127.0.0.1:8080/
  coterie ui --profile production --allow-changes
      reset and delete groups too, after a login with the token that is printed
  coterie ui --listen 0.0.0.0:8080 --token-file ui.token --allowed-host ui.example
      for other machines, behind a proxy with TLS named ui.example
  coterie serve --memory --ui
      a server with its page, which shows the reason of each rebalance

exit codes: 0 stopped by a signal, 1 failure, 2 usage error
""",
    options=(declare_page, add_connection_options),
    run=run_page,
)
