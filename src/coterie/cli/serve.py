"""Start a server that Kafka clients can use.

Once it accepts connections it prints one line, "coterie ready on HOST:PORT"; with
several nodes their addresses are separated by commas. Log lines go to stderr. SIGTERM
and SIGINT stop the server cleanly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.command import Command
from coterie.cli.connect import parse_address
from coterie.cli.durations import whole_number
from coterie.errors import LogError, SettingError
from coterie.files import write_private_file
from coterie.types import PORT_MAX, SecurityProtocol

if TYPE_CHECKING:
    from coterie.broker.server.server import Server, ServerOptions

EXAMPLES: Final = """\
examples:
  coterie serve
      serve on 127.0.0.1:9092 and keep data in ./coterie-data
  coterie serve --listen 0.0.0.0:9092 --advertised kafka.example --data /var/lib/coterie
      serve other machines, which connect to kafka.example; ACLs are enforced: set
      super users with --set super.users=User:NAME, or authorize every operation with
      --set authorizer=allow-all
  coterie serve --listen SASL_SSL://0.0.0.0:9092 --config coterie.toml
      authenticate clients by user name and password over TLS; docs/security.md
      describes the settings, and coterie users add creates the first user
  coterie serve --memory --listen 127.0.0.1:0
      keep data in memory and listen on a free port, which the line on stdout names
  coterie serve --set num.partitions=3 --set group.initial.rebalance.delay.ms=0
      change settings by Kafka's names; --config FILE reads them from a TOML file
  coterie serve --memory --nodes 3
      start three Kafka nodes, on ports 9092, 9093 and 9094
  coterie serve --memory --act-as 3.9
      have the API versions of Kafka 3.9, without the consumer group protocol of KIP-848
  coterie serve --metrics-port 9644
      serve metrics to Prometheus at http://127.0.0.1:9644/metrics, and liveness and
      readiness at /health and /ready; docs/monitoring.md describes them
  coterie serve --memory --control 127.0.0.1:9095
      let tests in any language inject faults and advance the clock by HTTP;
      docs/testing/other-languages.md describes the routes
  coterie serve --memory --ui
      show groups, lag and rebalances with their reasons at http://127.0.0.1:8080/
  coterie serve --audit-log /var/log/coterie/audit.log --log-format json
      write one JSON object for each administrative write to its own file

exit codes: 0 stopped by a signal, 1 could not start or continue, 2 usage error
"""

_DEFAULT_LISTEN: Final = "127.0.0.1:9092"
_DEFAULT_UI: Final = "127.0.0.1:8080"
_DEFAULT_DATA: Final = "coterie-data"
_NODES_MAX: Final = 64


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--listen",
        metavar="[PROTOCOL://]HOST:PORT",
        default=_DEFAULT_LISTEN,
        type=parse_listener,
        help="address to listen on, and the security protocol: PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL; port 0 selects a free port "
        f"(default {_DEFAULT_LISTEN})",
    )
    storage = parser.add_mutually_exclusive_group()
    add_data_option(storage)
    storage.add_argument(
        "--memory",
        action="store_true",
        help="keep data in memory until the server stops",
    )
    add_settings_options(parser)
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=whole_number("a number of nodes", most=_NODES_MAX),
        default=1,
        help="number of Kafka nodes, each with a port and a share of the partitions",
    )
    parser.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=parse_port,
        help="port of the metrics for Prometheus, at /metrics, and of /health and "
        "/ready; 0 selects a free port",
    )
    parser.add_argument(
        "--advertised",
        metavar="HOST[:PORT]",
        type=parse_advertised,
        help="address that clients connect to, as behind a mapped port "
        "(default: that of --listen)",
    )
    parser.add_argument(
        "--act-as",
        metavar="RELEASE",
        help="Kafka release, for example 3.9, whose API versions and defaults to have, "
        "so that clients fall back as they do with it (docs/testing/act-as.md)",
    )
    add_process_options(parser)
    parser.add_argument(
        "--audit-log",
        metavar="FILE",
        type=Path,
        help="path of a file for the audit log of administrative writes, which "
        "otherwise is part of the log",
    )


def add_data_option(parser: argparse._ActionsContainer) -> None:
    """Declare --data."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=Path(_DEFAULT_DATA),
        help=f"data directory of the server (default ./{_DEFAULT_DATA})",
    )


def add_settings_options(parser: argparse._ActionsContainer) -> None:
    """Declare --config and --set; `read_settings` reads them."""
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="TOML file of settings"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        dest="assignments",
        action="append",
        default=[],
        help="one setting; may be repeated, and overrides the file",
    )


def add_process_options(parser: argparse._ActionsContainer) -> None:
    """Declare --log-format and --loop; `configure_logging` and `run_loop` take them."""
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="format of log lines: text, or one JSON object for each line",
    )
    parser.add_argument(
        "--loop",
        choices=("auto", "asyncio", "uvloop"),
        default="auto",
        help="event loop; auto selects uvloop if it is installed",
    )


