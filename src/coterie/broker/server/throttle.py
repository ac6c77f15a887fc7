"""Enforcement of client quotas on the requests of a connection.

The response to a request over a quota is sent at once, with the time to wait in
`throttle_time_ms`, and the connection is muted for that time: no further request is
handled (KIP-219; Kafka's `RequestHandlerHelper` and `KafkaApis`). Of several violated
quotas the longest throttle time counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from coterie.broker.catalog.client_quotas import QuotaKey
from coterie.broker.protocol.connection import Request
from coterie.broker.runtime.quotas import (
    NO_LIMITS,
    PERCENT_PER_NS,
    ClientLimits,
    Quotas,
    TokenBucket,
)
from coterie.broker.server.call import Call, Handler, Peer
from coterie.errors import ApiError
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode

_AUTHENTICATION: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class Throttle:
    """The measurement of one connection's requests, against the quotas of its client.

    The time of a request is the time of its handler, decoding and the wait for the disk
    excluded. What passes after the response is encoded counts for the next request, as
    Kafka's network time does.
    """

    __slots__ = (
        "_cached",
        "_client_id",
        "_clock",
        "_configured",
        "_peer",
        "_principal",
        "_quotas",
        "_since_ns",
        "_sweeps",
        "_timer",
        "_version",
    )

    def __init__(
        self,
        peer: Peer,
        quotas: Quotas,
        clock: Callable[[], int],
        timer: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._peer = peer
        self._quotas = quotas
        self._clock = clock
        self._timer = timer
        self._since_ns: int | None = None
        # The limits of the last request's client, while nothing changes them.
        self._configured = quotas.configured
        self._cached = NO_LIMITS
        self._client_id = ""
        self._principal = peer.principal
        self._version = self._sweeps = -1

    def handle(self, handler: Handler, call: Call, request: Request) -> None:
        """Call a request's handler and record the time."""
        self.measure(request, partial(handler, call))

    def measure(self, request: Request, work: Callable[[], None]) -> None:
        """Do work for a request and record the time."""
        limit = self._limits(request.client_id).request
        if limit is None or self._is_authenticating(request):
            work()
            return
        self._since_ns = self._timer()
        work()
        elapsed_ns = self._elapsed_ns()
        self._since_ns = None
        limit.rate.record(elapsed_ns * PERCENT_PER_NS, self._clock())
        # The heartbeat memo would respond without this measurement.
        request.raw = None

    def respond(self, request: Request, response: Any) -> int:
        """Record a request, and set the throttle time in its response; return it.

        A response of None is that of a Produce request with acks=0, whose time is
        exempt. A Fetch or topic response has the throttle time of its own quota.
        """
        limits = self._limits(request.client_id)
        if limits is NO_LIMITS or self._is_authenticating(request):
            return 0
        own_key, own_ms = QuotaKey.CONTROLLER_MUTATION, 0
        if request.api_key == ApiKey.PRODUCE:
            own_key = QuotaKey.PRODUCE
            if limits.produce is not None:
                own_ms = limits.produce.record(request.size, self._clock())
        elif request.api_key == ApiKey.FETCH:
            own_key = QuotaKey.FETCH
        if response is None:
            return self._count(own_key, own_ms)
        own_ms = max(own_ms, getattr(response, "throttle_time_ms", 0))
        request_ms = self._record_time(limits)
        if max(own_ms, request_ms) > 0 and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = max(own_ms, request_ms)
        if own_ms > request_ms:
            return self._count(own_key, own_ms)
        return self._count(QuotaKey.REQUEST, request_ms)

    def fetch_ms(self, client_id: str, size: int) -> int:
        """Record a Fetch response of `size` bytes; return the throttle time in ms.

        The bytes of a throttled response do not count, because it is sent without its
        records.
        """
        limits = self._limits(client_id)
        throttle_ms = self._record_time(limits)
        if limits.fetch is None:
            return throttle_ms
        now_ms = self._clock()
        throttle_ms = max(limits.fetch.record(size, now_ms), throttle_ms)
        if throttle_ms:
            limits.fetch.rate.record(-size, now_ms)
        return throttle_ms

    def _is_authenticating(self, request: Request) -> bool:
        """Return whether the request has no user yet. It is exempt, as in Kafka, whose
        `SaslServerAuthenticator` handles it."""
        sasl = self._peer.sasl
        return sasl is not None and (
            not sasl.is_complete or request.api_key in _AUTHENTICATION
        )

    def _limits(self, client_id: str) -> ClientLimits:
        quotas = self._quotas
        version = self._configured.version
        if (
            self._version != version
            or self._sweeps != quotas.sweeps
            or quotas.is_full
            or self._client_id != client_id
            or self._principal is not self._peer.principal
        ):
            principal = self._principal = self._peer.principal
            self._cached = quotas.limits(principal.name, client_id, self._clock())
            self._client_id = client_id
            self._version, self._sweeps = version, quotas.sweeps
        return self._cached

    def _record_time(self, limits: ClientLimits) -> int:
        if limits.request is None:
            return 0
        percent = self._elapsed_ns() * PERCENT_PER_NS
        return limits.request.record(percent, self._clock())

    def _elapsed_ns(self) -> int:
        """Return the time since the last call, within the handler of a request."""
        if self._since_ns is None:
            return 0
        now_ns = self._timer()
        elapsed_ns = now_ns - self._since_ns
        self._since_ns = now_ns
        return elapsed_ns

    def _count(self, key: QuotaKey, throttle_ms: int) -> int:
        if throttle_ms:
            self._quotas.throttled[key].add(throttle_ms)
        return throttle_ms


