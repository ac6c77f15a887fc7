"""A cluster for callers without an event loop, and the batches of one partition of it,
asked for while the ones before are worked on."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from coterie.client.cluster import Cluster
from coterie.client.log_fetch import Fetched, fetch_log
from coterie.client.loop_thread import LoopThread
from coterie.client.settings.carried import Carried
from coterie.errors import ClientError
from coterie.types import LogOffset, TopicPartition
from coterie.wire.record_batch import HEADER_BYTES, LENGTH_END

T = TypeVar("T")

_FRONT: Final = struct.Struct(">qi11xi")
"""Of a batch: base offset, length, what is of no interest here, last offset delta."""
_EMPTY_MAX: Final = 5
"""So many answers without a batch, and there is none: compaction took what was
there."""


class Wire:
    """A cluster, for callers without an event loop."""

    def __init__(self, settings: Carried) -> None:
        bootstrap, options, _, _ = settings.target()
        # Nobody waits at a terminal, and a job of hours outlives the loss of a broker.
        wait_ms = options.api_timeout_ms * 3 // 4  # what is said last is the reason
        patient = replace(options, leader_wait_ms=wait_ms)
        self.cluster = Cluster(bootstrap, patient)
        self._thread = LoopThread()

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives or raises."""
        return self._thread.wait(call)

    def close(self) -> None:
        """Close every connection."""
        self._thread.wait(self.cluster.close())
        self._thread.close()


@contextmanager
def opened(settings: Carried) -> Iterator[Wire]:
    """A cluster for a while."""
    wire = Wire(settings)
    try:
        yield wire
    finally:
        wire.close()


class WireBatch(NamedTuple):
    """A whole batch, as its leader has it."""

    base_offset: LogOffset
    next_offset: LogOffset
    data: memoryview


class Reader:
    """Reads a partition on: what follows is asked for while somebody works on what
    came last."""

    def __init__(self, cluster: Cluster, partition: TopicPartition) -> None:
        self._cluster = cluster
        self._partition = partition
        self._coming: tuple[LogOffset, asyncio.Task[Fetched]] | None = None

    async def read(
        self, offset: LogOffset, until: LogOffset
    ) -> tuple[list[WireBatch], Fetched]:
        """The batches from the one that holds `offset` on; none when there is nothing
        from there to the stable offset. Raises what `fetch_log` does, and ClientError
        for an answer that is no batches."""
        for _ in range(_EMPTY_MAX):
            fetched = await self._take(offset)
            if fetched.data:
                break
        batches = split(fetched.data)
        if fetched.data and not batches:
            raise ClientError(
                f"partition {self._partition.topic}-{self._partition.partition}: what "
                f"its leader has at offset {offset} is no record batch"
            )
        if batches and (after := batches[-1].next_offset) < until:
            self._ask(after)
        return batches, fetched

    async def _take(self, offset: LogOffset) -> Fetched:
        coming, self._coming = self._coming, None
        if coming is not None and coming[0] == offset:
            return await coming[1]
        return await self._fetch(offset)

    def _ask(self, offset: LogOffset) -> None:
        task = asyncio.get_running_loop().create_task(self._fetch(offset))
        task.add_done_callback(_look_at)
        self._coming = (offset, task)

    async def _fetch(self, offset: LogOffset) -> Fetched:
        return await fetch_log(
            self._cluster, self._partition, offset, committed_only=True
        )


def _look_at(task: asyncio.Task[Fetched]) -> None:
    """Whoever reads no further leaves an error that nobody asks for."""
    if not task.cancelled():
        task.exception()


def split(data: bytes) -> list[WireBatch]:
    """The batches that are whole; the last may be cut short."""
    view, at, found = memoryview(data), 0, []
    while at + HEADER_BYTES <= len(data):
        base, length, delta = _FRONT.unpack_from(data, at)
        size = LENGTH_END + length
        if size < HEADER_BYTES or at + size > len(data):
            break
        found.append(WireBatch(base, base + delta + 1, view[at : at + size]))
        at += size
    return found
