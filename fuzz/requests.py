"""Send valid requests with odd values to a broker in this process, and check it.

Each request must have a response, no bug may be logged, no shard may stop, and no
connection may be closed; a canary group must be served all the time. At the end the
broker starts again from its log.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from coterie.broker.runtime.shards import Phase
from coterie.broker.server.server import Server, ServerOptions
from coterie.errors import MalformedFrame
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.api import IMPLEMENTED, ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.framing import RequestHeaderV0, read_response, write_request
from coterie.wire.schema import Message
from fuzz.request_values import CANARY, Generator

SHARDS: Final = 4
RESPONSE_S: Final = 20.0
WAITING_S: Final = 0.02
WAITING_MAX: Final = 40
CANARY_EVERY: Final = 50
HISTORY: Final = 15
_MAY_WAIT: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests whose responses wait for other members."""
WEIGHTS: Final = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 6.0,
    ApiKey.SHARE_GROUP_HEARTBEAT: 4.0,
    ApiKey.JOIN_GROUP: 4.0,
    ApiKey.SYNC_GROUP: 3.0,
    ApiKey.PRODUCE: 3.0,
    ApiKey.FETCH: 3.0,
    ApiKey.OFFSET_COMMIT: 3.0,
    ApiKey.TXN_OFFSET_COMMIT: 3.0,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2.0,
    ApiKey.ADD_OFFSETS_TO_TXN: 2.0,
    ApiKey.CREATE_TOPICS: 2.0,
    ApiKey.DELETE_TOPICS: 0.1,
    ApiKey.SASL_AUTHENTICATE: 0.1,
    ApiKey.SASL_HANDSHAKE: 0.1,
}
"""How often an API is chosen; 1 if not listed."""
_SETTINGS: Final = Settings(
    log_flush_sync=False,
    offsets_topic_num_partitions=SHARDS,
    group_initial_rebalance_delay_ms=0,
    group_min_session_timeout_ms=1,
    group_consumer_assignment_interval_ms=0,
    group_share_assignment_interval_ms=0,
    group_consumer_client_assignors_enable=True,
    authorizer="acl",
    super_users=("User:ANONYMOUS",),
)
_REPORTS_BUG: Final = ("bug", "could not be loaded", "a flush failed")


class BugFound(Exception):
    """A violation of a check, with the requests before it."""


class Logged(logging.Handler):
    """The messages about bugs that were logged, and those about closed connections."""

    def __init__(self) -> None:
        super().__init__()
        self.bugs: list[str] = []
        self.closed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        text = self.format(record)
        if record.exc_info or any(word in text for word in _REPORTS_BUG):
            self.bugs.append(text)
        elif "closed" in text:
            self.closed.append(text)


class Peer:
    """A connection to the broker."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Peer:
        """Return a new connection."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        with suppress(OSError):
            await self._writer.wait_closed()

    def send(
        self, request: Message, version: int, client_id: str | None = "fuzz"
    ) -> None:
        flexible = version in request.FLEXIBLE
        header = RequestHeaderV0(request.API_KEY, version, 1)
        body = encode(request, version)
        self._writer.write(write_request(header, client_id, body, flexible=flexible))

    async def receive(self, key: ApiKey, version: int) -> Any:
        """Return the response. Raises IncompleteReadError when there is none."""
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        api = api_of(key)
        tagged = version in api.request.FLEXIBLE and key != ApiKey.API_VERSIONS
        _, at = read_response(frame, tagged=tagged)
        value, end = decode(api.response, version, frame, at)
        if end != len(frame):
            raise MalformedFrame(f"{len(frame) - end} bytes after the response")
        return value


