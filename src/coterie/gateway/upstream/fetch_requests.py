"""The Fetch requests of the shards to one broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from coterie.client import Cluster
from coterie.errors import ApiError, ConnectionLost, CoterieError
from coterie.gateway.upstream.topic_state import (
    MOVED,
    PendingCall,
    TopicState,
    bug_in,
)
from coterie.gateway.upstream.upstream import Fetched
from coterie.types import LogOffset
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

FETCH_BYTES_MAX: Final = 16 << 20
PARTITION_BYTES_MAX: Final = 2 << 20
_FETCH: Final = Versions(4, 12)
"""Later versions name topics by id."""


@dataclass(slots=True, eq=False, kw_only=True)
class PendingFetch(PendingCall):
    """A fetch from an offset on, which waits up to `wait_ms` for a batch."""

    offset: LogOffset
    wait_ms: int


class Fetcher:
    """The Fetch requests to one broker on one connection, one at a time: fetches that
    are added meanwhile share the next request."""

    def __init__(self, topic: TopicState, cluster: Cluster, node_id: int) -> None:
        self._topic = topic
        self._cluster = cluster
        self._node_id = node_id
        self._queue: list[PendingFetch] = []
        self._sent: list[PendingFetch] = []
        self._is_running = False

    @property
    def is_busy(self) -> bool:
        """Whether a fetch waits for an answer."""
        return bool(self._queue or self._sent)

    def add(self, fetch: PendingFetch) -> None:
        self._queue.append(fetch)
        if not self._is_running:
            self._is_running = True
            self._topic.spawn(self._run())

    async def _run(self) -> None:
        try:
            while self._queue:
                await asyncio.sleep(0)  # the fetches of an iteration share a request
                self._sent = self._take()
                response = await self._cluster.call(
                    self._request(self._sent),
                    m.FetchResponse,
                    node_id=self._node_id,
                    wanted=_FETCH,
                )
                sent, self._sent = self._sent, []
                self._finish(sent, response)
        except CoterieError as error:
            self.fail(error)
            self._topic.refresh()
        except Exception:
            self.fail(bug_in("a Fetch request"))
        finally:
            self._is_running = False

    def _take(self) -> list[PendingFetch]:
        """Remove the fetches of the next request from the queue: one a partition."""
        taken: dict[int, PendingFetch] = {}
        later: list[PendingFetch] = []
        for fetch in self._queue:
            if fetch.is_done:
                continue
            if fetch.partition in taken:
                later.append(fetch)
            else:
                taken[fetch.partition] = fetch
        self._queue = later
        return list(taken.values())

    def _request(self, fetches: Sequence[PendingFetch]) -> m.FetchRequest:
        partitions = [
            m.FetchPartition(
                partition=fetch.partition,
                fetch_offset=fetch.offset,
                partition_max_bytes=PARTITION_BYTES_MAX,
            )
            for fetch in fetches
        ]
        wait_ms = min((fetch.wait_ms for fetch in fetches), default=0)
        return m.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1 if wait_ms else 0,
            max_bytes=FETCH_BYTES_MAX,
            topics=[m.FetchTopic(topic=self._topic.name, partitions=partitions)],
        )

    def _finish(self, sent: Sequence[PendingFetch], response: m.FetchResponse) -> None:
        outcomes: dict[int, m.PartitionData] = {
            each.partition_index: each
            for topic in response.responses
            for each in topic.partitions
        }
        for fetch in sent:
            each = outcomes.get(fetch.partition)
            code = response.error_code or (each.error_code if each else 0)
            if code:
                read = ErrorCode.read(code)
                if read in MOVED:
                    self._topic.refresh()
                fetch.finish(ApiError(read))
            elif each is None:
                fetch.finish(ConnectionLost("the Fetch response omits a partition"))
            else:
                fetch.finish(Fetched(each.records or b"", each.high_watermark))

    def fail_partitions(self, partitions: set[int], error: CoterieError) -> None:
        """End the waiting for the answers of some partitions."""
        for fetch in [*self._sent, *self._queue]:
            if fetch.partition in partitions:
                fetch.finish(error)

    def fail(self, error: CoterieError) -> None:
        """Fail all fetches."""
        sent, self._sent = self._sent, []
        queue, self._queue = self._queue, []
        for fetch in [*sent, *queue]:
            fetch.finish(error)
