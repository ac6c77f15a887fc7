"""A simulated upstream cluster, and each node's client of it.

Requests of one node to one partition arrive in order, as on one connection. Requests
and responses take time and are lost with their connection; a request may then still
take effect later, or not at all. A partition can be without a leader, refuse batches
for a time, and elect a leader that lacks what was not yet replicated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from coterie.broker.runtime.shards import partition_for
from coterie.errors import (
    ApiError,
    ConnectionLost,
    CoterieError,
    RequestTimedOut,
)
from coterie.gateway.upstream.upstream import FetchDone, Fetched, Initialized
from coterie.types import GroupId, LogOffset, ProducerId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import BatchHeader, Producer, read_header
from sim.clock import Clock, Event
from sim.gateway.cleaner import CleanerRun
from sim.gateway.coordinator import TransactionCoordinator
from sim.gateway.partition import UpstreamPartition

EPOCH_MAX: Final = 32_766
"""The last epoch of a producer id: Kafka's `Short.MAX_VALUE - 1`."""
_AGAIN_MS: Final = 200
"""The longest time until a marker is written again."""
_TWICE: Final = 0.1
_FETCH_BYTES: Final = (400, 2_000, 20_000)
_INCOMPLETE_SHARE: Final = 0.1
REFUSALS: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
_AFTER_APPEND: Final = (
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)
_INIT_REFUSALS: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)

Outcome = LogOffset | CoterieError


@dataclass
class UpstreamFaults:
    """The faults of the cluster and of the network to it."""

    usual_ms: int = 5
    """The longest delay of a message."""
    replication_ms: int = 5
    """The longest time until a batch is durable."""
    refusals: float = 0.0
    """The share of requests that are refused with a retriable error."""
    breaks: float = 0.0
    """The share of requests with which the connection ends."""
    late_ms: int = 5_000
    """The longest time by which a request outlives its connection."""
    request_timeout_ms: int = 4_000
    compactions: float = 0.0
    """The share of batches after which the log cleaner runs."""
    empty_fetches: float = 0.0
    """The share of fetches without a batch, as when other partitions of the request
    have used its bytes (KIP-74)."""


