"""Responses that wait until the writes they depend on are durable.

A response is registered under the sequence number of the write it waits for. Each
staged batch registers a callback with the flusher at once, so that exactly that write
completes the responses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from coterie.broker.coordinator.result import Context
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.durability import Durability
from coterie.broker.runtime.system import Scheduler
from coterie.errors import LogError
from coterie.types import TopicName
from coterie.wire.commit import Response

Respond = Callable[[Any], None]
"""A function that sends the response to a request; called once."""


class Caller(Protocol):
    """The interface of a request's client that the coordinator uses."""

    @property
    def api_version(self) -> int:
        """The version of the request."""

    @property
    def client_id(self) -> str:
        """The client id in the request's header."""

    @property
    def client_host(self) -> str:
        """The client's address, as in "/127.0.0.1"."""

    def may_describe(self, topic: TopicName) -> bool:
        """Return whether DESCRIBE on a topic is authorized."""


Lease = Callable[[], bool]
"""A function that returns whether this process may serve its shards now. Once it has
returned False, they have to be released."""


class PendingRequest(NamedTuple):
    """A request without a response yet, with the inputs of an error response."""

    request: Any
    context: Context
    respond: Respond


_CHECKS_PER_TIMEOUT: Final = 5


class _Write:
    """The responses that wait for one write, and the partitions it extends."""

    __slots__ = ("checks", "growth", "responses")

    def __init__(self) -> None:
        self.checks = 0
        """The number of times that a check found the write in progress."""
        self.responses: list[tuple[PendingRequest, Response]] = []
        self.growth: dict[LogPartition, int] = {}


class DeferredResponses:
    """The pending responses by the sequence number of the write they wait for.

    When the write is durable, the listeners are called first with the new bytes of each
    partition. When it fails, or takes longer than `timeout_ms`, or `lease` returns
    False by then, `fail` is called for each pending request instead of its response.
    """

    def __init__(
        self,
        flusher: Durability,
        scheduler: Scheduler,
        *,
        timeout_ms: int,
        fail: Callable[[PendingRequest, LogError | TimeoutError], None],
        growth_listeners: Sequence[Callable[[LogPartition, int], None]],
        lease: Lease | None = None,
    ) -> None:
        self._flusher = flusher
        self._scheduler = scheduler
        self._timeout_ms = timeout_ms
        self._fail = fail
        self._growth_listeners = growth_listeners
        self._lease = lease
        self._is_check_scheduled = False
        self._writes: dict[int, _Write] = {}

    def staged(self, log_partition: LogPartition, size_bytes: int) -> int:
        """Register a staged batch; return the sequence number of its write."""
        assert size_bytes > 0
        sequence = self._flusher.next_sequence
        assert sequence > self._flusher.durable_sequence
        write = self._writes.get(sequence)
        if write is None:
            write = self._writes[sequence] = _Write()
            self._schedule_check()
            self._flusher.when_durable(lambda error: self._complete(sequence, error))
        write.growth[log_partition] = write.growth.get(log_partition, 0) + size_bytes
        return sequence

    def defer(self, sequence: int, pending: PendingRequest, response: Response) -> None:
        """Send the response once that write is durable."""
        assert sequence > self._flusher.durable_sequence
        self._writes[sequence].responses.append((pending, response))

    def fail_all(self, error: LogError) -> None:
        """Fail all pending requests; what becomes of their writes has no effect."""
        writes, self._writes = self._writes, {}
        for write in writes.values():
            for pending, _ in write.responses:
                self._fail(pending, error)

    def _schedule_check(self) -> None:
        if not self._is_check_scheduled and self._writes:
            self._is_check_scheduled = True
            delay_ms = self._timeout_ms / _CHECKS_PER_TIMEOUT
            self._scheduler.call_later(delay_ms / 1000, self._check_timeouts)

    def _check_timeouts(self) -> None:
        """Fail the requests that wait for a slow write.

        The write may still succeed; the client receives an error and retries.
        """
        self._is_check_scheduled = False
        for write in self._writes.values():
            write.checks += 1
            if write.checks > _CHECKS_PER_TIMEOUT:
                responses, write.responses = write.responses, []
                for pending, _ in responses:
                    self._fail(pending, TimeoutError("the disk takes too long"))
        self._schedule_check()

    def _complete(self, sequence: int, error: LogError | None) -> None:
        write = self._writes.pop(sequence, None)
        if write is None:
            return  # `fail_all` was called
        if self._lease is not None and error is None and not self._lease():
            error = LogError("the lease of this node has ended")
        if error is None:
            for log_partition, size_bytes in write.growth.items():
                for listener in self._growth_listeners:
                    listener(log_partition, size_bytes)
        for pending, response in write.responses:
            if error is None:
                pending.respond(response)
            else:
                self._fail(pending, error)
