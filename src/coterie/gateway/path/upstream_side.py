"""The connection to one upstream broker that belongs to a client's connection.

Chunks of a response that is forwarded go to the client as they are; a response with
addresses is collected, rewritten and sent. A large one of Fetch is not collected: its
parts are read as they pass.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias, cast

from coterie.client import ClientOptions
from coterie.client.connection import Address
from coterie.errors import MalformedFrame
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.path.cutting import Begun, FrameCutter, Sink
from coterie.gateway.path.fetch_responses import FetchRewrite, FetchWalk
from coterie.wire.frame_starts import ANSWER_BYTES_MIN, ANSWER_HEAD
from coterie.wire.framing import SIZE_BYTES, read_size

WRITE_BUFFER_BYTES: Final = 262_144
"""Bytes that wait to be written to one side before the other one is not read."""
CLOSE_S: Final = 30.0
"""Time in which the peer of a closed connection has to consume what was written, and
upstream has to respond to a client that sends nothing more."""
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
        self._forward: Sink = to_client.write
        self._cutter = FrameCutter(self._begin)
        self._is_passing = False
        self._is_waiting = False
        """Whether a response of the gateway is next."""
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
        self._pass_on(data)

    # For the client's side.

    @property
    def is_in_frame(self) -> bool:
        """Whether the client got the beginning of a response, and not all of it."""
        return self._cutter.left > 0

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
            self._is_waiting = self._cutter.is_stopped = False
            if not self._is_passing:
                self._pass_on(b"")
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

    def _pass_on(self, data: bytes) -> None:
        """Pass on each response in its turn; keep an incomplete start, and what has to
        wait for a response of the gateway."""
        cutter, was_waiting = self._cutter, self._is_waiting
        self._is_passing = True
        try:
            if data:
                cutter.feed(data)
            else:
                cutter.go_on()
            while not cutter.left:
                is_next = self._is_waiting
                self._events.on_turn()
                if not is_next or self._is_waiting:
                    break
                cutter.go_on()
        except MalformedFrame as error:
            self._events.on_failure(str(error))
        finally:
            self._is_passing = False
        if was_waiting or self._is_waiting:
            self._update_reading()

    def _begin(self, data: bytes, at: int) -> Begun | None:
        """Return where the response at `at` goes, and the position after it; None when
        it has to wait or more of it is needed. Raises MalformedFrame."""
        if len(data) - at < SIZE_BYTES:
            self._cutter.wanted = SIZE_BYTES
            return None
        if not self._expected:
            raise MalformedFrame("a response without a request")
        entry = self._expected[0]
        if isinstance(entry, Rewritten):
            return self._begin_rewritten(data, at, entry)
        if not isinstance(entry, int):
            self._is_waiting = self._cutter.is_stopped = True
            return None
        if len(data) - at < ANSWER_HEAD.size:
            self._cutter.wanted = ANSWER_HEAD.size
            return None
        _check(data, at, entry)
        self._expected.popleft()
        return Begun(self._forward, at + SIZE_BYTES + read_size(data, at))

    def _begin_rewritten(self, data: bytes, at: int, entry: Rewritten) -> Begun | None:
        """Collect a response to rewrite; one of Fetch may be read as it passes."""
        size = read_size(data, at)
        after = at + SIZE_BYTES + size
        rewrite, write = entry.rewrite, self._forward
        is_read = isinstance(rewrite, FetchRewrite)
        if not 0 <= size <= REWRITTEN_BYTES_MAX and not is_read:
            raise MalformedFrame(f"a response of {size} bytes")
        wanted = ANSWER_HEAD.size if is_read else after - at
        if at + wanted > len(data):
            self._cutter.wanted = wanted
            return None
        if entry.correlation_id is not None:
            _check(data, at, entry.correlation_id)
        self._expected.popleft()
        if after > len(data):
            walk = FetchWalk()
            return Begun(lambda part: write(walk.hide_leaders(bytes(part))), after)
        return Begun(lambda frame: write(rewrite(bytes(frame))), after)


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
