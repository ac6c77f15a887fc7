"""The client of the shards' topic in the upstream cluster, on sockets.

    client = UpstreamClient(bootstrap, options, topic)
    await client.start()
    client.produce(partition, batch, done)
    await client.close()

Each broker has one connection for Produce, one for Fetch, and one for fetches that wait
for new batches: a broker handles the requests of a connection one after the other, and
a Fetch that waits, or has much to return, must not delay a commit. Produce requests
contain one batch of each partition that has one; several are in flight.

A batch whose leader is unknown, has moved, or cannot be reached fails at once, and the
metadata are refreshed: `ShardWriter` sends it again, in order. Nothing else is retried
here but InitProducerId, whose caller has nothing to keep in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from coterie.client import ClientOptions, Cluster
from coterie.client.cluster import TRANSACTION
from coterie.errors import ApiError, ConnectionLost, CoterieError
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.upstream.fetch_requests import Fetcher, PendingFetch
from coterie.gateway.upstream.produce_requests import PendingBatch, Sender
from coterie.gateway.upstream.topic_state import MOVED, TopicState
from coterie.gateway.upstream.upstream import FetchDone, Initialized, Produced
from coterie.types import LogOffset, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import Producer
from coterie.wire.schema import Versions

_LOGGER = logging.getLogger(__name__)

CONTROL_TIMEOUT_MS: Final = 3_000
"""The limit for connecting to a broker and for Metadata: a broker that is stopped must
not delay the search for new leaders."""
FETCH_TIMEOUT_MS: Final = 10_000
REFRESH_MIN_S: Final = 0.05
REFRESH_MAX_S: Final = 1.0
WATCH_S: Final = 1.0
"""The interval of metadata refreshes while a Produce or Fetch has no answer."""
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Unused, because the shards' producers begin no transactions."""

