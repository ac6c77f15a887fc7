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
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple

from coterie.client.admin.transactions import describe_producers
from coterie.client.cluster import (
    TRANSACTION,
    Cluster,
    find_coordinator_request,
    read_find_coordinator,
)
from coterie.client.options import ClientOptions
from coterie.errors import (
    ApiError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    RequestTimedOut,
)
from coterie.gateway.upstream.topic_state import bug_in, call_back
from coterie.types import ProducerId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from coterie.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.wire.record_batch import INT32_MAX, Producer
from coterie.wire.schema import Versions

CONNECTIONS: Final = 4
"""The connections to each transaction coordinator."""
LIMIT_S: Final = 5.0
"""The limit of one call with its retries. Applications retry for longer."""
BACKOFF_MIN_S: Final = 0.02
BACKOFF_MAX_S: Final = 0.5
COORDINATORS_MAX: Final = 10_000
"""The transactional ids whose coordinators are remembered."""
_ADD_PARTITIONS: Final = Versions(0, 3)
"""Later versions are for brokers."""
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
        self._coordinators: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close all connections; calls without an answer get ConnectionLost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
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
        self._spawn(self._retrying(lambda: self._add(application, shard)), done)

    def producers(
        self,
        shard: int,
        done: Callable[[Mapping[ProducerId, Producer] | CoterieError], None],
    ) -> None:
        """List the transactional producers of a shard's partition, with their next
        sequences (KIP-664)."""
        self._spawn(self._producers(shard), done)

    def _spawn(
        self, job: Coroutine[Any, Any, Any], done: Callable[[Any], None]
    ) -> None:
        async def run() -> None:
            result: Any
            try:
                result = await job
            except CoterieError as error:
                result = error
            except asyncio.CancelledError:
                result = ConnectionLost("the client is closed")
            except Exception:
                result = bug_in("a request about a transaction")
            call_back(done, result)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _retrying(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LIMIT_S
        delay_s = BACKOFF_MIN_S
        last: CoterieError = RequestTimedOut("upstream did not respond in time")
        while True:
            try:
                async with asyncio.timeout_at(until_s):
                    await attempt()
                    return
            except TimeoutError:
                raise last from None
            except ApiError as error:
                if error.code not in _RETRIED:
                    raise
                last = error
            except (ConnectionLost, RequestTimedOut) as error:
                last = error
            if loop.time() + delay_s > until_s:
                raise last
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, BACKOFF_MAX_S)

    async def _add(self, application: Application, shard: int) -> None:
        transactional_id = application.transactional_id
        cluster = self._clusters[
            zlib.crc32(transactional_id.encode()) % len(self._clusters)
        ]
        node_id = self._coordinators.get(transactional_id)
        if node_id is None:
            node_id = await _find_coordinator(cluster, transactional_id)
            if len(self._coordinators) >= COORDINATORS_MAX:
                self._coordinators.clear()
            self._coordinators[transactional_id] = node_id
        topic = AddPartitionsToTxnTopic(name=self._topic, partitions=[shard])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=application.producer_id,
            v3_and_below_producer_epoch=application.producer_epoch,
            v3_and_below_topics=[topic],
        )
        try:
            response = await cluster.call(
                request,
                AddPartitionsToTxnResponse,
                node_id=node_id,
                wanted=_ADD_PARTITIONS,
            )
            _check(_added(response), f"the transaction of {transactional_id}")
        except ApiError as error:
            if error.code in _MOVED:
                self._coordinators.pop(transactional_id, None)
            raise
        except (ConnectionLost, RequestTimedOut):
            self._coordinators.pop(transactional_id, None)
            raise

    async def _producers(self, shard: int) -> dict[ProducerId, Producer]:
        where = TopicPartition(self._topic, shard)
        try:
            async with asyncio.timeout(LIMIT_S):
                described = await describe_producers(self._clusters[0], [where])
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


async def _find_coordinator(cluster: Cluster, transactional_id: str) -> int:
    connection = await cluster.connection()
    version = connection.version_of(FindCoordinatorRequest)
    keys = [transactional_id]
    request = find_coordinator_request(keys, version, TRANSACTION)
    response = await connection.call(request, FindCoordinatorResponse)
    found = read_find_coordinator(response, keys, version).get(transactional_id)
    if found is None:
        raise MalformedFrame("the FindCoordinator response omits the key")
    _check(found.code, f"the coordinator of {transactional_id}")
    return found.node_id


def _added(response: AddPartitionsToTxnResponse) -> int:
    codes = [
        partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    if len(codes) != 1:
        raise MalformedFrame(f"AddPartitionsToTxn: {len(codes)} results for 1")
    return codes[0]


def _check(code: int, what: str) -> None:
    if code:
        read = ErrorCode.read(code)
        raise ApiError(read, f"{what}: {read.name}")
