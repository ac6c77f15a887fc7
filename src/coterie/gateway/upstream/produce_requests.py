"""The Produce requests of the shards to one broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from coterie.client.admin.calls import broker_timeout_ms
from coterie.client.cluster import Cluster
from coterie.client.connection import BrokerConnection
from coterie.errors import ApiError, ConnectionLost, CoterieError, RequestTimedOut
from coterie.gateway.upstream.topic_state import (
    MOVED,
    TopicState,
    bug_in,
    call_back,
)
from coterie.gateway.upstream.upstream import Produced
from coterie.types import LogOffset
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

REQUESTS_MAX: Final = 5
"""Produce requests in flight on a connection."""
REQUEST_BYTES_MAX: Final = 8 << 20
_PRODUCE: Final = Versions(3, 11)
"""With record batches v2, until version 12, which adds a partition to a transaction
that the gateway has added it to already."""
_ALL_IN_SYNC: Final = -1


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch to produce, until `done` was called."""

    partition: int
    data: bytes
    done: Produced
    transactional_id: str | None
    is_done: bool = False

    def finish(self, result: LogOffset | CoterieError) -> None:
        if not self.is_done:
            self.is_done = True
            call_back(self.done, result)


class Sender:
    """The Produce requests to one broker, in the order of the batches."""

    def __init__(self, topic: TopicState, cluster: Cluster, node_id: int) -> None:
        self._topic = topic
        self._cluster = cluster
        self._node_id = node_id
        self._queue: deque[PendingBatch] = deque()
        self._sent: dict[asyncio.Future[m.ProduceResponse], list[PendingBatch]] = {}
        self._connection: BrokerConnection | None = None
        self._is_running = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._oldest: object = None

    @property
    def is_busy(self) -> bool:
        """Whether a batch waits for an answer."""
        return bool(self._queue or self._sent)

    def is_late(self) -> bool:
        """Return whether the same request has been in flight since the last call, or
        none could be sent."""
        oldest: object = next(iter(self._sent), self._queue[0] if self._queue else None)
        was_oldest, self._oldest = self._oldest, oldest
        return oldest is not None and oldest is was_oldest

    def add(self, batch: PendingBatch) -> None:
        self._queue.append(batch)

    def start(self) -> None:
        """Send what may be sent now, and the rest in a task."""
        if self._is_running:
            return
        connection = self._connection
        if connection is not None and connection.is_open:
            self._send_now(connection)
        if self._queue:
            self._is_running = True
            self._topic.spawn(self._run())

    def _send_now(self, connection: BrokerConnection) -> None:
        """Send requests while there is room: a task for each would cost more than the
        request."""
        while self._queue and self._has_room.is_set():
            batches = self._next()
            if not batches:
                return
            try:
                future = connection.send_now(
                    self._request(batches), m.ProduceResponse, wanted=_PRODUCE
                )
            except CoterieError:
                future = None
            if future is None:
                self._queue.extendleft(reversed(batches))
                return
            self._sent_now(future, batches)

    def _sent_now(
        self, future: asyncio.Future[m.ProduceResponse], batches: list[PendingBatch]
    ) -> None:
        self._sent[future] = batches
        if len(self._sent) >= REQUESTS_MAX:
            self._has_room.clear()
        future.add_done_callback(self._answered)

    async def _run(self) -> None:
        try:
            while self._queue:
                connection = await self._cluster.connection(self._node_id)
                self._connection = connection
                await self._has_room.wait()
                batches = self._next()
                if not batches:
                    continue
                try:
                    future = await connection.send(
                        self._request(batches), m.ProduceResponse, wanted=_PRODUCE
                    )
                except BaseException:
                    self._queue.extendleft(reversed(batches))
                    raise
                self._sent_now(future, batches)
        except CoterieError as error:
            self.fail(error)
            self._topic.refresh()
        except Exception:
            self.fail(bug_in("a Produce request"))
        finally:
            self._is_running = False

    def _next(self) -> list[PendingBatch]:
        """Remove the batches of the next request from the queue: one of each partition,
        all of one transactional id or without one."""
        batches: list[PendingBatch] = []
        partitions: set[int] = set()
        size = 0
        while self._queue:
            batch = self._queue[0]
            if batch.is_done:
                self._queue.popleft()
                continue
            if batches and (
                batch.partition in partitions
                or batch.transactional_id != batches[0].transactional_id
                or size + len(batch.data) > REQUEST_BYTES_MAX
            ):
                break
            self._queue.popleft()
            batches.append(batch)
            partitions.add(batch.partition)
            size += len(batch.data)
        return batches

    def _request(self, batches: Sequence[PendingBatch]) -> m.ProduceRequest:
        data = [
            m.PartitionProduceData(index=batch.partition, records=batch.data)
            for batch in batches
        ]
        return m.ProduceRequest(
            transactional_id=batches[0].transactional_id,
            acks=_ALL_IN_SYNC,
            timeout_ms=broker_timeout_ms(self._cluster.options),
            topic_data=[m.TopicProduceData(name=self._topic.name, partition_data=data)],
        )

    def _answered(self, future: asyncio.Future[m.ProduceResponse]) -> None:
        batches = self._sent.pop(future)
        self._has_room.set()
        if future.cancelled() or (error := future.exception()) is not None:
            lost = error if not future.cancelled() else None
            if not isinstance(lost, CoterieError):
                lost = ConnectionLost("the request was cancelled")
            if not isinstance(lost, ConnectionLost | RequestTimedOut):
                lost = ConnectionLost(str(lost))
            for batch in batches:
                batch.finish(lost)
            self._topic.refresh()
            return
        outcomes = {
            each.index: each
            for topic in future.result().responses
            for each in topic.partition_responses
        }
        for batch in batches:
            each = outcomes.get(batch.partition)
            if each is None:
                batch.finish(ConnectionLost("the Produce response omits a partition"))
            elif each.error_code:
                code = ErrorCode.read(each.error_code)
                if code in MOVED:
                    self._topic.refresh()
                batch.finish(ApiError(code, each.error_message))
            else:
                batch.finish(each.base_offset)

    def fail_partitions(self, partitions: set[int], error: CoterieError) -> None:
        """End the waiting for the answers of some partitions."""
        waiting = [*(each for sent in self._sent.values() for each in sent)]
        for batch in [*waiting, *self._queue]:
            if batch.partition in partitions:
                batch.finish(error)

    def fail(self, error: CoterieError) -> None:
        """Fail the batches that were not sent."""
        queue, self._queue = self._queue, deque()
        for batch in queue:
            batch.finish(error)
