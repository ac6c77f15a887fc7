"""The Produce requests of the shards to one broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from coterie.client import Cluster
from coterie.client.admin.calls import broker_timeout_ms
from coterie.client.connection import ELEMENTS_MAX, BrokerConnection
from coterie.errors import (
    ApiError,
    ConnectionLost,
    CoterieError,
    RequestTimedOut,
    code_of,
)
from coterie.gateway.upstream.topic_state import (
    MOVED,
    PendingCall,
    TopicState,
    bug_in,
)
from coterie.types import LogOffset
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

REQUESTS_MAX: Final = 5
"""Produce requests in flight on a connection."""
REQUEST_BYTES_MAX: Final = 8 << 20
PRODUCE: Final = Versions(9, 11)
"""Version 12 adds a partition to a transaction, which the gateway has done already."""
_ALL_IN_SYNC: Final = -1

Outcomes = Mapping[int, LogOffset | ApiError]
"""The base offset of each partition's batch, or its error."""


@dataclass(slots=True, eq=False, kw_only=True)
class PendingBatch(PendingCall):
    """A batch to produce."""

    data: bytes
    transactional_id: str | None


class Sender:
    """The Produce requests to one broker, in the order of the batches."""

    def __init__(self, topic: TopicState, cluster: Cluster, node_id: int) -> None:
        self._topic = topic
        self._cluster = cluster
        self._node_id = node_id
        self._timeout_ms = broker_timeout_ms(cluster.options)
        self._queue: deque[PendingBatch] = deque()
        self._sent: list[list[PendingBatch]] = []
        """The batches of each request in flight."""
        self._connection: BrokerConnection | None = None
        self._version = PRODUCE.low
        self._is_running = False
        self._has_room = asyncio.Event()
        self._has_room.set()

    @property
    def is_busy(self) -> bool:
        """Whether a batch waits for an answer."""
        return bool(self._queue or self._sent)

    def add(self, batch: PendingBatch) -> None:
        self._queue.append(batch)

    def start(self) -> None:
        """Send what may be sent now, and the rest in a task: a task for each request
        would cost more than the request."""
        if self._is_running:
            return
        if self._connection is not None and self._connection.is_open:
            self._send(self._connection)
        if self._queue:
            self._is_running = True
            self._topic.spawn(self._run())

    async def _run(self) -> None:
        try:
            while self._queue:
                connection = await self._cluster.connection(self._node_id)
                self._version = connection.version_of(m.ProduceRequest, PRODUCE)
                self._connection = connection
                await self._has_room.wait()
                await connection.wait_until_ready()
                self._send(connection)
        except CoterieError as error:
            self.fail(error)
            self._topic.refresh()
        except Exception:
            self.fail(bug_in("a Produce request"))
        finally:
            self._is_running = False

    def _send(self, connection: BrokerConnection) -> None:
        """Send requests while there is room."""
        while self._queue and self._has_room.is_set() and connection.is_ready:
            batches = self._next()
            if not batches:
                return
            self._sent.append(batches)
            if len(self._sent) >= REQUESTS_MAX:
                self._has_room.clear()
            connection.post(
                m.ProduceRequest,
                self._version,
                self._encode(batches),
                self._read,
                partial(self._answered, batches),
            )

    def _encode(self, batches: Sequence[PendingBatch]) -> bytes:
        """Return the body of a request with acks=all, for batches of one transactional
        id."""
        data = [
            m.PartitionProduceData(index=each.partition, records=each.data)
            for each in batches
        ]
        request = m.ProduceRequest(
            transactional_id=batches[0].transactional_id,
            acks=_ALL_IN_SYNC,
            timeout_ms=self._timeout_ms,
            topic_data=[m.TopicProduceData(name=self._topic.name, partition_data=data)],
        )
        return encode(request, self._version)

    def _read(self, frame: bytes, at: int, version: int) -> Outcomes:
        """Decode a response. Raises MalformedFrame."""
        response, _ = decode(m.ProduceResponse, version, frame, at, ELEMENTS_MAX)
        if self._connection is not None:
            self._connection.throttle(response.throttle_time_ms)
        return {
            each.index: ApiError(ErrorCode.read(each.error_code), each.error_message)
            if each.error_code
            else each.base_offset
            for topic in response.responses
            for each in topic.partition_responses
        }

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

    def _answered(
        self, batches: list[PendingBatch], result: Outcomes | CoterieError
    ) -> None:
        self._sent.remove(batches)
        self._has_room.set()
        if isinstance(result, CoterieError):
            if not isinstance(result, ConnectionLost | RequestTimedOut):
                result = ConnectionLost(str(result))
            for batch in batches:
                batch.finish(result)
            self._topic.refresh()
            return
        for batch in batches:
            outcome = result.get(batch.partition)
            if outcome is None:
                batch.finish(ConnectionLost("the Produce response omits a partition"))
                continue
            if code_of(outcome) in MOVED:
                self._topic.refresh()
            batch.finish(outcome)

    def fail_partitions(self, partitions: set[int], error: CoterieError) -> None:
        """End the waiting for the answers of some partitions."""
        waiting = [*(each for sent in self._sent for each in sent)]
        for batch in [*waiting, *self._queue]:
            if batch.partition in partitions:
                batch.finish(error)

    def fail(self, error: CoterieError) -> None:
        """Fail the batches that were not sent."""
        queue, self._queue = self._queue, deque()
        for batch in queue:
            batch.finish(error)
