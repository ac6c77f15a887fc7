"""Every API that takes a list leaves the event loop to others: requests of many items.

The requests are those of test_dispatch_linear_work.py, sent as bytes on a connection
whose turns are over after each slice. The work of an iteration of the loop is the
number of functions that are called in it, so a busy machine fails no test.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from coterie.auth.acl import Principal
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.server.audit import AuditLog
from coterie.broker.server.client_connection import ClientConnection
from coterie.broker.server.connections import Connections
from coterie.broker.server.dispatch import HANDLERS
from coterie.broker.server.security import Security
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from coterie.wire.api import ApiKey
from coterie.wire.codec import encode
from coterie.wire.framing import RequestHeaderV0, write_request
from coterie.wire.schema import Message
from tests.broker.server.apis.in_process_server import InProcessServer
from tests.broker.server.test_dispatch_linear_work import CASES, Case

pytestmark = [pytest.mark.slow, pytest.mark.pure]

ITEMS = 2_000
CALLS_MAX = 8 * ITEMS
"""The most functions that are called in one iteration of the event loop: what is done
for all items at once is to remove repeated ones, to count them, or to flush them."""
ADMIN = Principal("User", "admin")

BYTES = frozenset({"resource_types", "acknowledge_types"})
"""The lists of numbers of a byte, of which there are not as many."""
AT_ONCE = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.LIST_GROUPS,  # its filters, in each shard
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    }
)
"""The APIs that handle all items at once; docs/limits.md names those of clients."""


class Transport(asyncio.Transport):
    """A transport that counts the bytes written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 1)})
        self.written = 0
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += len(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class CallCounter:
    """A count of the functions that are called while it is active."""

    def __init__(self) -> None:
        self.calls = 0

    def run(self, work: Callable[[], object]) -> int:
        """Return the number of functions that `work` calls."""
        self.calls = 0
        sys.setprofile(self._count)
        try:
            work()
        finally:
            sys.setprofile(None)
        return self.calls

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        self.calls += event in {"call", "c_call"}


@pytest.fixture(scope="module")
def server() -> Iterator[InProcessServer]:
    settings = Settings(message_max_bytes=100_000_000)
    with InProcessServer(
        settings=settings, authorizer=AclAuthorizer([ADMIN]), principal=ADMIN
    ) as made:
        yield made


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def request_bytes(request: Message, version: int) -> bytes:
    front = RequestHeaderV0(request.API_KEY, version, 1)
    body = encode(request, version)
    return write_request(front, "client", body, flexible=version in request.FLEXIBLE)


def connect(server: InProcessServer) -> tuple[ClientConnection, Transport]:
    """Return a connection whose turns are over after each slice."""
    none: Any = lambda *_: None  # noqa: E731
    security = Security(SecurityProtocol.PLAINTEXT, server.settings, none, none)
    handlers = AuditLog().wrap(HANDLERS)
    connections = Connections(
        server.settings,
        handlers,
        security,
        seconds=cast("Callable[[], float]", itertools.count().__next__),
    )
    connection = ClientConnection(server.broker.nodes[0], connections, server.loop)
    transport = Transport()
    connection.connection_made(transport)
    connection.principal = server.principal
    return connection, transport


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.path[-1] not in BYTES], ids=str
)
def test_a_request_of_many_items_leaves_the_loop_to_others(
    server: InProcessServer, case: Case
) -> None:
    request = case.build(ITEMS, server.topic_id("t"), equal=False)
    connection, transport = connect(server)
    counter = CallCounter()
    data = request_bytes(request, case.version)
    worst = counter.run(lambda: connection.data_received(data))
    while not transport.written and not transport.is_closed:
        server.loop.call_soon(server.loop.stop)
        worst = max(worst, counter.run(server.loop.run_forever))
    assert transport.written, "the request was refused as malformed"
    if ApiKey(request.API_KEY) in AT_ONCE:
        pytest.skip("handled at once")
    assert worst <= CALLS_MAX
