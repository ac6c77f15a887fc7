"""Calls to the controller, and the nodes of a cluster.

Rules of this file: a change is retried only when it certainly had no effect: the
controller could not be reached, or the response was NOT_CONTROLLER. When a response is
lost, the outcome is unknown and the error is raised to the caller; so a request in
flight is not cut off by the deadline of the whole call but by its own time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from coterie.client.admin.groups import Node
from coterie.client.cluster import Cluster, Deadline, backoff_s
from coterie.client.connection import ANY_VERSION, BrokerConnection
from coterie.client.options import ClientOptions
from coterie.errors import ClientError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message, Versions

M = TypeVar("M", bound=Message)


async def nodes_of(cluster: Cluster, deadline: Deadline) -> tuple[Node, ...]:
    """Return the brokers of the cluster, sorted by id."""
    return nodes_in(await cluster.retrying(lambda: cluster.metadata([]), deadline))


def node_of(cluster: Cluster, node_id: int) -> Node:
    """Return a coordinator or broker that a response has named."""
    return Node(node_id, *cluster.address_of(node_id))


def nodes_in(metadata: m.MetadataResponse) -> tuple[Node, ...]:
    """Return the brokers that a Metadata response names, sorted by id."""
    brokers = metadata.brokers
    return tuple(
        sorted(Node(each.node_id, each.host, each.port, each.rack) for each in brokers)
    )


async def call_controller(
    cluster: Cluster,
    request: Message,
    response: type[M],
    codes: Callable[[M], Iterable[int]],
    *,
    wanted: Versions = ANY_VERSION,
) -> M:
    """Send a request to the controller and return its response. `codes` returns the
    error codes in a response.

    Raises the errors of `BrokerConnection.call`.
    """

    async def connect() -> BrokerConnection:
        # With KRaft any broker forwards the request to the controller (KIP-590).
        controller_id = (await cluster.metadata([])).controller_id
        return await cluster.connection(controller_id if controller_id >= 0 else None)

    deadline = Deadline(cluster.options)
    received: M | None = None
    attempt = 1
    while True:
        try:
            connection = await cluster.retrying(connect, deadline)
        except ClientError:
            if received is None:
                raise
            return received
        received = await connection.call(request, response, wanted=wanted)
        delay_s = backoff_s(cluster.options, attempt)
        is_elsewhere = set(codes(received)) == {ErrorCode.NOT_CONTROLLER}
        if not is_elsewhere or not deadline.leaves(delay_s):
            return received
        await asyncio.sleep(delay_s)
        attempt += 1


def broker_timeout_ms(options: ClientOptions) -> int:
    """Return the time-out to send to a broker for a change (ms): less than the client's
    request time-out, so that the broker responds with its own time-out error first."""
    return options.request_timeout_ms * 3 // 4
