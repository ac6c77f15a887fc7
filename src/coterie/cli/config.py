"""`coterie config`: the connection settings, their sources, and a connection test."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from time import perf_counter
from typing import Final

from coterie import client
from coterie.cli.command import Command, add_output_options
from coterie.cli.connect import add_connection_options, read_target
from coterie.cli.output import outcome as out
from coterie.cli.output.emit import emit
from coterie.cli.setting_sources import read_sources
from coterie.client import settings
from coterie.errors import ClientError, CoterieError, SettingError
from coterie.wire import messages as m

_ROUND_TRIPS: Final = 3


def explain(options: argparse.Namespace) -> int:
    """Print every setting with its source; report a failure if no client can be created
    from the settings.
    """
    collected = read_sources(options)
    effective = settings.effective_settings(collected)
    notes = [f"warning: {each}" for each in collected.warnings]
    failures = []
    try:
        notes += [
            f"warning: {each}" for each in settings.make_target(effective).warnings
        ]
    except SettingError as error:
        failures.append(out.Failure.of("setting", "", error))
    if options.verbose:
        notes += collected.notes
    outcome = out.Outcome(
        schema="coterie.config.setting",
        columns=(
            out.Column("setting", "SETTING", role=out.Role.IDENTITY),
            out.Column("value", "VALUE", show=_first_line, role=out.Role.TEXT),
            out.Column("source", "SOURCE", role=out.Role.TEXT, drop=1),
            out.Column("written_as", "WRITTEN AS", is_wide=True, role=out.Role.TEXT),
            out.Column("overrides", "OVERRIDES", is_wide=True, role=out.Role.TEXT),
            out.Column("summary", "PURPOSE", is_wide=True, role=out.Role.TEXT),
        ),
        items=tuple(
            _setting_item(name, value, collected.by_key.get(name, [])[:-1])
            for name, value in effective.items()
        ),
        failures=tuple(failures),
        notes=tuple(notes),
    )
    return emit(outcome, options)


def _setting_item(
    name: str, effective: settings.SettingValue, overridden: list[settings.SettingValue]
) -> out.Item:
    text, mask = str(effective.value), settings.MASK
    is_secret = not isinstance(effective.value, str) or settings.is_private_key(text)
    return {
        "setting": name,
        # A URL may contain a password, as in https://user:password@host.
        "value": mask if is_secret else re.sub(r"://[^/@\s]*@", f"://{mask}@", text),
        "is_secret": is_secret,
        "source": str(effective.source),
        "source_kind": effective.source.kind,
        "file": effective.source.file,
        "line": effective.source.line,
        "written_as": effective.written,
        "overrides": [str(each.source) for each in reversed(overridden)],
        "summary": settings.KEYS[name].summary,
        "error": None,
    }


def _first_line(value: out.Json) -> str:
    """Return the first line of a value, because PEM certificates have many."""
    first, *more = str(value).splitlines() or [""]
    return f"{first} ..." if more else first


EXPLAIN: Final = Command(
    description="""\
List every setting of the connection and the source of its value.

SOURCE is the option, the environment variable, or the file and its line.
The order of precedence is: options, environment, profile, file, defaults. Secrets are
masked. No connection is made.
""",
    examples="""\
examples:
  coterie config explain
      the settings of the environment and the default profile
  coterie config explain --profile prod --command-config client.properties
      the settings of both together
  coterie config explain --profile prod --wide
      with the purpose of each setting, and overridden sources
  coterie config explain -o json
      for programs

