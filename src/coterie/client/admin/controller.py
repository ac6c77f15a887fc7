"""Asking the controller for changes to the cluster's topics.

Rules of this file: a change is asked for again only when it is certain that nothing was
done: the controller could not be reached, or is another node. When an answer is lost,
the caller learns that the outcome is unknown, and looks. So a request that is under way
is not cut off by the deadline of the whole call, but has its own time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from coterie.client.admin.bulk import backoff_s
from coterie.client.admin.deadline import Deadline
from coterie.client.cluster import Cluster
from coterie.client.connection import ANY_VERSION, BrokerConnection
from coterie.client.options import ClientOptions
from coterie.errors import ClientError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message, Versions

M = TypeVar("M", bound=Message)


async def call_controller(
    cluster: Cluster,
    request: Message,
    response: type[M],
    codes: Callable[[M], Iterable[int]],
    *,
    wanted: Versions = ANY_VERSION,
) -> M:
    """The controller's answer, of whatever node is the controller in the end. `codes`
    gives the error codes in an answer.

    Raises what `BrokerConnection.call` does.
    """
    deadline = Deadline(cluster)
    answer: M | None = None
    tries = 1
    while True:
        try:
            connection = await deadline.retrying(partial(_controller, cluster))
        except ClientError:
            if answer is None:
                raise
            return answer
        answer = await connection.call(request, response, wanted=wanted)
        delay_s = backoff_s(cluster.options, tries)
        found = set(codes(answer))
        if found != {ErrorCode.NOT_CONTROLLER} or not deadline.leaves(delay_s):
            return answer
        await asyncio.sleep(delay_s)
        tries += 1


async def _controller(cluster: Cluster) -> BrokerConnection:
    """The node that says it is the controller, or passes on what it is asked: with
    KRaft that is any (KIP-590)."""
    controller_id = (await cluster.metadata([])).controller_id
    return await cluster.connection(controller_id if controller_id >= 0 else None)


def broker_timeout_ms(options: ClientOptions) -> int:
    """How long a broker may take over a change: it is to give up before we do, so that
    it is known what came of it."""
    return options.request_timeout_ms * 3 // 4