_INIT_PRODUCER_ID: Final = Versions(0, 5)
_INIT_RETRIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class UpstreamClient:
    """The client of one topic; see the module's docstring."""

    def __init__(
        self, bootstrap: str | Sequence[str], options: ClientOptions, topic: TopicName
    ) -> None:
        self.counts = GatewayCounts()
        """The observer of the times of Produce requests; a node sets its own."""
        self._topic = TopicState(topic, self.refresh)
        quick = replace(
            options,
            request_timeout_ms=min(options.request_timeout_ms, CONTROL_TIMEOUT_MS),
            connect_timeout_ms=min(options.connect_timeout_ms, CONTROL_TIMEOUT_MS),
        )
        patient = replace(
            quick,
            request_timeout_ms=max(options.request_timeout_ms, FETCH_TIMEOUT_MS),
        )
        self._control = Cluster(bootstrap, quick, TRANSACTION)
        self._produce_cluster = Cluster(bootstrap, patient)
        self._fetch_cluster = Cluster(bootstrap, patient)
        self._wait_cluster = Cluster(bootstrap, patient)
        self._leaders: dict[int, int] = {}
        self._outbox: list[PendingBatch] = []
        self._senders: dict[int, Sender] = {}
        self._fetchers: dict[tuple[bool, int], Fetcher] = {}
        self._is_refreshing = False
        self._refreshed_at_s = -REFRESH_MAX_S
        self._watch: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Find the leaders of all partitions; go on in the background when a broker
        does not know a new topic yet. Raises the errors of `Cluster.retrying`."""
        try:
            await self._control.retrying(self._find_leaders)
        except ApiError as error:
            if error.code not in MOVED:
                raise
            self.refresh()

    async def close(self) -> None:
        """Close all connections; calls without an answer get ConnectionLost."""
        self._is_closed = True
        if self._watch is not None:
            self._watch.cancel()
        await self._topic.close()
        error = ConnectionLost("the client is closed")
        self._distribute()
        for sender in self._senders.values():
            sender.fail(error)
        for fetcher in self._fetchers.values():
            fetcher.fail(error)
        for cluster in (
            self._control,
            self._produce_cluster,
            self._fetch_cluster,
            self._wait_cluster,
        ):
            await cluster.close()

    # Upstream.

    def init_producer_id(self, transactional_id: str, done: Initialized) -> None:
        """Get a producer id; see `Upstream`. Retriable errors are retried for
        `api_timeout_ms`."""
        job = self._init_producer_id(transactional_id)
        self._topic.call(job, done, "the request for a producer id")

    def produce(
        self,
        partition: int,
        batch: bytes,
        done: Produced,
        *,
        transactional_id: str | None = None,
    ) -> None:
        """Append a batch; see `Upstream`."""
        loop = asyncio.get_running_loop()
        sent_s = loop.time()

        def answered(result: LogOffset | CoterieError) -> None:
            self.counts.observe_produce(loop.time() - sent_s)
            done(result)

        if not self._outbox:
            loop.call_soon(self._distribute)
        self._outbox.append(
            PendingBatch(
                partition=partition,
                done=answered,
                data=batch,
                transactional_id=transactional_id,
            )
        )

    def fetch(
        self, partition: int, offset: LogOffset, done: FetchDone, *, wait_ms: int = 0
    ) -> None:
        """Fetch from a partition; see `Upstream`."""
        fetch = PendingFetch(
            partition=partition, done=done, offset=offset, wait_ms=wait_ms
        )
        node_id = self._leaders.get(partition)
        if node_id is None or self._is_closed:
            self.refresh()
            error = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
            asyncio.get_running_loop().call_soon(fetch.finish, error)
            return
        key = (wait_ms > 0, node_id)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            cluster = self._wait_cluster if wait_ms else self._fetch_cluster
            fetcher = self._fetchers[key] = Fetcher(self._topic, cluster, node_id)
        fetcher.add(fetch)
        self._start_watch()

    def _distribute(self) -> None:
        """Hand the batches of a loop iteration to the senders of their leaders."""
        batches, self._outbox = self._outbox, []
        if self._is_closed:
            for batch in batches:
                batch.finish(ConnectionLost("the client is closed"))
            return
        touched: dict[int, Sender] = {}
        for batch in batches:
            node_id = self._leaders.get(batch.partition)
            if node_id is None:
                self.refresh()
                batch.finish(ApiError(ErrorCode.LEADER_NOT_AVAILABLE))
                continue
            sender = self._senders.get(node_id)
            if sender is None:
                sender = Sender(self._topic, self._produce_cluster, node_id)
                self._senders[node_id] = sender
            sender.add(batch)
            touched[node_id] = sender
        for sender in touched.values():
            sender.start()
        self._start_watch()

    # Leaders.

    def refresh(self) -> None:
        """Look up the leaders soon; calls meanwhile have no effect."""
        if not self._is_refreshing and not self._is_closed:
            self._is_refreshing = True
            self._topic.spawn(self._refresh_leaders())

    async def _refresh_leaders(self) -> None:
        try:
            await self._find_all_leaders()
        finally:
            self._is_refreshing = False

    async def _find_all_leaders(self) -> None:
        """Look up the leaders until all are known, with backoff."""
        loop = asyncio.get_running_loop()
        delay_s = REFRESH_MIN_S
        while not self._is_closed:
            pause_s = self._refreshed_at_s + delay_s - loop.time()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            self._refreshed_at_s = loop.time()
            try:
                if await self._find_leaders():
                    return
            except CoterieError as error:
                _LOGGER.warning(
                    "the leaders of %s are unknown: %s", self._topic.name, error
                )
            delay_s = min(2 * delay_s, REFRESH_MAX_S)

    async def _find_leaders(self) -> bool:
        """Look up the leaders; return whether every partition has one."""
        response = await self._control.metadata([self._topic.name])
        for topic in response.topics:
            if topic.error_code:
                raise ApiError(
                    ErrorCode.read(topic.error_code), f"topic {self._topic.name}"
                )
            leaders = {
                each.partition_index: each.leader_id
                for each in topic.partitions
                if each.leader_id >= 0
            }
            moved = {
                partition
                for partition, node_id in self._leaders.items()
                if leaders.get(partition) != node_id
            }
            self._leaders = leaders
            if moved:
                self._leave_old_leaders(moved)
            return len(leaders) == len(topic.partitions)
        return False

    def _leave_old_leaders(self, moved: set[int]) -> None:
        """End the calls that wait for an answer of an earlier leader: it may be a
        broker that is stopped."""
        error = ConnectionLost("the partition has another leader now")
        for sender in self._senders.values():
            sender.fail_partitions(moved, error)
        for fetcher in self._fetchers.values():
            fetcher.fail_partitions(moved, error)

    def _start_watch(self) -> None:
        if self._watch is None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._watch = loop.call_later(WATCH_S, self._check_answers)

    def _check_answers(self) -> None:
        """Refresh the leaders while calls wait for answers: the broker may hang."""
        self._watch = None
        calls: list[Sender | Fetcher]
        calls = [*self._senders.values(), *self._fetchers.values()]
        if any(each.is_busy for each in calls):
            self.refresh()
            self._start_watch()

    # Producer ids.

    async def _init_producer_id(self, transactional_id: str) -> Producer:
        request = m.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )

        async def attempt() -> Producer:
            response = await self._control.call_coordinator(
                transactional_id,
                request,
                m.InitProducerIdResponse,
                wanted=_INIT_PRODUCER_ID,
            )
            if response.error_code:
                self._control.forget_coordinator(transactional_id)
                code = ErrorCode.read(response.error_code)
                what = f"the producer id of {transactional_id}"
                raise ApiError(code, f"{what}: {code.name}")
            return Producer(response.producer_id, response.producer_epoch, 0)

        return await self._control.retrying(attempt, also=_INIT_RETRIED)