@dataclass
class Cluster:
    """The upstream cluster."""

    clock: Clock
    rng: Random
    partition_count: int
    cluster_id: str = "upstream"
    last_epoch: int = EPOCH_MAX
    """The last epoch of a producer id. After it comes another id, whose batches do not
    fence those of the id before."""
    faults: UpstreamFaults = field(default_factory=UpstreamFaults)
    bumps_epoch: bool = False
    """Whether applications have transactions of version 2 (KIP-890)."""
    more: Random = field(default_factory=lambda: Random(1))  # noqa: S311
    """The source of the faults that worlds did not always have."""
    delete_retention_ms: int = 1_000
    read_since: Callable[[int], int | None] = lambda _: None
    """A function that returns since when readers of a partition read it: they rely on
    `delete.retention.ms` to be longer. None without readers."""

    def __post_init__(self) -> None:
        self.transactions = TransactionCoordinator(
            self._write_marker, bumps_epoch=self.bumps_epoch
        )
        self._orders: dict[tuple[ProducerId, int], int] = {}
        self.partitions = [
            UpstreamPartition(self._order_of_batch) for _ in range(self.partition_count)
        ]
        self.clients: list[UpstreamClient] = []
        self._producers: dict[str, Producer] = {}
        self._next_producer_id = 1_000
        self._leaderless: set[int] = set()

    def happens(self, share: float) -> bool:
        """Return whether a fault happens, by its probability."""
        return share > 0 and self.rng.random() < share

    def message_ms(self) -> int:
        """Return the time that a message takes."""
        return self.rng.randint(1, self.faults.usual_ms)

    # Producer ids.

    def bump(self, transactional_id: str) -> Producer:
        """Return a producer with a new epoch, which will fence all earlier ones."""
        known = self._producers.get(transactional_id)
        if known is None or known.producer_epoch >= self.last_epoch:
            self._next_producer_id += 1
            producer = Producer(self._next_producer_id, 0)
        else:
            producer = known._replace(producer_epoch=known.producer_epoch + 1)
        self._producers[transactional_id] = producer
        self._orders[producer.producer_id, producer.producer_epoch] = len(self._orders)
        return producer

    def order_of(self, producer_id: ProducerId, producer_epoch: int) -> int | None:
        """Return a number that increases with each call of `bump`; None for other
        producers.
        """
        return self._orders.get((producer_id, producer_epoch))

    def _order_of_batch(self, header: BatchHeader) -> int | None:
        return self.order_of(header.producer_id, header.producer_epoch)

    def usurp(self, transactional_id: str) -> Producer:
        """Return a producer with a new epoch, for another than the nodes."""
        known = self._producers[transactional_id]
        producer = known._replace(producer_epoch=known.producer_epoch + 1)
        self._producers[transactional_id] = producer
        return producer

    # Partitions.

    def shard_of(self, group_id: GroupId) -> int:
        """Return the partition of a group."""
        return partition_for(group_id, self.partition_count)

    def newest_durable(self, partition: int) -> int:
        """Return the order of the newest owner with a durable batch; -1 for none."""
        return self.partitions[partition].newest_durable

    def append(
        self, partition: int, batch: bytes, done: Callable[[Outcome], None]
    ) -> None:
        """Append a batch; call `done` when it is replicated, or with a refusal."""
        log = self.partitions[partition]
        refusal = self._refusal(partition)
        if refusal is not None and refusal not in _AFTER_APPEND:
            done(ApiError(refusal))
            return
        header = read_header(batch)
        who = header.producer_id, header.producer_epoch
        if header.is_transactional and not (
            log.has_transaction(*who) or self.transactions.verify(*who, partition)
        ):
            done(ApiError(ErrorCode.INVALID_TXN_STATE))
            return
        try:
            base_offset = log.append(batch, self.clock.now_ms)
        except ApiError as error:
            done(error)
            return
        last_offset = base_offset + header.last_offset_delta
        self.replicate_later(partition)
        self._compact_after_batch(partition)
        if refusal is not None:
            done(ApiError(refusal))
            return
        self._when_durable(log, last_offset, lambda: done(base_offset))

    def _refusal(self, partition: int) -> ErrorCode | None:
        if partition in self._leaderless:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.happens(self.faults.refusals):
            return self.rng.choice(REFUSALS)
        return None

    def _when_durable(
        self, log: UpstreamPartition, offset: LogOffset, done: Callable[[], None]
    ) -> None:
        def check() -> None:
            if log.high_watermark > offset:
                done()
            elif log.end > offset:
                log.when_grown(check)
            # Otherwise a failover has lost the batch: its connection is lost too.

        check()

    def replicate_later(self, partition: int) -> None:
        """Replicate what the log has now, after a delay."""
        log = self.partitions[partition]
        end = log.end
        delay_ms = self.rng.randint(0, self.faults.replication_ms)
        self.clock.after(delay_ms, lambda: log.replicate(end))

    # Compaction.

    def _write_marker(
        self, shard: int, marker: Producer, commit: bool, done: Callable[[], None]
    ) -> None:
        log = self.partitions[shard]

        def again() -> None:
            self._write_marker(shard, marker, commit, done)

        delay_ms = self.rng.randint(0, _AGAIN_MS)
        if not self.has_leader(shard) or self.happens(self.faults.refusals):
            self.clock.after(1 + delay_ms, again)
            return
        for _ in range(2 if self.rng.random() < _TWICE else 1):
            offset = log.end
            log.append_marker(marker, self.clock.now_ms, commit=commit)
        self.replicate_later(shard)

        def check() -> None:
            if not log.has_marker(offset, marker):
                again()  # a failover has lost it
            elif log.high_watermark <= offset:
                self.clock.after(_AGAIN_MS, check)
            else:
                done()

        self.clock.after(1 + delay_ms, check)

    @property
    def fences(self) -> bool:
        """Whether a newer owner's batches fence those of earlier ones."""
        return self.last_epoch == EPOCH_MAX

    def _compact_after_batch(self, partition: int) -> None:
        share = self.faults.compactions
        if share and self.more.random() < share:
            self.compact(partition)

    def compact(self, partition: int) -> None:
        """Run the log cleaner on a partition, often not to its end."""
        if not self.fences:
            return  # it would keep what a producer that is not fenced writes too late
        log, rng, now_ms = (
            self.partitions[partition],
            self.more,
            self.clock.now_ms,
        )
        ends = [header.base_offset for header, _ in log.durable()]
        if not ends:
            return
        end = log.stable_end
        passed_ms, since_ms = now_ms, self.read_since(partition)
        if since_ms is not None:
            passed_ms = min(now_ms, since_ms + self.delete_retention_ms)
        log.compact(
            CleanerRun(
                rng.choice((end, rng.choice(ends))),
                rng.choice((end, end, rng.choice(ends))),
                rng.choice((end, end, rng.choice(ends))),
                horizon_ms=now_ms + self.delete_retention_ms,
                passed_ms=passed_ms,
            )
        )

    def has_leader(self, partition: int) -> bool:
        """Return whether the partition serves requests."""
        return partition not in self._leaderless

    def fail_over(self, partition: int, down_ms: int) -> None:
        """Stop a partition's leader, and elect another after `down_ms`."""
        if partition in self._leaderless:
            return
        self._leaderless.add(partition)
        log = self.partitions[partition]
        log.fail_over(self.rng)
        for client in self.clients:
            client.lose_connection(partition)

        def elect() -> None:
            self._leaderless.discard(partition)
            self.replicate_later(partition)
            delay_ms = self.rng.randint(0, 500)
            self.clock.after(delay_ms, lambda: log.replicate(log.end))
            self.clock.after(delay_ms, log.catch_up)

        self.clock.after(down_ms, elect)


