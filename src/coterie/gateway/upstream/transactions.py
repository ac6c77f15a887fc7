"""Requests about applications' transactions to the upstream cluster, on sockets.

`add_partition` makes a shard's partition part of a transaction, and `producers` lists
the producers of a shard's partition with their sequence numbers. Both return at once
and call `done` exactly once, later and in the event loop.

A broker handles the requests of a connection in order, and AddPartitionsToTxn
waits for a write. So transactional ids are spread over some connections to each
coordinator. The gateway's own principal needs WRITE on the transactional ids: requests
are authorized for the application before, by the gateway.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from coterie.client.admin.transactions import Transactions
from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions
from coterie.errors import CoterieError, MalformedFrame, RequestTimedOut
from coterie.gateway.upstream.coordinators import Coordinators, check, retrying
from coterie.gateway.upstream.topic_state import Tasks
from coterie.types import ProducerId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import INT32_MAX, Producer
from coterie.wire.schema import Versions

CONNECTIONS: Final = 4
"""The connections to each transaction coordinator."""
LIMIT_S: Final = 5.0
"""The limit of one call with its retries. Applications retry for longer."""
BACKOFF_MIN_S: Final = 0.02
BACKOFF_MAX_S: Final = 0.5
_ADD_PARTITIONS: Final = Versions(0, 3)
"""Later versions are for brokers."""
_WHAT: Final = "a request about a transaction"
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_RETRIED: Final = _MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Application(NamedTuple):
    """The transactional producer of an application."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int


class TransactionClient:
    """The client; `topic` is that of the shards."""

    def __init__(
        self, bootstrap: str | Sequence[str], options: ClientOptions, topic: TopicName
    ) -> None:
        self._topic = topic
        self._clusters = [Cluster(bootstrap, options) for _ in range(CONNECTIONS)]
        self._coordinators = Coordinators()
        self._tasks = Tasks()

    async def close(self) -> None:
        """Close all connections; calls without an answer get ConnectionLost."""
        await self._tasks.close()
        for cluster in self._clusters:
            await cluster.close()

    def add_partition(
        self,
        application: Application,
        shard: int,
        done: Callable[[CoterieError | None], None],
    ) -> None:
        """Add a shard's partition to the transaction of an application, and begin one
        if none is open.

        `done` gets None, or upstream's refusal as ApiError. Retriable errors are
        retried for `LIMIT_S`.
        """
        job = retrying(
            lambda: self._add(application, shard),
            _RETRIED,
            LIMIT_S,
            backoff_s=(BACKOFF_MIN_S, BACKOFF_MAX_S),
        )
        self._tasks.call(job, done, _WHAT)

    def producers(
        self,
        shard: int,
        done: Callable[[Mapping[ProducerId, Producer] | CoterieError], None],
    ) -> None:
        """List the transactional producers of a shard's partition, with their next
        sequences (KIP-664)."""
        self._tasks.call(self._producers(shard), done, _WHAT)

    async def _add(self, application: Application, shard: int) -> None:
        transactional_id = application.transactional_id
        cluster = self._clusters[
            zlib.crc32(transactional_id.encode()) % len(self._clusters)
        ]
        topic = m.AddPartitionsToTxnTopic(name=self._topic, partitions=[shard])
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=application.producer_id,
            v3_and_below_producer_epoch=application.producer_epoch,
            v3_and_below_topics=[topic],
        )
        response = await self._coordinators.call(
            cluster,
            transactional_id,
            request,
            m.AddPartitionsToTxnResponse,
            _ADD_PARTITIONS,
        )
        code = _added(response)
        if code in _MOVED:
            self._coordinators.forget(transactional_id)
        check(code, f"the transaction of {transactional_id}")

    async def _producers(self, shard: int) -> dict[ProducerId, Producer]:
        where = TopicPartition(self._topic, shard)
        try:
            async with asyncio.timeout(LIMIT_S):
                described = await Transactions(self._clusters[0]).describe_producers(
                    [where]
                )
        except TimeoutError:
            raise RequestTimedOut(f"the producers of {where} are unknown") from None
        return {
            each.producer_id: Producer(
                each.producer_id,
                each.producer_epoch,
                (each.last_sequence + 1) & INT32_MAX,
            )
            for each in described.one(where)
        }


def _added(response: m.AddPartitionsToTxnResponse) -> int:
    codes = [
        partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    if len(codes) != 1:
        raise MalformedFrame(f"AddPartitionsToTxn: {len(codes)} results for 1")
    return codes[0]
