"""`coterie doctor`: checks of a server's configuration, data and running process."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.command import Command, add_output_options
from coterie.cli.config import check_brokers
from coterie.cli.connect import add_connection_options, parse_address, read_target
from coterie.cli.output.emit import emit
from coterie.cli.output.outcome import Column, Outcome, Role
from coterie.cli.serve import add_data_option, add_settings_options, parse_listener
from coterie.errors import SettingError

if TYPE_CHECKING:
    from coterie.broker.server.doctor import Finding

_DELAY_WARNING_MS: Final = 250.0
_SKEW_WARNING_MS: Final = 5_000
_STEP_WARNING_MS: Final = 1_000


def _declare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "server", "The options of `coterie serve`, with the same defaults."
    )
    add = group.add_argument
    add(
        "--listen",
        metavar="[PROTOCOL://]HOST:PORT",
        type=parse_listener,
        default=parse_listener("127.0.0.1:9092"),
        help="address and security protocol of the server (default 127.0.0.1:9092)",
    )
    add("--advertised", metavar="HOST", help="host that clients connect to")
    add_settings_options(group)
    add_data_option(group)
    add(
        "--full",
        action="store_true",
        help="check every page of a store that is larger than 1 GiB",
    )
    add(
        "--health",
        metavar="HOST:PORT",
        type=parse_address,
        help="address of the running server's metrics port",
    )
    add(
        "--json",
        action="store_const",
        dest="output",
        const="json",
        help="the same as --output json",
    )


def run(options: argparse.Namespace) -> int:
    """Print the findings of all checks; return the exit code."""
    return emit(_outcome(list(findings(options))), options)


def findings(options: argparse.Namespace) -> Iterator[Finding]:
    """Yield the findings of all checks."""
    from coterie.broker.server.config import read_settings
    from coterie.broker.server.doctor import (
        Finding,
        Level,
        ServeCommand,
        check_configuration,
        check_directory,
    )

    protocol, host, _ = options.listen
    command = ServeCommand(
        protocol, host, options.advertised, options.config, options.data
    )
    try:
        settings = read_settings(options.config, options.assignments)
    except SettingError as error:
        yield Finding(Level.ERROR, "settings", str(error), "correct the setting")
    else:
        yield from check_configuration(settings, command)
    yield from check_directory(options.data, is_full=options.full)
    yield from _check_cluster(options)
    yield from _check_health(options)


def _check_cluster(options: argparse.Namespace) -> Iterator[Finding]:
    """Yield whether every broker of the cluster responds at its advertised address."""
    import asyncio

    from coterie.broker.server.doctor import Finding, Level

    if not (options.bootstrap_server or options.profile or options.command_config):
        message = "not checked: no --bootstrap-server, --profile or --command-config"
        yield Finding(Level.NOTE, "cluster", message)
        return
    try:
        outcome = asyncio.run(check_brokers(read_target(options)))
    except SettingError as error:
        yield Finding(Level.ERROR, "cluster", str(error), "coterie config explain")
        return
    for failure in outcome.failures:
        yield Finding(
            Level.ERROR,
            "cluster",
            failure.message,
            "start the server, or correct the address or the credentials",
        )
    for item in outcome.items:
        broker = f"broker {item['node_id']} at {item['address']}"
        problem = item["error"]
        if isinstance(problem, dict):
            yield Finding(
                Level.ERROR,
                "cluster",
                f"{broker}: {problem['message']}",
                "clients connect to the advertised address: see serve --advertised",
            )
        else:
            message = f"{broker} responds in {item['round_trip_ms']} ms"
            yield Finding(Level.OK, "cluster", message)


def _check_health(options: argparse.Namespace) -> Iterator[Finding]:
    from http.client import HTTPException

    from coterie.broker.server.doctor import Finding, Level
    from coterie.http_endpoint import fetch_json

    if options.health is None:
        message = "not checked: no --health (the address of serve --metrics-port)"
        yield Finding(Level.NOTE, "health", message)
        return
    host, port = options.health
    try:
        health, ready = (fetch_json(host, port, path) for path in ("/health", "/ready"))
    except (OSError, HTTPException, ValueError) as error:
        yield Finding(
            Level.ERROR,
            "health",
            f"{host}:{port} does not respond: {error}",
            "start the server with --metrics-port, or look at its log: its event loop "
            "may be blocked",
        )
        return
    yield from judge_health(health, time.time() * 1_000, _installed_version())
    missing = ready.get("missing") or []
    if missing:
        advice = "see the server's log"
        yield Finding(Level.ERROR, "ready", "; ".join(map(str, missing)), advice)
    else:
        yield Finding(Level.OK, "ready", "all shards and the catalog are loaded")


def _installed_version() -> str:
    from importlib.metadata import version

    return version("coterie")


def judge_health(
    health: dict[str, Any], now_ms: float, installed: str
) -> Iterator[Finding]:
    """Yield findings about the response of `/health`. `now_ms` is this machine's time,
    and `installed` the version of this command.

    Raises ValueError for a response without the fields.
    """
    from coterie.broker.server.doctor import Finding, Level

    try:
        delay_ms = float(health["event_loop_delay_max_ms"])
        time_ms, clock_ms = int(health["time_ms"]), int(health["clock_ms"])
        version, status = str(health["version"]), str(health["status"])
    except (KeyError, TypeError):
        raise ValueError("the response of /health is not Coterie's") from None
    if status != "ok":
        yield Finding(Level.ERROR, "health", status, "see the server's log")
    elif version != installed:
        message = f"Coterie {version} is running, and {installed} is installed here"
        yield Finding(Level.NOTE, "health", message, "restart the server to update it")
    else:
        yield Finding(Level.OK, "health", f"Coterie {version} is running")
    text = f"the largest delay of the event loop was {delay_ms:g} ms in the last minute"
    if delay_ms >= _DELAY_WARNING_MS:
        advice = "look for large requests and for other load of the machine"
        yield Finding(Level.WARNING, "event loop", text, advice)
    else:
        yield Finding(Level.OK, "event loop", text)
    skew_ms = abs(time_ms - now_ms)
    step_ms = abs(time_ms - clock_ms)
    if skew_ms >= _SKEW_WARNING_MS:
        message = f"the server's clock differs from this machine's by {skew_ms:.0f} ms"
        yield Finding(Level.WARNING, "clock", message, "synchronize both with NTP")
    elif step_ms >= _STEP_WARNING_MS:
        message = (
            f"the system time was changed by {step_ms} ms since the server started, "
            "whose timers and retention use the old time"
        )
        yield Finding(Level.WARNING, "clock", message, "restart the server")
    else:
        yield Finding(Level.OK, "clock", "the clocks of server and client agree")


def _outcome(found: list[Finding]) -> Outcome:
    from coterie.broker.server.doctor import Level

    problems = (Level.WARNING, Level.ERROR)
    counts = {
        f"{level.value}s" if level in problems else level.value: sum(
            each.level is level for each in found
        )
        for level in Level
    }
    return Outcome(
        schema="coterie.doctor.finding",
        columns=(
            Column("level", "LEVEL"),
            Column("check", "CHECK"),
            Column("message", "FINDING", role=Role.TEXT),
            Column("advice", "WHAT TO DO", role=Role.TEXT, drop=1),
        ),
        items=tuple(
            {
                "level": each.level.value,
                "check": each.check,
                "message": each.message,
                "advice": each.advice or None,
                "error": {"code": each.level.name, "message": each.message}
                if each.level in problems
                else None,
            }
            for each in found
        ),
        summary=counts,
    )


DOCTOR: Final = Command(
    description="""\
Check the configuration of a server, its data directory and a running server, and say
what to do about each finding. Nothing is changed.

The server's options are those of coterie serve. A running server is checked as a
cluster with --bootstrap-server, and by its /health and /ready with --health.
""",
    examples="""\
examples:
  coterie doctor --data /var/lib/coterie --config /etc/coterie.toml \\
      --listen SASL_SSL://0.0.0.0:9092 --advertised kafka.example
      check settings, certificates, users, secrets and the store before a start
  coterie doctor --bootstrap-server localhost:9092 --health localhost:9644
      check a running server too: its brokers, readiness, event loop and clock
  coterie doctor --data /var/lib/coterie --full
      check every page of a large store
  coterie doctor --json
      for programs

exit codes: 0 no warning or error, 1 at least one, 2 usage error
""",
    options=(_declare, add_connection_options, add_output_options),
    run=run,
)
