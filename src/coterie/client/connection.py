"""A client's connection to one broker: requests out, answers back, any number at once.

    connection = await BrokerConnection.open(Address("localhost", 9092), options)
    answer = await connection.call(ListGroupsRequest(), ListGroupsResponse)

A request goes out in the highest version that broker and client have in common. With
credentials in the options the broker is told who calls, before anything else and again
before the session ends (KIP-368), while other requests wait.

Rules of this file: nothing waits without a limit; the first failure ends the connection
and everything that waits on it, and is told to each later caller; a cancelled caller
harms nobody else.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from coterie.client.options import ClientOptions
from coterie.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import FrameReader, frame_of
from coterie.wire.headers import RequestFront, read_response, write_request
from coterie.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.schema import VERSION_MAX, Message, Versions

M = TypeVar("M", bound=Message)

_PORT_MAX: Final = 65_535
ANY_VERSION: Final = Versions(0, VERSION_MAX)
_SOFTWARE: Final = ("coterie", "0.1.0")
_SASL_KEYS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What may be sent while it is not known who we are."""
_RENEWED_AFTER: Final = 0.85
"""The part of a session after which its broker is told again who we are: the earliest
that Kafka's clients choose, and later than tokens are fetched anew."""
_TLS_ALERT: Final = b"\x15\x03"
"""How TLS begins to complain. No answer does: it would be one of 350 MB."""
_REFUSED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read HOST:PORT; an IPv6 host may stand in brackets. A listener's protocol may
        stand before it, as in SASL_SSL://HOST:PORT, and says nothing (as in Java).

        Raises ClientError when it is not that.
        """
        host, _, port = text.strip().rpartition("://")[2].rpartition(":")
        is_port = port.isascii() and port.isdigit() and int(port) <= _PORT_MAX
        if not host or not is_port:
            raise ClientError(f"{text!r} is no address; say HOST:PORT")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that has no answer yet."""

    response: type[Message]
    version: int
    tagged: bool
    answer: asyncio.Future[Any]


