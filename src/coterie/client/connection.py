"""A client connection to one broker, with any number of requests in flight.

    connection = await BrokerConnection.open(Address("localhost", 9092), options)
    response = await connection.call(ListGroupsRequest(), ListGroupsResponse)

A request is sent in the highest version that broker and client share. With credentials
in the options the client authenticates before any other request, and again before the
session expires (KIP-368) while other requests wait: SaslHandshake, then
SaslAuthenticate until both sides agree (KIP-43, KIP-152).

Rules of this file: every wait has a limit. The first failure closes the connection and
fails its pending requests; later requests fail, too. Cancelling a caller does not
affect others.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar, cast

from coterie.client import connection_failures
from coterie.client.options import ClientOptions
from coterie.client.security_probe import (
    requires_tls,
    security_mismatch,
    without_sasl,
)
from coterie.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.types import PORT_MAX
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import (
    FrameReader,
    RequestHeaderV0,
    frame_of,
    read_response,
    write_request,
)
from coterie.wire.schema import VERSION_MAX, Message, Versions

M = TypeVar("M", bound=Message)

ANY_VERSION: Final = Versions(0, VERSION_MAX)
_SOFTWARE: Final = ("coterie", "0.1.0")
_NEGOTIATED: Final = Versions(0, 4)
_SASL_KEYS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Requests that may be sent before authentication."""
_BARE_TOKENS: Final = Versions(0, 0)
"""SaslHandshake before KIP-152: tokens follow as frames without a header."""
_TOKENS_BY_REQUEST: Final = Versions(1, 1)
_REAUTHENTICATED_AFTER: Final = 0.85
"""The share of a session after which the client authenticates again: the earliest that
Kafka's clients choose, and later than tokens are refreshed."""
_TLS_ALERT: Final = b"\x15\x03"
"""The start of a TLS alert. No response starts so: its frame would be 350 MB."""
ELEMENTS_MAX: Final = 5_000_000
"""The largest number of elements in all arrays of a response: those of a Metadata
response with 700,000 partitions of three replicas."""
_REFUSED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class Address(NamedTuple):
    """The address of a broker."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse HOST:PORT; an IPv6 host may be in brackets. A listener's protocol in
        front, as in SASL_SSL://HOST:PORT, is ignored, as Kafka's Java clients do.

        Raises ClientError for any other text.
        """
        host, _, port = text.strip().rpartition("://")[2].rpartition(":")
        is_port = port.isascii() and port.isdigit() and int(port) <= PORT_MAX
        if not host or not is_port:
            raise ClientError(f"{text!r} is not an address; write HOST:PORT")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Undecoded(NamedTuple):
    """A response that is not decoded: its body begins at `at` in `frame`."""

    frame: bytes
    at: int
    version: int


Read: TypeAlias = Callable[[bytes, int, int], Any]
"""A function that decodes a response: its frame, the position of the body in it, and
the version. It raises MalformedFrame."""


@dataclass(slots=True, eq=False)
class _InFlight:
    """A request that was sent and has no response yet. `done` is called once, with the
    decoded response or a CoterieError."""

    request: type[Message]
    version: int
    tagged: bool
    read: Read
    done: Callable[[Any], None]
    ends_s: float
    """When it times out; never for one whose caller sees to that."""


