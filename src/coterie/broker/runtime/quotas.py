"""The measurement of client quotas: rates, token buckets and throttle times.

The time is an argument of every method, in ms. The classes follow Kafka's: `Rate` with
its `SampledStat`, `TokenBucket`, `QuotaUtils.throttleTime`, `ClientQuotaManager` and
`ControllerMutationQuotaManager` (KIP-13, KIP-124, KIP-219, KIP-599, KIP-612).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.catalog.client_quotas import ClientQuotas, QuotaKey
from coterie.settings import INT32_MAX, Settings

PERCENT_PER_NS: Final = 100 / 1_000_000_000
"""The request quota counts 100 for each second of one thread."""
ACCEPT_DELAY_MAX_MS: Final = 30_000
"""The longest delay of a new connection; more are refused. Clients have given up by
then: the default of `socket.connection.setup.timeout.ms` is 10 to 30 s."""
METERS_MAX: Final = 100_000
"""The largest number of rates and buckets: clients choose their client ids. Further
clients share one for each kind of quota."""
_SWEEP_INTERVAL_MS: Final = 1_000
_NAME_MAX: Final = 64
_SWEEP_MIN: Final = 1_024
_CACHED_MAX: Final = 65_536
_MS_PER_S: Final = 1_000


@dataclass(slots=True)
class _Sample:
    """The sum of the values of one window."""

    start_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """The sum of the recorded values per second, over a sliding window.

    The window has `count` samples of `window_ms` each. One more sample may overlap its
    start. As in Kafka, the window is assumed to be at least `count` - 1 samples long,
    so that the first values do not give a high rate.
    """

    __slots__ = ("_count", "_current", "_samples", "_window_ms")

    def __init__(self, count: int, window_ms: int) -> None:
        assert count >= 1, count
        assert window_ms >= 1, window_ms
        self._count = count
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back what was recorded."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms, now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """Return the rate, and the length in ms of the window it is computed over."""
        expire_ms = self._count * self._window_ms
        total, oldest_ms = 0.0, now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= expire_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.start_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = self._count - 1 - elapsed_ms // self._window_ms
        elapsed_ms = max(elapsed_ms + max(missing, 0) * self._window_ms, 1)
        return total * _MS_PER_S / elapsed_ms, elapsed_ms

    def is_idle(self, now_ms: int) -> bool:
        """Return whether nothing was recorded within the window."""
        expire_ms = self._count * self._window_ms
        return all(now_ms - sample.last_ms >= expire_ms for sample in self._samples)

    def _advance(self, now_ms: int) -> _Sample:
        samples = self._samples
        self._current = (self._current + 1) % (self._count + 1)
        assert self._current <= len(samples)
        if self._current == len(samples):
            samples.append(_Sample(now_ms, now_ms))
        else:
            samples[self._current].reset(now_ms)
        return samples[self._current]


@dataclass(slots=True)
class Throttled:
    """How often clients were throttled because of one kind of quota, and for how
    long."""

    count: int = 0
    total_ms: int = 0

    def add(self, throttle_ms: int) -> None:
        """Count one throttled request."""
        assert throttle_ms > 0, throttle_ms
        self.count += 1
        self.total_ms += throttle_ms


class RateLimit:
    """A rate with its bound. `max_ms` limits the throttle time."""

    __slots__ = ("_max_ms", "_window_ms", "bound", "rate")

    def __init__(self, bound: float, count: int, window_ms: int, max_ms: int) -> None:
        assert bound > 0, bound
        self.bound = bound
        self.rate = Rate(count, window_ms)
        self._window_ms = (count - 1) * window_ms
        self._max_ms = max_ms

    @property
    def largest(self) -> float:
        """The largest value that is not throttled if nothing else is recorded."""
        return self.bound * self._window_ms / _MS_PER_S

    def record(self, value: float, now_ms: int) -> int:
        """Add a value; return the throttle time in ms, 0 while the rate is within its
        bound."""
        self.rate.record(value, now_ms)
        observed, window_ms = self.rate.measure(now_ms)
        if observed <= self.bound:
            return 0
        assert self.bound > 0, self.bound
        wait_ms = (observed - self.bound) / self.bound * window_ms
        return _rounded(min(wait_ms, self._max_ms))

    def is_idle(self, now_ms: int) -> bool:
        """Return whether a new object would be equal to this one."""
        return self.rate.is_idle(now_ms)


class TokenBucket:
    """A number of tokens that grows with time, up to a maximum.

    It is exhausted while the number is negative: one request may take more tokens than
    there are, and the next one has to wait.
    """

    __slots__ = ("_seconds", "_tokens", "_updated_ms", "bound")

    def __init__(self, bound: float, seconds: float) -> None:
        assert bound > 0, bound
        self.bound = bound
        self._seconds = seconds
        self._tokens = bound * seconds
        self._updated_ms: int | None = None

    def take(self, tokens: float, now_ms: int, *, is_strict: bool) -> int:
        """Take tokens; return the throttle time in ms.

        A strict call takes nothing from an exhausted bucket. Another one takes the
        tokens first, so that its own tokens count.
        """
        self._refill(now_ms)
        if is_strict and self._tokens < 0:
            return self._wait_ms()
        self._tokens -= tokens
        return 0 if is_strict else self._wait_ms()

    def is_idle(self, now_ms: int) -> bool:
        """Return whether the bucket is full, as a new one is."""
        self._refill(now_ms)
        assert self._updated_ms == now_ms
        return self._tokens >= self.bound * self._seconds

    def _refill(self, now_ms: int) -> None:
        if self._updated_ms is not None:
            assert now_ms >= self._updated_ms, "the clock stepped back"
            self._tokens += self.bound * (now_ms - self._updated_ms) / _MS_PER_S
        self._tokens = min(self._tokens, self.bound * self._seconds)
        self._updated_ms = now_ms

    def _wait_ms(self) -> int:
        return _rounded(max(-self._tokens / self.bound * _MS_PER_S, 0.0))


_Meter: TypeAlias = RateLimit | TokenBucket


class ClientLimits(NamedTuple):
    """The limits of one user and client id; None for those without a quota."""

    produce: RateLimit | None
    fetch: RateLimit | None
    request: RateLimit | None
    mutation: TokenBucket | None


NO_LIMITS: Final = ClientLimits(None, None, None, None)
"""The limits of all clients without a quota, compared by identity."""


class Quotas:
    """The rates of all clients that have a quota.

    A rate that returned to its initial state is removed at a later sweep, so their
    number is bounded by the clients of a window.
    """

    def __init__(self, settings: Settings, configured: ClientQuotas) -> None:
        self.configured = configured
        self.throttled = {key: Throttled() for key in QuotaKey}
        self._settings = settings
        self._meters: dict[tuple[QuotaKey, str, str], _Meter] = {}
        self._limits: dict[tuple[str, str], ClientLimits] = {}
        self._version = configured.version
        self.sweeps = 0
        """The number of sweeps; each one invalidates all limits returned before."""
        self._sweep_at = _SWEEP_MIN
        self._swept_ms = 0
        self._accept_limit: RateLimit | None = None
        if settings.max_connection_creation_rate < INT32_MAX:
            rate = settings.max_connection_creation_rate
            limit = self._new_meter(QuotaKey.CONNECTION, rate)
            assert isinstance(limit, RateLimit)
            self._accept_limit = limit
        self._accepted_ms = 0

    @property
    def is_full(self) -> bool:
        """Whether there are so many clients that further ones share a rate. They get
        their own one at a later sweep, so their limits must not be kept."""
        return len(self._meters) >= METERS_MAX

    @property
    def has_connection_quotas(self) -> bool:
        """Whether the rate of new connections is limited."""
        return self._accept_limit is not None or self.configured.has_connection_quotas

    def limits(self, user: str, client_id: str, now_ms: int) -> ClientLimits:
        """Return the limits of a client."""
        configured = self.configured
        if self._version != configured.version or len(self._limits) >= _CACHED_MAX:
            self._version = configured.version
            self._limits.clear()
        if self.is_full:
            self._sweep(now_ms)
        key = _short(user), _short(client_id)
        found = self._limits.get(key)
        if found is None:
            self._sweep(now_ms)
            keys = (QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST)
            produce, fetch, request = (
                self._rate_limit(key, user, client_id) for key in keys
            )
            found = ClientLimits(produce, fetch, request, self._bucket(user, client_id))
            if found == NO_LIMITS:
                found = NO_LIMITS
            self._limits[key] = found
        return found

    def record_connection(self, address: str, now_ms: int) -> int:
        """Record a connection from an IP address; return the time in ms until the
        address may connect, 0 when the connection is accepted.

        A refused connection is not counted (KIP-612).
        """
        bound = self.configured.connection_rate(address)
        if bound is None:
            return 0
        self._sweep(now_ms)
        meter = self._meter(QuotaKey.CONNECTION, address, "", bound)
        assert isinstance(meter, RateLimit)
        throttle_ms = meter.record(1, now_ms)
        if throttle_ms:
            meter.rate.record(-1, now_ms)
            self.throttled[QuotaKey.CONNECTION].add(throttle_ms)
        return throttle_ms

    def accept_delay_ms(self, now_ms: int) -> int | None:
        """Record a connection with `max.connection.creation.rate`; return the time in
        ms until it is accepted.

        Connections are accepted one after the other, as by Kafka's acceptor, which
        waits while the rate is exceeded. None refuses one that would wait too long.
        """
        limit = self._accept_limit
        if limit is None:
            return 0
        start_ms = max(now_ms, self._accepted_ms)
        if start_ms - now_ms > ACCEPT_DELAY_MAX_MS:
            return None
        self._accepted_ms = start_ms + limit.record(1, start_ms)
        delay_ms = self._accepted_ms - now_ms
        assert delay_ms >= 0, "connections are accepted in order"
        if delay_ms:
            self.throttled[QuotaKey.CONNECTION].add(delay_ms)
        return delay_ms

    def _rate_limit(self, key: QuotaKey, user: str, client_id: str) -> RateLimit | None:
        limit = self.configured.limit(key, user, client_id)
        if limit is None:
            return None
        meter = self._meter(key, limit.user, limit.client_id, limit.bound)
        assert isinstance(meter, RateLimit), key
        return meter

    def _bucket(self, user: str, client_id: str) -> TokenBucket | None:
        key = QuotaKey.CONTROLLER_MUTATION
        limit = self.configured.limit(key, user, client_id)
        if limit is None:
            return None
        meter = self._meter(key, limit.user, limit.client_id, limit.bound)
        assert isinstance(meter, TokenBucket), key
        return meter

    def _meter(self, key: QuotaKey, user: str, client_id: str, bound: float) -> _Meter:
        """Return the meter that these clients share; a new bound keeps its content."""
        shared_by = key, _short(user), _short(client_id)
        meter = self._meters.get(shared_by)
        if meter is None and len(self._meters) >= METERS_MAX:
            shared_by = key, "", ""
            meter = self._meters.get(shared_by)
        if meter is None:
            meter = self._meters[shared_by] = self._new_meter(key, bound)
        meter.bound = bound
        return meter

    def _new_meter(self, key: QuotaKey, bound: float) -> _Meter:
        settings = self._settings
        if key is QuotaKey.CONTROLLER_MUTATION:
            seconds = settings.controller_quota_window_size_seconds
            return TokenBucket(bound, seconds * settings.controller_quota_window_num)
        window_ms = settings.quota_window_size_seconds * _MS_PER_S
        # Kafka limits the throttle times of these two to one window.
        is_limited = key in {QuotaKey.REQUEST, QuotaKey.CONNECTION}
        max_ms = window_ms if is_limited else INT32_MAX
        return RateLimit(bound, settings.quota_window_num, window_ms, max_ms)

    def _sweep(self, now_ms: int) -> None:
        """Remove idle meters whenever their number has doubled since the last sweep, or
        is the largest."""
        if self.is_full:
            if now_ms - self._swept_ms < _SWEEP_INTERVAL_MS:
                return
        elif len(self._meters) < self._sweep_at:
            return
        self._swept_ms = now_ms
        self._meters = {
            key: meter
            for key, meter in self._meters.items()
            if not meter.is_idle(now_ms)
        }
        self._limits.clear()
        self.sweeps += 1
        self._sweep_at = max(2 * len(self._meters), _SWEEP_MIN)
        assert not self._limits, "limits with removed meters"


def _short(name: str) -> str:
    """Return a name for the keys of this process: long ones, of at most 32 KB, as a
    digest."""
    if len(name) <= _NAME_MAX:
        return name
    return hashlib.blake2b(name.encode(), digest_size=_NAME_MAX // 2).hexdigest()


def _rounded(ms: float) -> int:
    """Round as Java's Math.round; a positive time is never more than an int."""
    return math.floor(min(ms, INT32_MAX) + 0.5)
