"""The connection to one upstream broker that belongs to a client's connection.

Responses are cut only by their sizes. Chunks of a response that is forwarded go to the
client as they are; a response with addresses is collected, rewritten and sent. One of
Fetch with addresses is not collected: its parts are read as they pass.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias, cast

from coterie.client.connection import Address
from coterie.client.options import ClientOptions
from coterie.errors import MalformedFrame
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.path.fetch_responses import FetchRewrite, FetchWalk
from coterie.gateway.path.frames import ANSWER_BYTES_MIN, ANSWER_HEAD
from coterie.gateway.path.time_limits import CLOSE_S
from coterie.wire.framing import SIZE_BYTES, read_size

WRITE_BUFFER_BYTES: Final = 262_144
"""Bytes that wait to be written to one side before the other one is not read."""
REWRITTEN_BYTES_MAX: Final = 104_857_600
"""The largest response that is collected to be rewritten."""


class Rewritten:
    """An expected response that `rewrite` turns into the frame for the client, both
    with their sizes. A bare SASL token has no correlation id.
    """

    __slots__ = ("correlation_id", "rewrite")

    def __init__(
        self, correlation_id: int | None, rewrite: Callable[[bytes], bytes]
    ) -> None:
        self.correlation_id = correlation_id
        self.rewrite = rewrite


Expected: TypeAlias = int | Rewritten | bytes | None


class Events(NamedTuple):
    """The functions that a client's connection has called.

    `on_turn` after a response, when one of the gateway may be next; `on_lost` when the
    connection has ended; `on_full` when the broker stops or resumes to consume
    requests; `on_failure` with the reason when it sends no valid response.
    """

    on_turn: Callable[[], None]
    on_lost: Callable[[Exception | None], None]
    on_full: Callable[[bool], None]
    on_failure: Callable[[str], None]


class UpstreamSide(asyncio.Protocol):
    """The connection to the upstream broker of one client connection.

    `to_client` is the client's transport, `expected` the responses in the order of its
    requests. `counts` gets the forwarded bytes, frames that are rewritten included.
    `connected` has this object while it is connected, which may be longer than its
    client is.
    """

    def __init__(
        self,
        to_client: asyncio.WriteTransport,
        expected: deque[Expected],
        events: Events,
        counts: GatewayCounts,
        connected: set[UpstreamSide],
    ) -> None:
        self.was_active = False
        """Whether data was received since the flag was reset."""
        self._to_client = to_client
        self._expected = expected
        self._events = events
        self._counts = counts
        self._connected = connected
        self._transport: asyncio.Transport | None = None
        self._left = 0
        self._walk: FetchWalk | None = None
        """The response of which `_left` bytes are missing, if it is read."""
        self._rest = bytearray()
        self._wanted = 0
        self._is_waiting = False
        self._is_client_full = False

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._connected.add(self)
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss."""
        self._connected.discard(self)
        self._transport = None
        self._events.on_lost(exc)

    def pause_writing(self) -> None:
        """Stop reading the client: the broker is not consuming requests."""
        self._events.on_full(True)

    def resume_writing(self) -> None:
        """Read the client again."""
        self._events.on_full(False)

    def data_received(self, data: bytes) -> None:
        """Pass on responses."""
        self.was_active = True
        self._counts.bytes_to_clients += len(data)
        if self._left > len(data) and self._walk is None:
            self._left -= len(data)
            self._to_client.write(data)
        elif self._rest or self._is_waiting:
            self._rest += data
            self._go_on()
        else:
            self._cut(data)

    # For the client's side.

    @property
    def is_in_frame(self) -> bool:
        """Whether the client got the beginning of a response, and not all of it."""
        return self._left > 0

    @property
    def unsent_bytes(self) -> int:
        """The bytes of requests that the broker has not consumed."""
        transport = self._transport
        return 0 if transport is None else transport.get_write_buffer_size()

    def write(self, data: bytes | memoryview) -> None:
        """Send requests."""
        if self._transport is not None:
            self._counts.bytes_to_upstream += len(data)
            self._transport.write(data)

    def set_client_full(self, *, is_full: bool) -> None:
        """Read no responses while the client is not consuming them."""
        self._is_client_full = is_full
        self._update_reading()

    def resume(self) -> None:
        """Go on with responses that waited for those of the gateway."""
        if self._is_waiting:
            self._is_waiting = False
            self._go_on()
            self._update_reading()

    def close(self) -> None:
        """Close the connection after everything is written."""
        transport = self._transport
        if transport is not None:
            transport.close()
            asyncio.get_running_loop().call_later(CLOSE_S, transport.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # Responses.

    def _update_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._is_client_full or self._is_waiting:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _go_on(self) -> None:
        if not self._is_waiting and self._rest and len(self._rest) >= self._wanted:
            data = bytes(self._rest)
            self._rest.clear()
            self._cut(data)

    def _cut(self, data: bytes) -> None:
        try:
            self._pass_on(data)
        except MalformedFrame as error:
            self._events.on_failure(str(error))

    def _pass_on(self, data: bytes) -> None:
        """Pass on each response in its turn; keep an incomplete start, and what has to
        wait for a response of the gateway."""
        end = len(data)
        begin, at = self._pass_read(data), self._left
        self._left = self._wanted = 0
        while at + SIZE_BYTES <= end:
            if not self._expected:
                raise MalformedFrame("a response without a request")
            entry = self._expected[0]
            if not isinstance(entry, int):
                self._forward(data, begin, at)
                begin = at
                if not self._is_sent(data, at, entry):
                    break
                if isinstance(entry, Rewritten):
                    at += SIZE_BYTES + read_size(data, at)
                    begin = at
            elif at + ANSWER_HEAD.size <= end:
                _check(data, at, entry)
                self._expected.popleft()
                at += SIZE_BYTES + read_size(data, at)
            else:
                break
        if at > end:
            self._left, at = at - end, end
        self._forward(data, begin, at)
        self._rest += memoryview(data)[at:]
        if self._is_waiting:
            self._update_reading()
        elif not self._left:
            self._events.on_turn()

    def _pass_read(self, data: bytes) -> int:
        """Pass on the rest of a response that is read; return the position after it."""
        walk, left = self._walk, self._left
        if walk is None:
            return 0
        if left <= len(data):
            self._walk = None
        self._to_client.write(walk.hide_leaders(data[:left]))
        return min(left, len(data))

    def _is_sent(self, data: bytes, at: int, entry: Rewritten | bytes | None) -> bool:
        """Return whether the next response was sent: the rewritten one at `at`, or one
        of the gateway."""
        if isinstance(entry, Rewritten):
            return self._rewrite(data, at, entry)
        self._events.on_turn()
        self._is_waiting = bool(self._expected) and self._expected[0] is entry
        return not self._is_waiting

    def _rewrite(self, data: bytes, at: int, entry: Rewritten) -> bool:
        """Rewrite and send the response at `at`, or begin with one that is read as it
        passes; return False while bytes are missing for that."""
        size = read_size(data, at)
        after = at + SIZE_BYTES + size
        rewrite = entry.rewrite
        is_read = isinstance(rewrite, FetchRewrite)
        if not 0 <= size <= REWRITTEN_BYTES_MAX and not is_read:
            raise MalformedFrame(f"a response of {size} bytes")
        self._wanted = ANSWER_HEAD.size if is_read else after - at
        if at + self._wanted > len(data):
            return False
        if entry.correlation_id is not None:
            _check(data, at, entry.correlation_id)
        if after > len(data):
            self._walk = FetchWalk()
            rewritten = self._walk.hide_leaders(data[at:])
        else:
            rewritten = rewrite(data[at:after])
        self._wanted = 0
        self._expected.popleft()
        self._to_client.write(rewritten)
        return True

    def _forward(self, data: bytes, begin: int, end: int) -> None:
        if end - begin == len(data):
            self._to_client.write(data)
        elif end > begin:
            self._to_client.write(memoryview(data)[begin:end])


def _check(data: bytes, at: int, wanted: int) -> None:
    """Raise MalformedFrame unless the response has the correlation id `wanted`."""
    size = read_size(data, at)
    if size < ANSWER_BYTES_MIN:
        raise MalformedFrame(f"a response of {size} bytes")
    _, correlation_id = ANSWER_HEAD.unpack_from(data, at)
    if correlation_id != wanted:
        raise MalformedFrame(f"correlation id {correlation_id} instead of {wanted}")


async def connect(
    upstream: UpstreamSide, addresses: Iterable[Address], options: ClientOptions
) -> None:
    """Connect to the first address that accepts. Raises OSError when none does."""
    failure = OSError("no upstream broker is known")
    loop = asyncio.get_running_loop()
    for address in addresses:
        try:
            async with asyncio.timeout(options.connect_timeout_ms / 1000):
                await loop.create_connection(
                    lambda: upstream, address.host, address.port, ssl=options.ssl
                )
        except OSError as error:  # SSLError and TimeoutError are OSErrors
            failure = error
        except (UnicodeError, OverflowError) as error:
            # A host name that IDNA cannot encode, or a port over 65,535.
            failure = OSError(f"{address.host}:{address.port}: {error}")
        else:
            return
    raise failure