class BrokerConnection(asyncio.Protocol):
    """A connection to one broker; `open` creates it."""

    def __init__(self, address: Address, options: ClientOptions) -> None:
        self.address = address
        self.failure: CoterieError | None = None
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader(options.frame_bytes_max)
        self._in_flight: dict[int, _InFlight] = {}
        self._ids = itertools.count()
        self._versions: dict[int, Versions] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self._throttled_until_s = 0.0
        self._bare: asyncio.Future[bytes] | None = None
        self._has_served = False
        self._reauthenticate_at_s = math.inf
        self._reauthentication: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        """The timer for the oldest request of `post`."""
        self._probe: asyncio.Task[None] | None = None
        """The search for the reason why the broker closed the connection."""

    @classmethod
    async def open(cls, address: Address, options: ClientOptions) -> Self:
        """Connect, request the broker's API versions, and authenticate.

        Raises ConnectionLost when the address is unreachable or times out, and
        AuthenticationFailed when one side rejects the other.
        """
        loop = asyncio.get_running_loop()
        connection = cls(address, options)
        try:
            async with asyncio.timeout(options.connect_timeout_ms / 1000):
                await loop.create_connection(
                    lambda: connection, address.host, address.port, ssl=options.ssl
                )
                await connection._negotiate()
                await connection._authenticate()
        except (OSError, RequestTimedOut) as error:  # SSLError, TimeoutError: OSErrors
            connection.close()
            raise await connection_failures.open_failure(
                address, options, error
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self.failure is None

    @property
    def tls_version(self) -> str | None:
        """The TLS version, such as "TLSv1.3"; None without TLS."""
        tls = self._transport and self._transport.get_extra_info("ssl_object")
        return tls.version() if tls else None

    def serves(self, key: ApiKey) -> bool:
        """Return whether the broker serves an API in any version."""
        return key in self._versions

    def version_of(self, request: type[Message], wanted: Versions = ANY_VERSION) -> int:
        """Return the version in which a request is sent: the highest of `wanted` that
        broker and client share.

        Raises UnsupportedByBroker without a shared version.
        """
        name = request.__name__.removesuffix("Request")
        served = self._versions.get(request.API_KEY)
        if served is None:
            raise UnsupportedByBroker(
                f"{self.address} does not serve {name}"
                + _since(request.API_KEY, max(request.VERSIONS.low, wanted.low))
            )
        ours = request.VERSIONS
        high = min(served.high, ours.high, wanted.high)
        if high < max(served.low, ours.low, wanted.low):
            low = max(ours.low, wanted.low)
            raise UnsupportedByBroker(
                f"{self.address} serves {name} {served.low} to {served.high}; "
                f"{low} to {min(ours.high, wanted.high)} is needed"
                + (_since(request.API_KEY, low) if served.high < low else "")
            )
        return high

    async def call(
        self, request: Message, response: type[M], *, wanted: Versions = ANY_VERSION
    ) -> M:
        """Send a request and return its response, without checking its error codes.

        Raises UnsupportedByBroker, ConnectionLost, RequestTimedOut, and MalformedFrame
        for bytes that are not a valid response.
        """
        version = self.version_of(type(request), wanted)
        received: M = await self._exchange(request, response, version)
        return received

    async def call_undecoded(
        self, request: Message, *, wanted: Versions = ANY_VERSION
    ) -> Undecoded:
        """Send a request and return the bytes of its response, for a large response
        that another thread decodes. Raises the errors of `call`."""
        version = self.version_of(type(request), wanted)
        received: Undecoded = await self._exchange(request, None, version)
        return received

    @property
    def is_ready(self) -> bool:
        """Whether `post` may be called: otherwise `wait_until_ready` first."""
        return (
            self.failure is None
            and self._writable.is_set()
            and self._reauthentication is None
            and self._throttled_until_s <= self._loop.time() < self._reauthenticate_at_s
        )

    async def wait_until_ready(self) -> None:
        """Wait until a request may be sent.

        Raises ConnectionLost, and RequestTimedOut after `request_timeout_ms`.
        """
        try:
            async with asyncio.timeout(self._options.request_timeout_ms / 1000):
                await self._wait_to_send()
        except TimeoutError:
            limit_ms = self._options.request_timeout_ms
            error = RequestTimedOut(
                f"{self.address} takes no request for {limit_ms} ms"
            )
            self._end(error)
            raise error from None

    def post(
        self,
        request: type[Message],
        version: int,
        body: bytes,
        read: Read,
        done: Callable[[Any], None],
    ) -> None:
        """Send a request whose body is encoded already, at once, for callers to whom a
        task and a future for each request cost too much.

        `done` is called with what `read` returns, or with an error as `call` raises it.
        It must not raise. The caller has to observe throttle times: see `throttle`.
        """
        assert self.failure is None
        limit_s = self._options.request_timeout_ms / 1000
        ends_s = self._loop.time() + limit_s
        self._send(request, version, body, read, done, ends_s)
        if self._expiry is None:
            self._expiry = self._loop.call_later(limit_s, self._expire)

    def _expire(self) -> None:
        """End with the oldest request of `post` if it is too old."""
        self._expiry = None
        posted = [each for each in self._in_flight.values() if each.ends_s < math.inf]
        if not posted:
            return
        oldest, now_s = posted[0], self._loop.time()
        if oldest.ends_s > now_s:
            self._expiry = self._loop.call_at(oldest.ends_s, self._expire)
            return
        error = self._timed_out(oldest.request, oldest.version)
        done, oldest.done = oldest.done, _ignore
        self._end(error)
        done(error)

    def close(self) -> None:
        """Close the connection; pending requests raise ConnectionLost."""
        if self._probe is not None:
            self._probe.cancel()
        self._end(ConnectionLost(f"the connection to {self.address} was closed"))

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        # uvloop's transports do not subclass asyncio.Transport, but have its methods.
        self._transport = cast("asyncio.Transport", transport)
        if self.failure is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail pending requests."""
        if isinstance(exc, ssl.SSLError) and not self._versions:
            # In TLS 1.3 a broker rejects a client certificate only after the handshake.
            self._end(connection_failures.tls_failure(self.address, exc))
        hint = self._hint()
        reason = (f": {exc}" if exc else "") + hint
        error = ConnectionLost(f"{self.address} closed the connection{reason}")
        if hint and self.failure is None:
            self._writable.clear()  # until `_end`
            self._probe = self._loop.create_task(self._end_with_cause(error))
        else:
            self._end(error)

    async def _end_with_cause(self, error: CoterieError) -> None:
        """End with the error of a wrong security protocol when that is certain."""
        was_negotiated = bool(self._versions)
        reason = await security_mismatch(
            self.address, self._options, was_negotiated=was_negotiated
        )
        if reason is not None:
            error = AuthenticationFailed(f"{self.address} {reason}")
        self._end(error)

    def data_received(self, data: bytes) -> None:
        """Resolve the requests whose responses are complete."""
        if data.startswith(_TLS_ALERT) and not self._versions:
            reason = requires_tls(self._options)
            self._end(AuthenticationFailed(f"{self.address} {reason}"))
            return
        try:
            for frame in self._frames.feed(data):
                self._resolve(frame)
        except MalformedFrame as error:
            self._end(MalformedFrame(f"from {self.address}: {error}"))
        else:
            if (failure := self._frames.failure) is not None:
                first = b"" if self._versions else data
                self._end(
                    connection_failures.frame_failure(self.address, failure, first)
                )

    def pause_writing(self) -> None:
        """Pause sending: the broker is not reading requests (backpressure)."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Resume sending."""
        self._writable.set()

    def _hint(self) -> str:
        """Return the probable cause when a broker closes the connection before its
        first response, or at the first request after ApiVersions: a security protocol
        that it requires.
        """
        options = self._options
        if not self._in_flight or self._has_served:
            return ""
        if not self._versions:
            required = "TLS" if options.ssl is None else "a client certificate"
        elif options.sasl is None:
            required = "SASL"
        else:
            return ""
        return f" (does it require {required}?)"

    async def _negotiate(self) -> None:
        """Request the broker's API versions. A broker without support for our version
        of ApiVersions responds in version 0, with the versions that it supports
        (G1-03); that costs a round trip, and v5 (Kafka 4.4) gives us nothing.
        """
        ours = _NEGOTIATED
        name, release = _SOFTWARE
        request = m.ApiVersionsRequest(
            client_software_name=name, client_software_version=release
        )
        response = await self._exchange(request, m.ApiVersionsResponse, ours.high)
        self._learn(response)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            self._versions.setdefault(ApiKey.API_VERSIONS, Versions(0, 0))
            response = await self.call(request, m.ApiVersionsResponse, wanted=ours)
            self._learn(response)
        if response.error_code:
            code = ErrorCode.read(response.error_code).name
            raise UnsupportedByBroker(f"{self.address} rejects ApiVersions: {code}")

    async def _authenticate(self) -> None:
        """Authenticate by the credentials of the options, if any.

        Raises AuthenticationFailed, and the errors of `call`.
        """
        credentials = self._options.sasl
        if credentials is None:
            return
        # Most runs of the command line use no SASL and need not import its messages.

        has_requests = m.SaslAuthenticateRequest.API_KEY in self._versions
        await self._handshake(
            credentials.mechanism, _TOKENS_BY_REQUEST if has_requests else _BARE_TOKENS
        )
        conversation = await credentials.begin()
        token = next(conversation)
        lifetime_ms = 0
        while True:
            if has_requests:
                response = await self.call(
                    m.SaslAuthenticateRequest(auth_bytes=token),
                    m.SaslAuthenticateResponse,
                )
                if response.error_code:
                    code = ErrorCode.read(response.error_code).name
                    raise AuthenticationFailed(
                        f"{self.address} rejects {credentials.mechanism}: "
                        f"{response.error_message or code}"
                    )
                reply, lifetime_ms = response.auth_bytes, response.session_lifetime_ms
            else:
                try:
                    reply = await self._exchange_bare(token)
                except ConnectionLost as error:
                    raise AuthenticationFailed(
                        f"{self.address} closed the connection during "
                        f"{credentials.mechanism}: most likely it rejects the "
                        "credentials"
                    ) from error
            try:
                token = conversation.send(reply)
            except StopIteration:
                break
        delay_s = lifetime_ms / 1000 * _REAUTHENTICATED_AFTER
        # Without a lifetime the session has no end, even if an earlier one had one.
        self._reauthenticate_at_s = (
            self._loop.time() + delay_s if lifetime_ms > 0 else math.inf
        )

    async def _handshake(self, mechanism: str, version: Versions) -> None:

        response = await self.call(
            m.SaslHandshakeRequest(mechanism=mechanism),
            m.SaslHandshakeResponse,
            wanted=version,
        )
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(response.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{self.address} does not support {mechanism}; it supports {enabled}"
            )
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(f"{self.address} {without_sasl(self._options)}")
        if response.error_code:
            code = ErrorCode.read(response.error_code).name
            raise AuthenticationFailed(f"{self.address} rejects {mechanism}: {code}")

    async def _exchange_bare(self, token: bytes) -> bytes:
        """Send a SASL token as a separate frame and return the response frame, as
        brokers before KIP-152 expect. No other request may be in flight.
        """
        assert self._transport is not None
        assert not self._in_flight
        if self.failure is not None:
            raise ConnectionLost(str(self.failure)) from self.failure
        self._bare = self._loop.create_future()
        self._transport.write(frame_of(token))
        return await self._bare

    async def _wait_for_authentication(self) -> None:
        """Wait for a re-authentication; start one when the session is about to expire.
        Cancelling the caller does not cancel the re-authentication."""
        if self._reauthentication is None:
            if self._loop.time() < self._reauthenticate_at_s:
                return
            self._reauthentication = self._loop.create_task(self._authenticate())
            self._reauthentication.add_done_callback(self._reauthenticated)
        await asyncio.shield(self._reauthentication)

    def _reauthenticated(self, task: asyncio.Task[None]) -> None:
        self._reauthentication = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CoterieError):
            self._end(error)
        elif error is not None:
            raise error

    def _learn(self, response: m.ApiVersionsResponse) -> None:
        self._versions = {
            each.api_key: Versions(each.min_version, each.max_version)
            for each in response.api_keys
        }

    async def _exchange(
        self, request: Message, response: type[Message] | None, version: int
    ) -> Any:
        limit_ms = self._options.request_timeout_ms
        future: asyncio.Future[Any] = self._loop.create_future()
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._wait_to_send(type(request))
                self._send(
                    type(request),
                    version,
                    encode(request, version),
                    Undecoded if response is None else partial(_decode, response),
                    partial(_set, future),
                )
                received = await future
        except TimeoutError:
            error = self._timed_out(type(request), version)
            # Responses arrive in order: later requests would wait for this response,
            # too.
            self._end(error)
            raise error from None
        self.throttle(getattr(received, "throttle_time_ms", 0))
        return received

    def throttle(self, throttle_ms: int) -> None:
        """Delay the next requests by the throttle time of a response: the client does
        so, not the broker (KIP-219)."""
        if throttle_ms > 0:
            self._throttled_until_s = self._loop.time() + throttle_ms / 1000

    def _timed_out(self, request: type[Message], version: int) -> RequestTimedOut:
        name = request.__name__.removesuffix("Request")
        limit_ms = self._options.request_timeout_ms
        return RequestTimedOut(
            f"{self.address} did not respond to {name} v{version} in {limit_ms} ms"
        )

    async def _wait_to_send(self, request: type[Message] | None = None) -> None:
        throttled_s = self._throttled_until_s - self._loop.time()
        if throttled_s > 0:
            await asyncio.sleep(throttled_s)
        if not self._writable.is_set():
            await self._writable.wait()
        if request is None or request.API_KEY not in _SASL_KEYS:
            await self._wait_for_authentication()
        if self.failure is not None:
            raise ConnectionLost(str(self.failure)) from self.failure

    def _send(
        self,
        request: type[Message],
        version: int,
        body: bytes,
        read: Read,
        done: Callable[[Any], None],
        ends_s: float = math.inf,
    ) -> None:
        assert self._transport is not None
        correlation_id = next(self._ids) & 0x7FFFFFFF
        flexible = version in request.FLEXIBLE
        tagged = flexible and request.API_KEY != ApiKey.API_VERSIONS  # G1-02
        self._in_flight[correlation_id] = _InFlight(
            request, version, tagged, read, done, ends_s
        )
        header = RequestHeaderV0(request.API_KEY, version, correlation_id)
        client_id = self._options.client_id
        self._transport.write(write_request(header, client_id, body, flexible=flexible))

    def _resolve(self, frame: bytes) -> None:
        if self._bare is not None:
            bare, self._bare = self._bare, None
            if not bare.done():
                bare.set_result(frame)
            return
        if not self._in_flight:
            raise MalformedFrame("a response to no request")
        expected, pending = next(iter(self._in_flight.items()))
        correlation_id, at = read_response(frame, tagged=pending.tagged)
        if correlation_id != expected:
            raise MalformedFrame(
                f"a response to request {correlation_id}, not to {expected}"
            )
        version = pending.version
        is_first = pending.request is m.ApiVersionsRequest
        if is_first and frame.startswith(_REFUSED_VERSION, at):
            version = 0
        value = pending.read(frame, at, version)
        self._has_served |= not is_first
        del self._in_flight[correlation_id]
        pending.done(value)

    def _end(self, error: CoterieError) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
        if self._expiry is not None:
            self._expiry.cancel()
        if self._bare is not None and not self._bare.done():
            self._bare.set_exception(error)
        pending, self._in_flight = self._in_flight, {}
        for each in pending.values():
            each.done(connection_failures.error_of_others(error))


def _decode(response: type[Message], frame: bytes, at: int, version: int) -> Message:
    return decode(response, version, frame, at, ELEMENTS_MAX)[0]


def _set(future: asyncio.Future[Any], value: object) -> None:
    if future.done():
        return
    if isinstance(value, CoterieError):
        future.set_exception(value)
    else:
        future.set_result(value)


def _ignore(_: object) -> None:
    """Drop an outcome that was reported."""


def _since(api_key: int, version: int) -> str:
    """Return what an operator can do about a version that a broker does not serve."""
    # Imported here, because few commands meet an old broker.
    from coterie.wire.releases import first_release

    release = first_release(api_key, version)
    return f" (Kafka {release} or newer)" if release else ""
