"""Calls to every node of a cluster, and to the controller.

Rules of this file: a change is retried only when it certainly had no effect: the
controller could not be reached, or the response was NOT_CONTROLLER. When a response is
lost, the outcome is unknown and the error is raised to the caller; so a request in
flight is not cut off by the deadline of the whole call but by its own time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

from coterie.client.admin.results import Results, results_of
from coterie.client.cluster import Cluster, Deadline, backoff_s, nodes_in
from coterie.client.connection import ANY_VERSION, BrokerConnection
from coterie.client.options import ClientOptions
from coterie.errors import ClientError, CoterieError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message, Versions

M = TypeVar("M", bound=Message)
V = TypeVar("V")


async def ask_nodes(
    cluster: Cluster,
    request: Callable[[int], Awaitable[V]],
    node_ids: Iterable[int] | None = None,
    *,
    is_retried: bool = True,
) -> Results[int, V]:
    """Send a request to each node, by its id; None means every broker. Return the
    outcome of each, in order.

    Raises ConnectionLost, RequestTimedOut or ApiError when no broker names the others.
    """
    deadline = Deadline(cluster.options)
    if node_ids is None:
        metadata = await cluster.retrying(lambda: cluster.metadata([]), deadline)
        node_ids = (node.node_id for node in nodes_in(metadata))
    wanted = list(dict.fromkeys(node_ids))

    async def ask(node_id: int) -> V | CoterieError:
        attempt = partial(request, node_id)
        try:
            if is_retried:
                return await cluster.retrying(attempt, deadline)
            return await deadline.limit(attempt)
        except CoterieError as error:
            return error

    outcomes = await asyncio.gather(*map(ask, wanted))
    return results_of(wanted, dict(zip(wanted, outcomes, strict=True)))


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
