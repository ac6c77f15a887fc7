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

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from coterie.client import ClientOptions, Cluster, Transactions
from coterie.client.cluster import COORDINATOR_ELSEWHERE, TRANSACTION
from coterie.errors import ApiError, CoterieError, MalformedFrame
from coterie.gateway.upstream.topic_state import Tasks
from coterie.types import ProducerId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import INT32_MAX, Producer
from coterie.wire.schema import Versions

CONNECTIONS: Final = 4
"""The connections to each transaction coordinator."""
LIMIT_MS: Final = 5_000
"""The limit of one call with its retries. Applications retry for longer."""
BACKOFF_MIN_MS: Final = 20
BACKOFF_MAX_MS: Final = 500
_ADD_PARTITIONS: Final = Versions(0, 3)
"""Later versions are for brokers."""
_WHAT: Final = "a request about a transaction"
_RETRIED: Final = frozenset(
    {ErrorCode.NETWORK_EXCEPTION, ErrorCode.CONCURRENT_TRANSACTIONS}
)


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
        quick = replace(
            options,
            request_timeout_ms=min(options.request_timeout_ms, LIMIT_MS),
            api_timeout_ms=LIMIT_MS,
            retry_backoff_ms=BACKOFF_MIN_MS,
            retry_backoff_max_ms=BACKOFF_MAX_MS,
        )
        self._clusters = [
            Cluster(bootstrap, quick, TRANSACTION) for _ in range(CONNECTIONS)
        ]
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
        retried for `LIMIT_MS`.
        """
        key = zlib.crc32(application.transactional_id.encode())
        cluster = self._clusters[key % len(self._clusters)]
        job = cluster.retrying(
            lambda: self._add(cluster, application, shard), also=_RETRIED
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

    async def _add(
        self, cluster: Cluster, application: Application, shard: int
    ) -> None:
        transactional_id = application.transactional_id
        topic = m.AddPartitionsToTxnTopic(name=self._topic, partitions=[shard])
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=application.producer_id,
            v3_and_below_producer_epoch=application.producer_epoch,
            v3_and_below_topics=[topic],
        )
        response = await cluster.call_coordinator(
            transactional_id,
            request,
            m.AddPartitionsToTxnResponse,
            wanted=_ADD_PARTITIONS,
        )
        code = ErrorCode.read(_added(response))
        if code in COORDINATOR_ELSEWHERE:
            cluster.forget_coordinator(transactional_id)
        if code:
            what = f"the transaction of {transactional_id}"
            raise ApiError(code, f"{what}: {code.name}")

    async def _producers(self, shard: int) -> dict[ProducerId, Producer]:
        where = TopicPartition(self._topic, shard)
        described = await Transactions(self._clusters[0]).describe_producers([where])
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
