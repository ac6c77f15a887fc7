"""Connect to every broker of the cluster, and say what was reached, and as whom.

A cluster that answers at its bootstrap address may still send clients to addresses that
they cannot reach; so each broker is tried at the address that it advertises.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.output.values import Failure, Item, Json, Outcome
    from coterie.client.connection import BrokerConnection
    from coterie.client.settings.target import Target
    from coterie.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

EXAMPLES: Final = """\
examples:
  coterie config check --bootstrap-server localhost:9092
      is anybody there
  coterie config check --profile prod
      whether certificates and passwords of the profile are taken, by every broker
  coterie config check --profile prod -o json
      for programs

exit codes: 0 every broker was reached, 1 some was not, 2 a setting cannot be
"""

_ROUND_TRIPS: Final = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_connection_options(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Connect, and show what came of it."""
    import asyncio

    from coterie.cli.connect.opening import read_target
    from coterie.cli.output.emit import emit

    return emit(asyncio.run(look(read_target(options))), options)


async def look(target: Target) -> Outcome:
    """One item for each broker. Raises SettingError for addresses that are none."""
    from coterie.cli.output.values import Failure
    from coterie.client.cluster import Cluster
    from coterie.errors import ClientError, CoterieError, SettingError

    try:
        cluster = Cluster(target.bootstrap, target.options)
    except ClientError as error:
        raise SettingError(str(error)) from error
    try:
        answer = await cluster.metadata([])
        return _outcome(await _items(target, answer), answer)
    except CoterieError as error:
        return _outcome((), None, Failure.of("cluster", target.bootstrap, error))
    finally:
        await cluster.close()


def _outcome(
    items: tuple[Item, ...], answer: MetadataResponse | None, *failures: Failure
) -> Outcome:
    from coterie.cli.output.values import Column, Outcome

    cluster_id = answer.cluster_id if answer else None
    return Outcome(
        schema="coterie.config.broker",
        columns=(
            Column("node_id", "NODE"),
            Column("address", "ADDRESS"),
            Column("rack", "RACK", is_wide=True),
            Column("authenticated_as", "AS"),
            Column("encrypted_by", "ENCRYPTED BY"),
            Column("connect_ms", "CONNECT", show=_milliseconds),
            Column("round_trip_ms", "ROUND TRIP", show=_milliseconds),
            Column("error", "ERROR", show=_message),
        ),
        items=items,
        failures=failures,
        cluster_id=cluster_id,
        summary={"brokers": len(items)},
        notes=(f"cluster {cluster_id or 'without an id'}",) if answer else (),
    )


async def _items(target: Target, answer: MetadataResponse) -> tuple[Item, ...]:
    import asyncio

    brokers = sorted(answer.brokers, key=lambda broker: broker.node_id)
    tried = (_item(target, each) for each in brokers)
    return tuple(await asyncio.gather(*tried))


async def _item(target: Target, broker: MetadataResponseBroker) -> Item:
    from time import perf_counter

    from coterie.cli.output.values import error_item
    from coterie.client.connection import Address, BrokerConnection
    from coterie.errors import CoterieError

    address = Address(broker.host, broker.port)
    reached: dict[str, Json] = dict.fromkeys(
        ("authenticated_as", "encrypted_by", "connect_ms", "round_trip_ms")
    )
    failed: Json = None
    try:
        begun_s = perf_counter()
        connection = await BrokerConnection.open(address, target.options)
        reached["connect_ms"] = _since(begun_s)
        reached["round_trip_ms"] = await _round_trip_ms(connection)
        reached["authenticated_as"] = target.known_as
        reached["encrypted_by"] = connection.tls_version
        connection.close()
    except CoterieError as error:
        failed = error_item(error)
    return {
        "node_id": broker.node_id,
        "address": str(address),
        "rack": broker.rack,
        **reached,
        "error": failed,
    }


async def _round_trip_ms(connection: BrokerConnection) -> float:
    """The best of a few questions that cost a broker nothing."""
    from time import perf_counter

    from coterie.wire.messages.api_versions import (
        ApiVersionsRequest,
        ApiVersionsResponse,
    )

    taken_ms = []
    request = ApiVersionsRequest(
        client_software_name="coterie", client_software_version="0"
    )
    for _ in range(_ROUND_TRIPS):
        begun_s = perf_counter()
        await connection.call(request, ApiVersionsResponse)
        taken_ms.append(_since(begun_s))
    return min(taken_ms)


def _since(begun_s: float) -> float:
    from time import perf_counter

    return round((perf_counter() - begun_s) * 1000, 2)


def _milliseconds(value: Json) -> str:
    return "-" if value is None else f"{value} ms"


def _message(value: Json) -> str:
    return str(value["message"]) if isinstance(value, Mapping) else "-"
