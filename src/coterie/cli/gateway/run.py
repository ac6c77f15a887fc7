"""`coterie gateway run`: one node of a gateway, from start to drain."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from coterie import client
from coterie.cli.command import Command
from coterie.cli.connect import read_target
from coterie.cli.durations import whole_duration_of, whole_number
from coterie.cli.gateway.options import (
    add_upstream_options,
    gateway_name,
)
from coterie.cli.serve import (
    add_process_options,
    add_settings_options,
    configure_logging,
    parse_advertised,
    parse_listener,
    parse_port,
    run_loop,
)
from coterie.errors import ConnectionLost, CoterieError, RequestTimedOut, SettingError

if TYPE_CHECKING:
    from coterie.gateway.options import GatewayOptions
    from coterie.settings import Settings

DESCRIPTION: Final = """\
Run one node of a gateway: coordinators of consumer groups in front of a Kafka cluster.

Nodes with one --name and one --upstream cluster share its groups. They keep their state
on the cluster itself, in the topic __coterie_NAME, and divide it as members of the
group coterie-NAME. Clients bootstrap from any node. Each node listens on the port of
--listen for coordination, and for each upstream broker on one port after it, by the
order of the brokers' ids: with three brokers on PORT to PORT+3.

Once clients can connect it prints one line, "coterie gateway ready on HOST:PORT". Log
lines go to stderr. SIGTERM and SIGINT give the node's groups to other nodes and then
stop it; a second one stops it at once.
"""

EXAMPLES: Final = """\
examples:
  coterie gateway run --upstream kafka:9092
      a node on 127.0.0.1:9192 and the ports after it, for a first try
  coterie gateway run --upstream kafka:9092 --listen 0.0.0.0:9192 --advertise gw-1
      a node that clients on other machines reach as gw-1
  coterie gateway run --upstream kafka:9092 --node gw-1
      a name that stays over restarts
  coterie gateway run --command-config gateway.properties --config tls.toml \\
          --listen SASL_SSL://0.0.0.0:9192 --advertise gw-1
      connect as the principal of a Java client.properties file; clients authenticate
      at upstream, through TLS that ends here (ssl.keystore.location in tls.toml)
  coterie gateway run --upstream kafka:9092 --adopt --mirror 10s
      begin with the offsets that groups have upstream, and repeat commits there every
      10 seconds, so that clients can go back
  coterie gateway run --upstream kafka:9092 --set group.max.size=1000
      change settings of groups by Kafka's names; --config FILE reads a TOML file
  coterie gateway run --upstream kafka:9092 --metrics-port 9644
      serve /metrics, /health, /ready and /status, which coterie gateway status reads

docs/gateway.md describes set-up, failures and the way back.

