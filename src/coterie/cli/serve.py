"""Start a server that Kafka clients can use.

Once it accepts connections it prints one line, "coterie ready on HOST:PORT" (with
several nodes, their addresses with commas in between). Everything else it has to say
goes to stderr. SIGTERM and SIGINT stop it cleanly.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from coterie.types import SecurityProtocol

EXAMPLES: Final = """\
examples:
  coterie serve
      serve on 127.0.0.1:9092 and keep data in ./coterie-data
  coterie serve --listen 0.0.0.0:9092 --advertised kafka.example --data /var/lib/coterie
      serve other machines, which reach this one as kafka.example; who may do what is
      then said by --set super.users=User:NAME and the access control lists they make,
      or everybody may do everything by --set authorizer=allow-all
  coterie serve --listen SASL_SSL://0.0.0.0:9092 --config coterie.toml
      ask clients for a name and a password, under TLS: docs/security.md says what the
      file needs, and coterie users add makes the first user
  coterie serve --memory --listen 127.0.0.1:0
      keep nothing, on a free port: the line on stdout says which
  coterie serve --set num.partitions=3 --set group.initial.rebalance.delay.ms=0
      change settings, under Kafka's names; --config FILE reads many from a TOML file
  coterie serve --memory --nodes 3
      be three Kafka nodes, on ports 9092, 9093 and 9094
  coterie serve --metrics-port 9644
      let Prometheus scrape http://127.0.0.1:9644/metrics

exit codes: 0 stopped as asked, 1 could not start or go on, 2 asked for wrongly
"""

_DEFAULT_LISTEN: Final = "127.0.0.1:9092"
_DEFAULT_DATA: Final = "coterie-data"
_NODES_MAX: Final = 64
_PORT_MAX: Final = 65_535


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--listen",
        metavar="[PROTOCOL://]HOST:PORT",
        default=_DEFAULT_LISTEN,
        type=parse_listener,
        help="where to listen, and how clients connect: PLAINTEXT, SSL, SASL_PLAINTEXT "
        f"or SASL_SSL; port 0 takes a free one (default {_DEFAULT_LISTEN})",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=Path(_DEFAULT_DATA),
        help=f"where to keep data (default ./{_DEFAULT_DATA})",
    )
    where.add_argument(
        "--memory", action="store_true", help="keep data in memory, until it stops"
    )
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="read settings from a TOML file"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        dest="assignments",
        action="append",
        default=[],
        help="change a setting; may be repeated, and counts more than the file",
    )
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=_node_count,
        default=1,
        help="be N Kafka nodes, each with its own port and share of the work",
    )
    parser.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=_port,
        help="serve metrics for Prometheus there, at /metrics; 0 takes a free one",
    )
    parser.add_argument(
        "--advertised",
        metavar="HOST",
        help="the host that clients are told to connect to (default: that of --listen)",
    )
    parser.add_argument(
        "--loop",
        choices=("auto", "asyncio", "uvloop"),
        default="auto",
        help="the event loop; auto takes uvloop when it is installed",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until told to stop."""
    from coterie.errors import LogError, SettingError
    from coterie.server.config import read_settings

    try:
        settings = read_settings(options.config, options.assignments)
    except SettingError as error:
        sys.stderr.write(f"coterie serve: {error}\n")
        return 2
    import logging

    from coterie.server.server import ServerPlan, serve

    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    protocol, host, port = options.listen
    plan = ServerPlan(
        settings=settings,
        host=host,
        port=port,
        directory=None if options.memory else options.data,
        advertised_host=options.advertised,
        node_count=options.nodes,
        metrics_port=options.metrics_port,
        protocol=protocol,
    )
    try:
        _run_loop(options.loop, serve(plan, _say_ready))
    except SettingError as error:
        sys.stderr.write(f"coterie serve: {error}\n")
        return 2
    except (LogError, OSError) as error:
        sys.stderr.write(f"coterie serve: {error}\n")
        return 1
    return 0


def parse_listener(text: str) -> tuple[SecurityProtocol, str, int]:
    """[PROTOCOL://]HOST:PORT; without a protocol it is PLAINTEXT. Raises
    ArgumentTypeError."""
    protocol, mark, address = text.rpartition("://")
    if not mark:
        return (SecurityProtocol.PLAINTEXT, *parse_address(text))
    if protocol.upper() not in SecurityProtocol.__members__:
        raise argparse.ArgumentTypeError(
            f"{protocol!r} is no protocol; {', '.join(SecurityProtocol)} are"
        )
    return (SecurityProtocol[protocol.upper()], *parse_address(address))


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT; without a host it is 127.0.0.1. Raises ArgumentTypeError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no HOST:PORT; write for example {_DEFAULT_LISTEN}"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; 0 to {_PORT_MAX} are")
    return int(text)


def _node_count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _NODES_MAX:
        raise argparse.ArgumentTypeError(
            f"{text!r} nodes cannot be; from 1 to {_NODES_MAX} can"
        )
    return int(text)


def _say_ready(addresses: str) -> None:
    print(f"coterie ready on {addresses}", flush=True)


def _run_loop(wanted: str, main: object) -> None:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any, cast

    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if wanted != "asyncio":
        try:
            import uvloop
        except ImportError:
            if wanted == "uvloop":
                raise OSError(
                    "uvloop is not installed: pip install coterie[fast]"
                ) from None
        else:
            factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(cast("Coroutine[Any, Any, None]", main))
