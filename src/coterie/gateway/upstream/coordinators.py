"""Requests to the coordinators of transactional ids, and how they are retried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

from coterie.client.cluster import (
    TRANSACTION,
    Cluster,
    find_coordinator_request,
    read_find_coordinator,
)
from coterie.errors import (
    ApiError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    RequestTimedOut,
)
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message, Versions

M = TypeVar("M", bound=Message)
T = TypeVar("T")

COORDINATORS_MAX: Final = 10_000
"""The transactional ids whose coordinators are remembered."""


class Coordinators:
    """The brokers that coordinate transactional ids, as far as they are known."""

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}

    async def call(
        self,
        cluster: Cluster,
        transactional_id: str,
        request: Message,
        response: type[M],
        wanted: Versions,
    ) -> M:
        """Send a request to the coordinator of a transactional id, once. For an error
        code that names another one, the caller calls `forget`.

        Raises ApiError and the errors of `Cluster.call`.
        """
        node_id = self._nodes.get(transactional_id)
        if node_id is None:
            node_id = await find_coordinator(cluster, transactional_id)
            if len(self._nodes) >= COORDINATORS_MAX:
                self._nodes.clear()
            self._nodes[transactional_id] = node_id
        try:
            return await cluster.call(request, response, node_id=node_id, wanted=wanted)
        except (ConnectionLost, RequestTimedOut):
            self.forget(transactional_id)
            raise

    def forget(self, transactional_id: str) -> None:
        """Look the coordinator up before the next request."""
        self._nodes.pop(transactional_id, None)


async def find_coordinator(cluster: Cluster, transactional_id: str) -> int:
    """Return the broker that coordinates a transactional id. Raises ApiError and the
    errors of `Cluster.call`."""
    connection = await cluster.connection()
    version = connection.version_of(m.FindCoordinatorRequest)
    keys = [transactional_id]
    request = find_coordinator_request(keys, version, TRANSACTION)
    response = await connection.call(request, m.FindCoordinatorResponse)
    found = read_find_coordinator(response, keys, version).get(transactional_id)
    if found is None:
        raise MalformedFrame("the FindCoordinator response omits the key")
    check(found.code, f"the coordinator of {transactional_id}")
    return found.node_id


def check(code: int, what: str) -> None:
    """Raise ApiError for an error code of a response about `what`."""
    if code:
        read = ErrorCode.read(code)
        raise ApiError(read, f"{what}: {read.name}")


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    codes: Collection[ErrorCode],
    limit_s: float,
    *,
    backoff_s: tuple[float, float],
) -> T:
    """Return the result of `attempt`, which is repeated after lost connections, after
    time-outs and after the errors `codes`, with pauses between the two of `backoff_s`.

    Raises its last error after `limit_s`.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    delay_s, max_s = backoff_s
    last: CoterieError = RequestTimedOut("upstream did not respond in time")
    while True:
        try:
            async with asyncio.timeout_at(until_s):
                return await attempt()
        except TimeoutError:
            raise last from None
        except ApiError as error:
            if error.code not in codes:
                raise
            last = error
        except (ConnectionLost, RequestTimedOut) as error:
            last = error
        if loop.time() + delay_s > until_s:
            raise last
        await asyncio.sleep(delay_s)
        delay_s = min(2 * delay_s, max_s)
