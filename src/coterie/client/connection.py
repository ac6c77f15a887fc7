"""A client's connection to one broker: requests out, answers back, any number at once.

    connection = await BrokerConnection.open(Address("localhost", 9092), options)
    answer = await connection.call(ListGroupsRequest(), ListGroupsResponse)

A request goes out in the highest version that broker and client have in common.

Rules of this file: nothing waits without a limit; the first failure ends the connection
and everything that waits on it, and is told to each later caller; a cancelled caller
harms nobody else.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from coterie.client.options import ClientOptions
from coterie.errors import (
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
from coterie.wire.framing import FrameReader
from coterie.wire.headers import RequestFront, read_response, write_request
from coterie.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.schema import VERSION_MAX, Message, Versions

M = TypeVar("M", bound=Message)

ANY_VERSION: Final = Versions(0, VERSION_MAX)
_SOFTWARE: Final = ("coterie", "0.1.0")
_REFUSED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read HOST:PORT; an IPv6 host may stand in brackets.

        Raises ClientError when it is not that.
        """
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal():
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

    @classmethod
    async def open(cls, address: Address, options: ClientOptions) -> Self:
        """Connect, and ask the broker what it speaks.

        Raises ConnectionLost when nobody listens there or it takes too long.
        """
        loop = asyncio.get_running_loop()
        connection = cls(address, options)
        try:
            async with asyncio.timeout(options.connect_timeout_ms / 1000):
                await loop.create_connection(
                    lambda: connection, address.host, address.port, ssl=options.ssl
                )
                await connection._negotiate()
        except (OSError, RequestTimedOut) as error:  # TimeoutError is an OSError
            connection.close()
            reason = str(error) or "it took too long"
            raise ConnectionLost(f"{address} cannot be reached: {reason}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests may still be sent."""
        return self.failure is None

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
        reason = f": {exc}" if exc else ""
        self._end(ConnectionLost(f"{self.address} closed the connection{reason}"))

    def data_received(self, data: bytes) -> None:
        """Give every answer that is now whole to who waits for it."""
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

    def _learn(self, answer: ApiVersionsResponse) -> None:
        self._versions = {
            each.api_key: Versions(each.min_version, each.max_version)
            for each in answer.api_keys
        }

    async def _exchange(self, request: Message, response: type[M], version: int) -> M:
        limit_ms = self._options.request_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._may_send()
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

    async def _may_send(self) -> None:
        quiet_s = self._quiet_until_s - self._loop.time()
        if quiet_s > 0:
            await asyncio.sleep(quiet_s)
        if not self._writable.is_set():
            await self._writable.wait()
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
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(_for_others(error))
        self._waiting.clear()


def _for_others(error: CoterieError) -> CoterieError:
    """What those are told whose own request did not cause the failure."""
    if isinstance(error, RequestTimedOut):
        return ConnectionLost(f"the connection was given up: {error}")
    return error