def _declare_additions(parser: argparse.ArgumentParser) -> None:
    """Declare what the server serves besides Kafka's protocol."""
    parser.add_argument(
        "--control",
        metavar="HOST:PORT",
        type=parse_address,
        help="address of the HTTP control API for tests, which a second line on stdout "
        "names; port 0 selects a free port; --loop has no effect then",
    )
    parser.add_argument(
        "--control-token-file",
        metavar="FILE",
        type=Path,
        help="path of the token of the control API, which is needed for an address "
        "other than loopback (default: the environment's COTERIE_CONTROL_TOKEN)",
    )
    parser.add_argument(
        "--ui",
        metavar="HOST:PORT",
        type=parse_address,
        nargs="?",
        const=_DEFAULT_UI,
        help="also show the groups in a browser, read-only, at this address (default "
        f"{_DEFAULT_UI}), as coterie ui does; it needs a PLAINTEXT listener",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until a signal stops the process; return the exit code."""
    from coterie.broker.server.config import read_settings
    from coterie.wire.releases import load_release

    try:
        release = load_release(options.act_as) if options.act_as else None
        defaults = release.settings if release else {}
        settings = read_settings(options.config, options.assignments, defaults)
    except SettingError as error:
        sys.stderr.write(f"coterie serve: {error}\n")
        return 2
    # Imported after the settings, so that an invalid setting is reported at once.
    from coterie.broker.server.server import ServerOptions, serve

    try:
        configure_logging(options.log_format, options.audit_log)
    except OSError as error:
        sys.stderr.write(f"coterie serve: --audit-log: {error}\n")
        return 1
    protocol, host, port = options.listen
    server_options = ServerOptions(
        settings=settings,
        host=host,
        port=port,
        directory=None if options.memory else options.data,
        advertised_host=options.advertised and options.advertised[0],
        advertised_port=options.advertised and options.advertised[1],
        node_count=options.nodes,
        metrics_port=options.metrics_port,
        protocol=protocol,
        config=options.config,
        release=release,
    )

    try:
        if options.control is not None:
            _serve_controlled(options, server_options)
        elif options.ui is not None:
            _serve_with_page(options, server_options)
        else:
            run_loop(options.loop, lambda: serve(server_options, _print_addresses))
    except SettingError as error:
        sys.stderr.write(f"coterie serve: {error}\n")
        return 2
    except (LogError, OSError) as error:
        sys.stderr.write(f"coterie serve: {error}\n")
        return 1
    return 0


def _print_addresses(server: Server) -> None:
    print(f"coterie ready on {server.addresses}", flush=True)


def _serve_with_page(
    options: argparse.Namespace, server_options: ServerOptions
) -> None:
    from coterie.broker.server.server import serve
    from coterie.cli.ui import ServedPage

    page = ServedPage(options.ui, server_options.host, server_options.protocol)

    def ready(server: Server) -> None:
        _print_addresses(server)
        page.start(server)

    try:
        run_loop(options.loop, lambda: serve(server_options, ready))
    finally:
        page.stop()


def _serve_controlled(
    options: argparse.Namespace, server_options: ServerOptions
) -> None:
    # Imported here: only this command serves the test kit.
    from coterie.testing.control.served import control_token, serve_controlled

    def ready(addresses: str, control: str) -> None:
        print(f"coterie ready on {addresses}", flush=True)
        print(f"coterie control on http://{control}", flush=True)

    if options.ui is not None:
        raise SettingError("--ui with --control: run coterie ui beside the server")
    token = control_token(options.control_token_file)
    serve_controlled(server_options, options.control, token, ready)


def configure_logging(form: str, audit_file: Path | None) -> None:
    """Log to stderr, and the audit log to its file. Raises OSError."""
    import logging
    from logging.handlers import WatchedFileHandler

    from coterie.broker.runtime.structured_log import JsonFormatter

    formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    if form == "json":
        formatter = JsonFormatter()
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if audit_file is not None:
        if not audit_file.exists():
            write_private_file(audit_file, b"", must_be_new=True)
        # The file may be rotated: a watched one is opened again after a rename.
        handler = WatchedFileHandler(audit_file, encoding="utf-8")
        handler.setFormatter(formatter)
        logger = logging.getLogger("coterie.audit")
        logger.addHandler(handler)
        logger.propagate = False


def parse_listener(text: str) -> tuple[SecurityProtocol, str, int]:
    """Parse [PROTOCOL://]HOST:PORT; the default protocol is PLAINTEXT.

    Raises ArgumentTypeError.
    """
    protocol, mark, address = text.rpartition("://")
    if not mark:
        return (SecurityProtocol.PLAINTEXT, *parse_address(text))
    if protocol.upper() not in SecurityProtocol.__members__:
        raise argparse.ArgumentTypeError(
            f"{protocol!r} is not a security protocol; valid are "
            f"{', '.join(SecurityProtocol)}"
        )
    return (SecurityProtocol[protocol.upper()], *parse_address(address))


def parse_advertised(text: str) -> tuple[str, int | None]:
    """Parse HOST or HOST:PORT. Raises ArgumentTypeError."""
    is_ipv6 = text.count(":") > 1 and not text.startswith("[")
    if ":" not in text or is_ipv6 or text.endswith("]"):
        return text.strip("[]"), None
    return parse_address(text)


parse_port: Final = whole_number("a port", least=0, most=PORT_MAX)
"""The parser of a port, for argparse."""


def run_loop(name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine in an event loop: auto, asyncio or uvloop.

    Raises ModuleNotFoundError for uvloop if it is not installed.
    """
    import asyncio

    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if name != "asyncio":
        try:
            import uvloop
        except ModuleNotFoundError:
            if name == "uvloop":
                raise
        else:
            factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


SERVE: Final = Command(
    description=__doc__ or "",
    examples=EXAMPLES,
    options=(configure, _declare_additions),
    run=run,
)