class Mute:
    """The time for which a connection is muted: no request is read or handled.

    `started` and `ended` are called when the time starts and ends.
    """

    __slots__ = ("_ended", "_loop", "_started", "timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        started: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._started = started
        self._ended = ended
        self.timer: asyncio.TimerHandle | None = None
        """The timer of the end; None while the connection is not muted."""

    def extend(self, throttle_ms: int) -> None:
        """Mute the connection for this time at least; 0 changes nothing."""
        if not throttle_ms:
            return
        end_s = self._loop.time() + throttle_ms / 1000
        if self.timer is not None:
            if self.timer.when() >= end_s:
                return
            self.timer.cancel()
        self.timer = self._loop.call_at(end_s, self._end)
        self._started()

    def accept(
        self, quotas: Quotas, address: str, now_ms: int, abort: Callable[[], None]
    ) -> bool:
        """Record a new connection with its quotas; return whether it is accepted.

        A connection above the rate of its address is closed after the throttle time,
        so that the client does not connect again at once (KIP-612). One above the
        server's rate is muted until it is accepted.
        """
        refused_ms = quotas.record_connection(address, now_ms)
        delay_ms = None if refused_ms else quotas.accept_delay_ms(now_ms)
        if delay_ms is not None:
            self.extend(delay_ms)
            return True
        self.timer = self._loop.call_later(refused_ms / 1000, abort)
        self._started()
        return False

    def cancel(self) -> None:
        """Cancel the timer of a lost connection."""
        if self.timer is not None:
            self.timer.cancel()

    def _end(self) -> None:
        self.timer = None
        self._ended()


class MutationQuota:
    """The controller mutation quota for one request that changes topics (KIP-599).

    Requests of version `strict_since` on are refused while the quota is exhausted;
    older ones are only throttled. `throttle_ms` belongs in the response.
    """

    def __init__(self, call: Call, strict_since: int) -> None:
        broker = call.node.broker
        self.throttle_ms = 0
        self._is_strict = call.api_version >= strict_since
        self._clock = broker.clock
        self._bucket: TokenBucket | None = None
        if broker.catalog.client_quotas.has_client_quotas:
            name = call.principal.name
            limits = broker.quotas.limits(name, call.client_id, broker.clock())
            self._bucket = limits.mutation

    def take(self, partitions: int) -> None:
        """Record created or deleted partitions.

        Raises ApiError THROTTLING_QUOTA_EXCEEDED.
        """
        if self._bucket is None:
            return
        self.throttle_ms = self._bucket.take(
            partitions, self._clock(), is_strict=self._is_strict
        )
        if self.throttle_ms and self._is_strict:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
