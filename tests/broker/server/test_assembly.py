"""The group server of a node: shards with logs of their own, and unassigned ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coterie.auth.authorizer import AllowAll
from coterie.broker.catalog.topics import NewTopic
from coterie.broker.log.log import LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.loader import Loader
from coterie.broker.runtime.shards import Phase
from coterie.broker.runtime.snapshots import Snapshots
from coterie.broker.runtime.system import random_topic_id
from coterie.broker.server.assembly import group_server
from coterie.broker.server.broker import Node
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import SIZE_BYTES
from tests.broker.server.test_heartbeat_memo import Client

SHARDS = 4
FETCH_VERSION = 8
_HEADER_BYTES = SIZE_BYTES + 5


class Server:
    """A group server with a topic and a client; `assign` gives it shards."""

    def __init__(self) -> None:
        self.broker = group_server(Settings(), "cluster", AllowAll())
        self.broker.nodes.append(Node(1, "localhost", 1, self.broker))
        entry = self.broker.catalog.create_topic(
            NewTopic(name="t", partition_count=1, replication_factor=1),
            random_topic_id(),
        )
        self.broker.data.stage([entry])
        self.broker.flusher.flush()
        self.runtime = self.broker.runtime
        self.runtime.start(SHARDS, "__coterie_test")
        self.flushers: dict[int, Flusher] = {}
        self.client = Client(self.broker.nodes[0], asyncio.get_running_loop())

    async def assign(self, *shards: int) -> None:
        loop = asyncio.get_running_loop()
        for index in shards:
            log_partition = LogPartition(random_topic_id(), index)
            log = MemoryLog()
            log.create(log_partition)
            log.flush()
            flusher = self.flushers[index] = Flusher(log, loop, threaded=False)
            loader = Loader(log, flusher, Snapshots(log), loop)
            self.runtime.assign(index, loader.store(log_partition))
        loading = [self.runtime.shards[index] for index in shards]
        while any(each.phase is not Phase.ACTIVE for each in loading):  # noqa: ASYNC110
            await asyncio.sleep(0)

    def groups(self) -> list[str]:
        """Return a group of each shard."""
        names = [f"g{at}" for at in range(100)]
        of_shard = {self.broker.shard_of(name): name for name in names}
        return [of_shard[index] for index in range(SHARDS)]

    def commit(self, group: str, offset: int) -> None:
        part = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        rows = [m.OffsetCommitRequestTopic(name="t", partitions=[part])]
        # A connection of its own, so that no later request waits for it.
        client = Client(self.broker.nodes[0], asyncio.get_running_loop())
        client.send(m.OffsetCommitRequest(group_id=group, topics=rows), 8)

    def fetch(self, *groups: str) -> None:
        rows = [
            m.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups
        ]
        self.client.send(m.OffsetFetchRequest(groups=rows), FETCH_VERSION)

    def response(self) -> m.OffsetFetchResponse | None:
        """Return the response to the last fetch, if it was sent."""
        self.client.connection._write()
        written = self.client.transport.written
        if not written:
            return None
        return decode(m.OffsetFetchResponse, FETCH_VERSION, written, _HEADER_BYTES)[0]

    def fetched(self) -> list[int]:
        response = self.response()
        assert response is not None
        assert not any(group.error_code for group in response.groups)
        return [
            part.committed_offset
            for group in response.groups
            for topic in group.topics
            for part in topic.partitions
        ]


def run(test: Callable[[Server], Awaitable[None]]) -> None:
    async def running() -> None:
        server = Server()
        await test(server)
        server.runtime.stop()

    asyncio.run(running())


def test_a_group_of_an_unassigned_shard_is_coordinated_elsewhere() -> None:
    async def test(server: Server) -> None:
        await server.assign(0)
        own, other, *_ = server.groups()
        server.fetch(own, other)
        response = server.response()
        assert response is not None
        codes = [group.error_code for group in response.groups]
        assert codes == [0, ErrorCode.NOT_COORDINATOR]

    run(test)


@pytest.mark.parametrize("flushed_first", [0, 1])
def test_a_fetch_waits_for_the_writes_of_each_shard_it_reads(
    flushed_first: int,
) -> None:
    async def test(server: Server) -> None:
        await server.assign(0, 1, 2)
        first, second, third, _ = server.groups()
        for group in (first, second):
            server.commit(group, 7)
        server.fetch(first, second, third)
        server.flushers[flushed_first].flush()
        assert server.response() is None, "the other group's commit is not durable"
        server.flushers[1 - flushed_first].flush()
        assert server.fetched() == [7, 7]

    run(test)


def test_a_fetch_does_not_wait_for_other_shards() -> None:
    async def test(server: Server) -> None:
        await server.assign(0, 1)
        first, second, *_ = server.groups()
        server.commit(first, 7)
        server.flushers[0].flush()
        server.commit(second, 8)
        server.fetch(first)
        assert server.fetched() == [7]

    run(test)


def test_a_stored_fetch_is_not_sent_after_the_lease() -> None:
    async def test(server: Server) -> None:
        held = True
        server.runtime.lease = lambda: held
        await server.assign(0)
        group, *_ = server.groups()
        server.commit(group, 7)
        server.flushers[0].flush()
        for _ in range(2):
            server.fetch(group)
            assert server.fetched() == [7]
        held = False
        server.fetch(group)
        response = server.response()
        assert response is not None
        assert response.groups[0].error_code == ErrorCode.NOT_COORDINATOR

    run(test)


def test_a_stored_fetch_is_not_sent_after_a_release() -> None:
    async def test(server: Server) -> None:
        await server.assign(0)
        group, *_ = server.groups()
        server.commit(group, 7)
        server.flushers[0].flush()
        server.fetch(group)
        assert server.fetched() == [7]
        server.runtime.release(0)
        server.fetch(group)
        response = server.response()
        assert response is not None
        assert response.groups[0].error_code == ErrorCode.NOT_COORDINATOR

    run(test)