class Fuzzer:
    """A run: the broker, the connections, and the requests so far."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._chance = Random(seed)
        self._generator = Generator(self._chance)
        self._options = ServerOptions(
            settings=_SETTINGS, host="127.0.0.1", port=0, directory=directory
        )
        self._server = Server(self._options)
        self._logged = Logged()
        self._history: deque[str] = deque(maxlen=HISTORY)
        self._is_running = False
        self._peers: list[Peer] = []
        self._waiting: deque[Peer] = deque()
        self._canary_epochs: dict[str, int] = {}
        self.errors: Counter[tuple[str, int]] = Counter()
        self.sent = 0
        self.slowest = (0.0, "")

    async def run(self, seconds: float, count: int) -> None:
        """Send requests until the time has passed or `count` are sent.

        Raises BugFound.
        """
        logger = logging.getLogger("coterie")
        logger.addHandler(self._logged)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: self._logged.bugs.append(_description(context))
        )
        try:
            await self._start()
            await self._send_all(time.monotonic() + seconds, count)
            self._is_running = False
            await self._server.stop()
            self._server = Server(self._options)
            await self._start()
            self._check("starting again")
        finally:
            logger.removeHandler(self._logged)
            for peer in self._peers:
                peer.close()
                await peer.wait_closed()
            if self._is_running:
                await self._server.stop()

    async def _start(self) -> None:
        await self._server.start()
        self._is_running = True
        self._peer = await self._connect()
        shards = self._server.assembly.broker.runtime.shards
        deadline = time.monotonic() + RESPONSE_S
        while any(shard.phase is Phase.LOADING for shard in shards):
            if time.monotonic() > deadline:
                raise self._bug("a shard is not loaded in time")
            await asyncio.sleep(0)
        self._canary_peer = await self._connect()
        self._canary_epochs.clear()
        await self._check_canary()

    async def _connect(self) -> Peer:
        peer = await Peer.connect(self._server.nodes[0].port)
        self._peers.append(peer)
        return peer

    async def _send_all(self, deadline: float, count: int) -> None:
        apis = list(IMPLEMENTED)
        weights = [WEIGHTS.get(key, 1.0) for key in apis]
        while time.monotonic() < deadline and self.sent < count:
            (key,) = self._chance.choices(apis, weights)
            served = api_of(key).served
            version = self._chance.randint(served.low, served.high)
            request = self._generator.request(api_of(key).request, version)
            _bound_waits(request)
            self._history.append(f"{key.title} v{version}: {request!r}")
            self.sent += 1
            began = time.perf_counter()
            await self._exchange(key, version, request)
            took = time.perf_counter() - began
            self.slowest = max(self.slowest, (took, self._history[-1]))
            self._check(self._history[-1])
            if self.sent % CANARY_EVERY == 0:
                await self._check_canary()

    async def _exchange(self, key: ApiKey, version: int, request: Any) -> None:
        peer = self._peer
        peer.send(request, version, self._generator.client_id())
        if key == ApiKey.PRODUCE and request.acks == 0:
            # It has no response, and an error closes the connection, as in Kafka.
            peer.close()
            self._peer = await self._connect()
            return
        may_wait = key in _MAY_WAIT
        try:
            async with asyncio.timeout(WAITING_S if may_wait else RESPONSE_S):
                response = await peer.receive(key, version)
        except TimeoutError:
            if not may_wait:
                raise self._bug("no response") from None
            self._waiting.append(peer)
            if len(self._waiting) > WAITING_MAX:
                self._waiting.popleft().close()
            self._peer = await self._connect()
        except MalformedFrame as error:
            raise self._bug(f"the response is malformed: {error}") from error
        except (asyncio.IncompleteReadError, ConnectionError):
            logged = (*self._logged.bugs, *self._logged.closed)[:1]
            raise self._bug(f"the connection was closed: {logged}") from None
        else:
            self._generator.keep(request, version, response)
            for code in _error_codes(response):
                self.errors[key.title, code] += 1

    def _check(self, doing: str) -> None:
        if self._logged.bugs:
            raise self._bug(self._logged.bugs[0])
        for shard in self._server.assembly.broker.runtime.shards:
            if shard.phase is not Phase.ACTIVE:
                raise self._bug(f"{shard.name} is {shard.phase.value} after {doing}")

    async def _check_canary(self) -> None:
        """Send a heartbeat to a group in each shard."""
        for shard in range(SHARDS):
            group_id = self._canary_group(shard)
            epoch = self._canary_epochs.get(group_id, 0)
            request = m.ConsumerGroupHeartbeatRequest(
                group_id=group_id, member_id="m", member_epoch=epoch
            )
            if epoch == 0:
                request.rebalance_timeout_ms = 5_000
                request.subscribed_topic_names = [CANARY]
                request.topic_partitions = []
            self._canary_peer.send(request, 1)
            key = ApiKey.CONSUMER_GROUP_HEARTBEAT
            async with asyncio.timeout(RESPONSE_S):
                response = await self._canary_peer.receive(key, 1)
            assert isinstance(response, m.ConsumerGroupHeartbeatResponse)
            if response.error_code:
                raise self._bug(f"the canary group is not served: {response!r}")
            self._canary_epochs[group_id] = response.member_epoch

    def _canary_group(self, shard: int) -> str:
        broker = self._server.assembly.broker
        names = (f"{CANARY}-{number}" for number in range(1_000))
        return next(name for name in names if broker.shard_of(name) == shard)

    def _bug(self, what: str) -> BugFound:
        return BugFound("\n".join([*self._history, "", what]))


def _bound_waits(request: Any) -> None:
    """Limit the time for which the broker may wait for records."""
    if hasattr(request, "max_wait_ms"):
        request.max_wait_ms = min(request.max_wait_ms, 5)


def _error_codes(response: Any) -> Iterator[int]:
    for name in response.FIELDS:
        content = getattr(response, name)
        if name == "error_code":
            yield content
        for item in content if isinstance(content, list) else [content]:
            if hasattr(item, "FIELDS"):
                yield from _error_codes(item)


def _description(context: dict[str, Any]) -> str:
    return f"{context.get('message')}: {context.get('exception')!r}"