exit codes: 0 the settings are valid, 1 they are not, 2 a source cannot be read
""",
    options=(add_connection_options, add_output_options),
    run=explain,
)


def check(options: argparse.Namespace) -> int:
    """Connect to every broker and print the results."""
    import asyncio

    return emit(asyncio.run(check_brokers(read_target(options))), options)


async def check_brokers(target: settings.Target) -> out.Outcome:
    """Return a row for each broker. Raises SettingError for an invalid address."""
    import asyncio

    try:
        cluster = client.Cluster(target.bootstrap, target.options)
    except ClientError as error:
        raise SettingError(str(error)) from error
    try:
        metadata = await cluster.metadata([])
        brokers = sorted(metadata.brokers, key=lambda broker: broker.node_id)
        items = await asyncio.gather(*(_broker_item(target, each) for each in brokers))
        return _check_outcome(tuple(items), metadata)
    except CoterieError as error:
        return _check_outcome(
            (), None, out.Failure.of("cluster", target.bootstrap, error)
        )
    finally:
        await cluster.close()


def _check_outcome(
    items: tuple[out.Item, ...],
    metadata: m.MetadataResponse | None,
    *failures: out.Failure,
) -> out.Outcome:
    def milliseconds(value: out.Json) -> str:
        return "-" if value is None else f"{value} ms"

    def message(value: out.Json) -> str:
        return str(value["message"]) if isinstance(value, Mapping) else "-"

    cluster_id = metadata.cluster_id if metadata else None
    return out.Outcome(
        schema="coterie.config.broker",
        unit="brokers",
        columns=(
            out.Column("node_id", "NODE", role=out.Role.IDENTITY),
            out.Column("address", "ADDRESS", role=out.Role.IDENTITY),
            out.Column("rack", "RACK", is_wide=True),
            out.Column("authenticated_as", "AS", role=out.Role.ID, drop=2),
            out.Column("encrypted_by", "ENCRYPTED BY", drop=1),
            out.Column("connect_ms", "CONNECT", show=milliseconds, drop=3),
            out.Column("round_trip_ms", "ROUND TRIP", show=milliseconds, drop=4),
            out.Column("error", "ERROR", show=message, role=out.Role.TEXT),
        ),
        items=items,
        failures=failures,
        cluster_id=cluster_id,
        summary={"brokers": len(items)},
        notes=(f"cluster {cluster_id or 'without an id'}",) if metadata else (),
    )


async def _broker_item(
    target: settings.Target, broker: m.MetadataResponseBroker
) -> out.Item:
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    address = f"{host}:{broker.port}"
    measured: dict[str, out.Json] = dict.fromkeys(
        ("authenticated_as", "encrypted_by", "connect_ms", "round_trip_ms")
    )
    failed: out.Json = None
    try:
        cluster = client.Cluster(address, target.options)
        started_s = perf_counter()
        connection = await cluster.connection()
        measured["connect_ms"] = _elapsed_ms(started_s)
        measured["round_trip_ms"] = await _round_trip_ms(cluster)
        measured["authenticated_as"] = target.principal
        measured["encrypted_by"] = connection.tls_version
        await cluster.close()
    except CoterieError as error:
        failed = out.error_item(error)
    return {
        "node_id": broker.node_id,
        "address": address,
        "rack": broker.rack,
        **measured,
        "error": failed,
    }


async def _round_trip_ms(cluster: client.Cluster) -> float:
    """Return the shortest round-trip time of a few ApiVersions requests, which need no
    authorization."""
    taken_ms = []
    request = m.ApiVersionsRequest(
        client_software_name="coterie", client_software_version="0"
    )
    for _ in range(_ROUND_TRIPS):
        started_s = perf_counter()
        await cluster.call(request, m.ApiVersionsResponse)
        taken_ms.append(_elapsed_ms(started_s))
    return min(taken_ms)


def _elapsed_ms(started_s: float) -> float:
    return round((perf_counter() - started_s) * 1000, 2)


CHECK: Final = Command(
    description="""\
Connect to every broker of the cluster; print address, principal and round-trip time.

A bootstrap address can be reachable while the advertised addresses of the brokers are
not; so each broker is tested at its advertised address.
""",
    examples="""\
examples:
  coterie config check --bootstrap-server localhost:9092
      whether a cluster responds
  coterie config check --profile prod
      whether every broker accepts the certificates and credentials of a profile
  coterie config check --profile prod -o json
      for programs

exit codes: 0 every broker was reached, 1 a broker was not, 2 a setting is invalid
""",
    options=(add_connection_options, add_output_options),
    run=check,
)
