"""How long one call of an admin may take, whatever it has to try."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coterie.client.cluster import Cluster
from coterie.errors import CoterieError, RequestTimedOut

T = TypeVar("T")


class Deadline:
    """The moment, in the loop's time, at which a call ends that begins now:
    `api_timeout_ms` from here. Made inside the loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._limit_ms = cluster.options.api_timeout_ms
        self._at_s = asyncio.get_running_loop().time() + self._limit_ms / 1000

    def leaves(self, delay_s: float) -> bool:
        """Whether it is further away than that."""
        return asyncio.get_running_loop().time() + delay_s <= self._at_s

    async def limit(self, job: Callable[[], Awaitable[T]]) -> T:
        """Do it, or raise RequestTimedOut at the deadline."""
        try:
            async with asyncio.timeout_at(self._at_s):
                return await job()
        except TimeoutError:
            message = f"no answer within the {self._limit_ms} ms of the whole call"
            raise RequestTimedOut(message) from None

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Do it, and again while it fails with what may pass; at the deadline raise
        its last failure, which says more than that time is up."""
        failures: list[CoterieError] = []

        async def once() -> T:
            try:
                return await attempt()
            except CoterieError as error:
                failures.append(error)
                raise

        try:
            return await self.limit(lambda: self._cluster.retrying(once))
        except RequestTimedOut as error:
            raise (failures or [error])[-1] from None