class BrokerConnection(asyncio.Protocol):
    """One connection. See the module's docstring; `open` makes one."""

    def __init__(self, address: Address, options: ClientOptions) -> None:
        self.address = address
        self.failure: CoterieError | None = None
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader(options.frame_bytes_max)
        self._waiting: dict[int, _Waiting] = {}
        self._ids = itertools.count()
        self._versions: dict[int, Versions] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self._quiet_until_s = 0.0
        self._bare: asyncio.Future[bytes] | None = None
        self._has_served = False
        self._renew_at_s = math.inf
        self._renewal: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, address: Address, options: ClientOptions) -> Self:
        """Connect, ask the broker what it speaks, and say who we are.

        Raises ConnectionLost when nobody listens there or it takes too long, and
        AuthenticationFailed when one side does not believe the other.
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
        except ssl.SSLError as error:
            connection.close()
            raise _tls_failure(address, error) from error
        except (OSError, RequestTimedOut) as error:  # TimeoutError is an OSError
            connection.close()
            reason = _reason(error)
            if options.ssl and isinstance(error, TimeoutError | ConnectionResetError):
                reason += " (does it speak TLS?)"
            raise ConnectionLost(f"{address} cannot be reached: {reason}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests may still be sent."""
        return self.failure is None

    @property
    def tls_version(self) -> str | None:
        """What encrypts the connection, as "TLSv1.3"; None when nothing does."""
        tls = self._transport and self._transport.get_extra_info("ssl_object")
        return tls.version() if tls else None

    def serves(self, request: type[Message]) -> bool:
        """Whether the broker serves such requests at all."""
        return request.API_KEY in self._versions

    def version_of(self, request: type[Message], wanted: Versions = ANY_VERSION) -> int:
        """The version in which such a request is sent: the highest of `wanted` that
        broker and client have in common.

        Raises UnsupportedByBroker when there is none.
        """
        name = request.__name__.removesuffix("Request")
        served = self._versions.get(request.API_KEY)
        if served is None:
            raise UnsupportedByBroker(f"{self.address} does not serve {name}")
        ours = request.VERSIONS
        high = min(served.high, ours.high, wanted.high)
        if high < max(served.low, ours.low, wanted.low):
            low = max(ours.low, wanted.low)
            raise UnsupportedByBroker(
                f"{self.address} serves {name} {served.low} to {served.high}; "
                f"{low} to {min(ours.high, wanted.high)} is needed"
            )
        return high

    async def call(
        self, request: Message, response: type[M], *, wanted: Versions = ANY_VERSION
    ) -> M:
        """Send a request and wait for its answer.

        Raises UnsupportedByBroker, ConnectionLost, RequestTimedOut, or MalformedFrame
        when what comes back is no such answer. Error codes in it are the caller's.
        """
        version = self.version_of(type(request), wanted)
        return await self._exchange(request, response, version)

    async def exchange_bare(self, token: bytes) -> bytes:
        """Send a SASL token as a frame of its own and wait for the frame that answers
        it: what brokers before KIP-152 expect. Nothing else may be under way."""
        assert self._transport is not None
        assert not self._waiting
        if self.failure is not None:
            raise ConnectionLost(str(self.failure)) from self.failure
        self._bare = self._loop.create_future()
        self._transport.write(frame_of(token))
        return await self._bare

    def close(self) -> None:
        """Close it; callers that wait get ConnectionLost."""
        self._end(ConnectionLost(f"the connection to {self.address} was closed"))

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        # uvloop's transports have the methods, but are no subclass.
        self._transport = cast("asyncio.Transport", transport)
        if self.failure is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The broker hung up, or we did."""
        if isinstance(exc, ssl.SSLError) and not self._versions:
            # With TLS 1.3 a refusal of our certificate comes after the handshake.
            self._end(_tls_failure(self.address, exc))
        reason = (f": {exc}" if exc else "") + self._guess()
        self._end(ConnectionLost(f"{self.address} closed the connection{reason}"))

    def data_received(self, data: bytes) -> None:
        """Give every answer that is now whole to who waits for it."""
        if data.startswith(_TLS_ALERT) and not self._versions:
            self._end(
                AuthenticationFailed(f"{self.address} wants TLS, which is not set up")
            )
            return
        try:
            for frame in self._frames.feed(data):
                self._answer(frame)
        except MalformedFrame as error:
            self._end(MalformedFrame(f"from {self.address}: {error}"))
        else:
            if self._frames.failure is not None:
                self._end(self._frames.failure)

    def pause_writing(self) -> None:
        """The broker does not read what it is sent: hold requests back."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The broker reads again."""
        self._writable.set()

    # The inner works.

    def _guess(self) -> str:
        """What a broker may want that hangs up before its first answer, or at the first
        request that is not about versions."""
        options = self._options
        if not self._waiting or self._has_served:
            return ""
        if not self._versions:
            wanted = "TLS" if options.ssl is None else "a certificate of ours"
        elif options.sasl is None:
            wanted = "SASL"
        else:
            return ""
        return f" (does it want {wanted}?)"

    async def _negotiate(self) -> None:
        """Learn the broker's versions. One that does not know our ApiVersions says so
        in the form of version 0, with the versions that it does know (G1-03)."""
        ours = ADVERTISED[ApiKey.API_VERSIONS]
        name, release = _SOFTWARE
        request = ApiVersionsRequest(
            client_software_name=name, client_software_version=release
        )
        answer = await self._exchange(request, ApiVersionsResponse, ours.high)
        self._learn(answer)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            self._versions.setdefault(ApiKey.API_VERSIONS, Versions(0, 0))
            answer = await self.call(request, ApiVersionsResponse, wanted=ours)
            self._learn(answer)
        if answer.error_code:
            code = ErrorCode.read(answer.error_code).name
            raise UnsupportedByBroker(f"{self.address} refuses ApiVersions: {code}")

    async def _authenticate(self) -> None:
        if self._options.sasl is None:
            return
        from coterie.client.authentication import authenticate

        lifetime_ms = await authenticate(self, self._options.sasl)
        if lifetime_ms > 0:
            self._renew_at_s = self._loop.time() + lifetime_ms / 1000 * _RENEWED_AFTER

    async def _is_known(self) -> None:
        """Wait while the broker is told again who we are; begin with it when the
        session is about to end. Whoever waits may give up: the renewal goes on."""
        if self._renewal is None and self._loop.time() >= self._renew_at_s:
            self._renewal = self._loop.create_task(self._authenticate())
            self._renewal.add_done_callback(self._renewed)
        if self._renewal is not None:
            await asyncio.shield(self._renewal)

    def _renewed(self, renewal: asyncio.Task[None]) -> None:
        self._renewal = None
        error = None if renewal.cancelled() else renewal.exception()
        if isinstance(error, CoterieError):
            self._end(error)
        elif error is not None:
            raise error

    def _learn(self, answer: ApiVersionsResponse) -> None:
        self._versions = {
            each.api_key: Versions(each.min_version, each.max_version)
            for each in answer.api_keys
        }

    async def _exchange(self, request: Message, response: type[M], version: int) -> M:
        limit_ms = self._options.request_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._may_send(request)
                answer: M = await self._send(request, response, version)
        except TimeoutError:
            name = type(request).__name__.removesuffix("Request")
            error = RequestTimedOut(
                f"{self.address} did not answer {name} v{version} in {limit_ms} ms"
            )
            # Answers come in order: what was sent since waits behind it.
            self._end(error)
            raise error from None
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:  # the broker has answered, and wants us quiet (KIP-219)
            self._quiet_until_s = self._loop.time() + throttle_ms / 1000
        return answer

    async def _may_send(self, request: Message) -> None:
        quiet_s = self._quiet_until_s - self._loop.time()
        if quiet_s > 0:
            await asyncio.sleep(quiet_s)
        if not self._writable.is_set():
            await self._writable.wait()
        if request.API_KEY not in _SASL_KEYS:
            await self._is_known()
        if self.failure is not None:
            raise ConnectionLost(str(self.failure)) from self.failure

    def _send(
        self, request: Message, response: type[M], version: int
    ) -> asyncio.Future[M]:
        assert self._transport is not None
        correlation_id = next(self._ids) & 0x7FFFFFFF
        flexible = version in request.FLEXIBLE
        front = RequestFront(request.API_KEY, version, correlation_id)
        frame = write_request(
            front,
            self._options.client_id,
            encode(request, version),
            flexible=flexible,
        )
        answer: asyncio.Future[M] = self._loop.create_future()
        tagged = flexible and request.API_KEY != ApiKey.API_VERSIONS  # G1-02
        self._waiting[correlation_id] = _Waiting(response, version, tagged, answer)
        self._transport.write(frame)
        return answer

    def _answer(self, frame: bytes) -> None:
        if self._bare is not None:
            bare, self._bare = self._bare, None
            if not bare.done():
                bare.set_result(frame)
            return
        if not self._waiting:
            raise MalformedFrame("an answer to no request")
        expected, waiting = next(iter(self._waiting.items()))
        correlation_id, at = read_response(frame, tagged=waiting.tagged)
        if correlation_id != expected:
            raise MalformedFrame(f"an answer to {correlation_id}, not to {expected}")
        version = waiting.version
        if waiting.response is ApiVersionsResponse and frame.startswith(
            _REFUSED_VERSION, at
        ):
            version = 0
        value, _ = decode(waiting.response, version, frame, at)
        self._has_served |= waiting.response is not ApiVersionsResponse
        del self._waiting[correlation_id]
        if not waiting.answer.done():
            waiting.answer.set_result(value)

    def _end(self, error: CoterieError) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
        if self._bare is not None and not self._bare.done():
            self._bare.set_exception(error)
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(_for_others(error))
        self._waiting.clear()


def _reason(error: Exception) -> str:
    """Why there is no connection; what asyncio raises is often without words."""
    if isinstance(error, ConnectionResetError):
        return "it hung up"
    if f"[Errno {errno.ECONNREFUSED}]" in str(error):  # of one address, or of several
        return "nobody listens there"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return str(error) or "it took too long"


def _tls_failure(address: Address, error: ssl.SSLError) -> ClientError:
    """What a failed TLS handshake means. A peer that just hangs up may do better next
    time; one whose certificate is wrong will not."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return ConnectionLost(
            f"{address} hung up during the TLS handshake: does it speak TLS there?"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        return AuthenticationFailed(f"{address}: its certificate is not trusted: {why}")
    if error.reason == "WRONG_VERSION_NUMBER":
        return AuthenticationFailed(f"{address} does not speak TLS")
    why = (error.reason or str(error)).replace("_", " ").lower()
    return AuthenticationFailed(f"{address}: no TLS connection: {why}")


def _for_others(error: CoterieError) -> CoterieError:
    """What those are told whose own request did not cause the failure."""
    if isinstance(error, RequestTimedOut):
        return ConnectionLost(f"the connection was given up: {error}")
    return error