class _Request:
    """A produce request in flight."""

    __slots__ = ("arrives", "batch", "done", "partition", "timeout")

    def __init__(
        self, partition: int, batch: bytes, done: Callable[[Outcome], None]
    ) -> None:
        self.partition = partition
        self.batch = batch
        self.done = done
        self.arrives: Event | None = None
        self.timeout: Event | None = None


class _Connection:
    """A connection to a partition's leader, on which nothing overtakes."""

    def __init__(self) -> None:
        self.requests: dict[_Request, None] = {}
        self.unanswered: dict[_Request, Outcome | None] = {}
        """The requests in the order of arrival, with their outcomes."""
        self.arrives_ms = 0
        self.responds_ms = 0
        self.is_lost = False


class UpstreamClient:
    """A node's client of the cluster: the interface `Upstream` of the gateway.

    `run` calls a function in the node's process: later if that is stopped, and never if
    it was killed.
    """

    def __init__(
        self, cluster: Cluster, run: Callable[[Callable[[], object]], None]
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._run = run
        self._connections: dict[int, _Connection] = {}
        self.is_cut_off = False
        """Whether the network to the cluster is down."""
        cluster.clients.append(self)

    # The interface of `Upstream`.

    def init_producer_id(self, transactional_id: str, done: Initialized) -> None:
        """Get a new epoch."""
        cluster = self._cluster

        def execute() -> Producer | CoterieError:
            if cluster.happens(cluster.faults.refusals):
                return ApiError(cluster.rng.choice(_INIT_REFUSALS))
            return cluster.bump(transactional_id)

        self.call(execute, done)

    def produce(
        self,
        partition: int,
        batch: bytes,
        done: Callable[[Outcome], None],
        *,
        transactional_id: str | None = None,
    ) -> None:
        """Append one batch, with acks=all."""
        connection = self._connections.get(partition)
        if connection is None:
            connection = self._connections[partition] = _Connection()
        self._cluster.partitions[partition].sent(batch)
        request = _Request(partition, batch, done)
        connection.requests[request] = None
        self._arrive_later(partition, connection, request, self._cluster.message_ms())
        request.timeout = self._clock.after(
            self._cluster.faults.request_timeout_ms,
            lambda: self._run(partial(self._time_out, partition, connection, request)),
        )

    def fetch(
        self,
        partition: int,
        offset: LogOffset,
        done: FetchDone,
        *,
        wait_ms: int = 0,
    ) -> None:
        """Read batches from `offset` on."""
        cluster = self._cluster
        log = cluster.partitions[partition]

        def execute() -> Fetched | CoterieError:
            if not cluster.has_leader(partition):
                return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if offset > log.end:
                return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            batches = log.read(offset, cluster.rng.choice(_FETCH_BYTES))
            share = cluster.faults.empty_fetches
            if share and cluster.more.random() < share:
                return Fetched(b"", log.fetch_limit)
            if cluster.rng.random() < _INCOMPLETE_SHARE:
                batches += batches[: cluster.rng.randint(1, 60)]  # cut off: no batch
            return Fetched(batches, log.fetch_limit)

        def is_due() -> bool:
            return offset < log.fetch_limit or not cluster.has_leader(partition)

        self.call(execute, done, is_due=is_due, log=log, wait_ms=wait_ms)

    # Requests that do not depend on an order.

    def call(
        self,
        execute: Callable[[], Any],
        done: Callable[[Any], None],
        *,
        is_due: Callable[[], bool] = lambda: True,
        log: UpstreamPartition | None = None,
        wait_ms: int = 0,
    ) -> None:
        """Execute a request when it arrives and is due; `done` is called once."""
        cluster, clock = self._cluster, self._clock
        is_open = True

        def finish(result: Any) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                timeout.cancel()
                done(result)

        def respond(result: Any) -> None:
            if not self.is_cut_off:
                self._after(cluster.message_ms(), partial(finish, result))

        def arrive() -> None:
            if self.is_cut_off:
                return
            if wait_ms and log is not None and not is_due():
                answer_once = _once(lambda: respond(execute()))
                log.when_grown(answer_once)
                clock.after(wait_ms, answer_once)
            else:
                respond(execute())

        timeout = clock.after(
            cluster.faults.request_timeout_ms + wait_ms,
            lambda: self._run(partial(finish, RequestTimedOut("no response in time"))),
        )
        if cluster.happens(cluster.faults.breaks):
            self._after(
                cluster.message_ms(), partial(finish, ConnectionLost("it ended"))
            )
            if cluster.rng.random() < 0.5:
                clock.after(cluster.rng.randint(1, cluster.faults.late_ms), arrive)
            return
        clock.after(cluster.message_ms(), arrive)

    def _after(self, delay_ms: int, callback: Callable[[], object]) -> None:
        self._clock.after(delay_ms, lambda: self._run(callback))

    # Produce requests.

    def _arrive_later(
        self,
        partition: int,
        connection: _Connection,
        request: _Request,
        delay_ms: int,
    ) -> None:
        now_ms = self._clock.now_ms
        connection.arrives_ms = max(connection.arrives_ms, now_ms + delay_ms)
        request.arrives = self._clock.after(
            connection.arrives_ms - now_ms,
            lambda: self._arrive(partition, connection, request),
        )

    def _arrive(
        self, partition: int, connection: _Connection, request: _Request
    ) -> None:
        request.arrives = None
        if not connection.is_lost:
            if self.is_cut_off:
                self._drop(connection, request)
                return
            if self._cluster.happens(self._cluster.faults.breaks):
                request.arrives = self._clock.after(0, lambda: None)
                self.lose_connection(partition)
                return
        connection.unanswered[request] = None
        self._cluster.append(
            partition,
            request.batch,
            lambda outcome: self._decided(connection, request, outcome),
        )

    def _drop(self, connection: _Connection, request: _Request) -> None:
        """Lose a request and all that follow it on the connection, as TCP does."""
        request.arrives = self._clock.after(0, lambda: None)  # it never arrives
        for other in connection.requests:
            if other.arrives is not None:
                other.arrives.cancel()

    def _decided(
        self, connection: _Connection, request: _Request, outcome: Outcome
    ) -> None:
        connection.unanswered[request] = outcome
        while connection.unanswered:
            first = next(iter(connection.unanswered))
            result = connection.unanswered[first]
            if result is None:
                return
            del connection.unanswered[first]
            self._respond(connection, first, result)

    def _respond(
        self, connection: _Connection, request: _Request, outcome: Outcome
    ) -> None:
        if self.is_cut_off or connection.is_lost:
            return
        now_ms = self._clock.now_ms
        at_ms = max(connection.responds_ms, now_ms + self._cluster.message_ms())
        connection.responds_ms = at_ms
        self._after(at_ms - now_ms, lambda: self._finish(connection, request, outcome))

    def _finish(
        self, connection: _Connection, request: _Request, outcome: Outcome
    ) -> None:
        if request in connection.requests:
            del connection.requests[request]
            assert request.timeout is not None
            request.timeout.cancel()
            if isinstance(outcome, CoterieError):
                self._cluster.partitions[request.partition].failed(request.batch)
            request.done(outcome)

    def _time_out(
        self, partition: int, connection: _Connection, request: _Request
    ) -> None:
        if request in connection.requests:
            self._finish(connection, request, RequestTimedOut("no response in time"))
            self._lose(partition, connection)

    def lose_connection(self, partition: int) -> None:
        """End the connection to a partition's leader."""
        connection = self._connections.get(partition)
        if connection is not None:
            self._lose(partition, connection)

    def _lose(self, partition: int, connection: _Connection) -> None:
        """End a connection. Some of the requests under way still arrive, in order."""
        if connection.is_lost:
            return
        connection.is_lost = True
        if self._connections.get(partition) is connection:
            del self._connections[partition]
        rng = self._cluster.rng
        underway = [each for each in connection.requests if each.arrives is not None]
        arriving = 0 if self.is_cut_off else rng.randint(0, len(underway))
        delay_ms = rng.randint(0, self._cluster.faults.late_ms)
        for number, request in enumerate(underway):
            assert request.arrives is not None
            request.arrives.cancel()
            if number < arriving:
                self._arrive_later(partition, connection, request, delay_ms)
        self._after(rng.randint(0, 5), partial(self._fail_all, connection))

    def _fail_all(self, connection: _Connection) -> None:
        for request in tuple(connection.requests):
            self._finish(connection, request, ConnectionLost("the connection ended"))


def _once(callback: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `callback` the first time only."""
    is_called = False

    def call() -> None:
        nonlocal is_called
        if not is_called:
            is_called = True
            callback()

    return call