exit codes: 0 stopped by a signal, 1 could not start or continue, 2 usage error
"""

_DEFAULT_LISTEN: Final = "127.0.0.1:9192"
_AUTHORIZERS: Final = ("upstream", "own", "none")
_SHARDS_MAX: Final = 10_000
_REPLICAS_MAX: Final = 32_767
_SESSION_MIN_MS: Final = 1_000
_SESSION_MAX_MS: Final = 1_800_000


def _declare_gateway(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("gateway")
    add = group.add_argument
    add(
        "--name",
        metavar="NAME",
        type=gateway_name,
        default="gateway",
        help="name of the gateway, the same on all its nodes (default gateway)",
    )
    add(
        "--node",
        metavar="NAME",
        type=gateway_name,
        help="name of this node, which no other has and which it keeps over restarts "
        "(default: the host's name and the port)",
    )
    add(
        "--listen",
        metavar="[PROTOCOL://]HOST:PORT",
        default=_DEFAULT_LISTEN,
        type=parse_listener,
        help="address of coordination, and the security protocol: PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL; upstream brokers have the ports after it; port 0 "
        f"selects free ports (default {_DEFAULT_LISTEN})",
    )
    add(
        "--advertise",
        metavar="HOST[:PORT]",
        type=parse_advertised,
        help="host that clients reach this node by, and the first port behind mapped "
        "ports (default: that of --listen)",
    )
    add(
        "--session-timeout",
        metavar="MS",
        type=whole_duration_of(
            "milliseconds", least=_SESSION_MIN_MS, most=_SESSION_MAX_MS
        ),
        default=15_000,
        help="time without a heartbeat after which other nodes take over, in "
        "milliseconds or as 10s; upstream's group.min.session.timeout.ms is the least "
        "(default 15000)",
    )


def _declare_state(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("state")
    add = group.add_argument
    add(
        "--partitions",
        metavar="N",
        type=whole_number("a number of partitions", most=_SHARDS_MAX),
        default=50,
        help="partitions of __coterie_NAME when it is created (default 50)",
    )
    add(
        "--replication-factor",
        metavar="N",
        type=whole_number("a number of replicas", most=_REPLICAS_MAX),
        default=-1,
        help="replicas of __coterie_NAME when it is created (default: 3, or one for "
        "each broker of a smaller cluster)",
    )
    add(
        "--adopt",
        action="store_true",
        help="begin each group with its committed offsets upstream",
    )
    add(
        "--mirror",
        metavar="SECONDS",
        type=whole_duration_of("seconds", least=1),
        help="repeat commits upstream at this interval, in seconds or as 1m (default: "
        "never)",
    )
    add(
        "--authorizer",
        choices=_AUTHORIZERS,
        default="upstream",
        help="rights on groups: upstream for its ACLs, own for the settings authorizer "
        "and super.users, none to allow everything (default upstream)",
    )


def _declare_process(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("process")
    add_settings_options(group)
    group.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=parse_port,
        help="port of /metrics for Prometheus, and of /health, /ready and /status; 0 "
        "selects a free port",
    )
    add_process_options(group)


def run(options: argparse.Namespace) -> int:
    """Run a node until a signal stops it; return the exit code."""
    from coterie.broker.server.config import read_settings

    try:
        settings = read_settings(options.config, options.assignments)
        plan = make_plan(options, settings)
        # Imported after the settings, so that an invalid setting is reported at once.
        from coterie.gateway.preflight import check_plan

        _warn(check_plan(plan))
        configure_logging(options.log_format, None)
        run_loop(options.loop, lambda: _serve(plan))
    except SettingError as error:
        sys.stderr.write(f"coterie gateway run: {error}\n")
        return 2
    except (CoterieError, OSError) as error:
        sys.stderr.write(f"coterie gateway run: {error}\n")
        return 1
    return 0


async def _serve(plan: GatewayOptions) -> None:
    from coterie.gateway.node import serve
    from coterie.gateway.preflight import check_upstream

    async with client.AdminClient(plan.bootstrap, plan.client) as admin:
        try:
            _warn(await check_upstream(plan, admin))
        except (ConnectionLost, RequestTimedOut) as error:
            raise ConnectionLost(
                f"upstream {plan.bootstrap} does not answer: {error}; try "
                f"coterie config check --bootstrap-server {plan.bootstrap}"
            ) from error
    await serve(plan, _print_address)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        sys.stderr.write(f"coterie gateway run: warning: {warning}\n")


def make_plan(options: argparse.Namespace, settings: Settings) -> GatewayOptions:
    """Return the plan of the options. Raises SettingError."""
    from coterie.gateway.options import AuthorizerKind, GatewayOptions

    target = read_target(options)
    protocol, host, port = options.listen
    advertised = options.advertise or (host, None)
    return GatewayOptions(
        settings=settings,
        bootstrap=target.bootstrap,
        client=target.options,
        name=options.name,
        node=options.node or _default_node(port),
        host=host,
        port=port,
        protocol=protocol,
        advertised_host=advertised[0],
        advertised_port=advertised[1],
        partition_count=options.partitions,
        replication_factor=options.replication_factor,
        session_timeout_ms=options.session_timeout,
        is_adopting=options.adopt,
        mirror_interval_ms=options.mirror and options.mirror * 1_000,
        authorizer=AuthorizerKind(options.authorizer),
        metrics_port=options.metrics_port,
    )


def _default_node(port: int) -> str:
    """Return a name from the host and the port. A free port differs at each start."""
    import socket

    return f"{socket.gethostname()}-{port or os.getpid()}"


def _print_address(address: str) -> None:
    print(f"coterie gateway ready on {address}", flush=True)


RUN: Final = Command(
    description=DESCRIPTION,
    examples=EXAMPLES,
    options=(
        _declare_gateway,
        _declare_state,
        _declare_process,
        add_upstream_options,
    ),
    run=run,
)
