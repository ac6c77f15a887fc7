"""Send OffsetFetch requests with and without their path, and compare the responses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

from coterie.auth.acl import (
    WILDCARD_PRINCIPAL,
    AclBinding,
    Operation,
    PermissionType,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.runtime.shards import DrivenShard, Phase
from coterie.broker.server.call import Call
from coterie.wire import messages as m
from coterie.wire.schema import Message
from tests.broker.server.test_heartbeat_memo import Client, World

GROUPS = ("g", "c", "other", "unknown")
TOPICS = ("t", "u", "long-" * 30, "missing")
PARTITIONS = 4
BY_ID = 10


class Compared:
    """A world, and the requests sent on a connection with the path and on one without.

    `answers` has for each request whether the path responded.
    """

    def __init__(self, world: World, authorizer: AclAuthorizer) -> None:
        self.world = world
        self.authorizer = authorizer
        self.broker = world.assembly.broker
        self.answers: list[bool] = []
        world.slow.connection._connection.fetch_path = None
        self._observe(world.fast)
        for name in TOPICS[:-1]:
            self.create(name)

    def _observe(self, client: Client) -> None:
        connection = client.connection._connection
        respond = connection.fetch_path
        assert respond is not None

        def observed(frame: bytes) -> bytes | None:
            response = respond(frame)
            self.answers.append(response is not None)
            return response

        connection.fetch_path = observed

    @property
    def driven(self) -> DrivenShard:
        return self.broker.runtime.shards[0]

    def send(self, request: Message, version: int) -> None:
        """Send a request on a connection of its own, so that it waits for no other."""
        loop = asyncio.get_running_loop()
        Client(self.broker.nodes[0], loop).send(request, version)

    def flush(self) -> None:
        self.broker.flusher.flush()

    def create(self, name: str) -> None:
        topic = m.CreatableTopic(
            name=name, num_partitions=PARTITIONS, replication_factor=1
        )
        self.send(m.CreateTopicsRequest(topics=[topic]), 5)
        self.flush()

    def commit(
        self, group: str = "g", topic: str = "t", index: int = 0, offset: int = 7
    ) -> None:
        committed = m.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_metadata="m" * (offset % 200),
        )
        rows = [m.OffsetCommitRequestTopic(name=topic, partitions=[committed])]
        self.send(m.OffsetCommitRequest(group_id=group, topics=rows), 9)

    def commit_by_id(self, group: str, topic: str, index: int) -> None:
        topic_id = self.broker.catalog.topic_id(topic)
        if topic_id is not None:
            committed = m.OffsetCommitRequestPartition(partition_index=index)
            rows = [
                m.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[committed])
            ]
            self.send(m.OffsetCommitRequest(group_id=group, topics=rows), BY_ID)

    def delete(self, group: str, topic: str, index: int) -> None:
        part = m.OffsetDeleteRequestPartition(partition_index=index)
        rows = [m.OffsetDeleteRequestTopic(name=topic, partitions=[part])]
        self.send(m.OffsetDeleteRequest(group_id=group, topics=rows), 0)

    def begin(self, group: str, topic: str, index: int, producer_id: int = 5) -> None:
        """Add an offset to an open transaction."""
        part = m.TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=99, committed_metadata=""
        )
        request = m.TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            topics=[m.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        caller = Call(request, 3, "me", self.world.slow.connection, None)
        self.broker.runtime.submit(0, request, caller, lambda _: None)

    def end(self, *, commit: bool, producer_id: int = 5) -> None:
        self.broker.runtime.end_transaction(0, producer_id, 0, commit)

    def deny(self, resource_type: ResourceType, name: str, *, remove: bool) -> None:
        acl = AclBinding(
            WILDCARD_PRINCIPAL,
            PermissionType.DENY,
            Operation.DESCRIBE,
            resource_type,
            name,
        )
        if remove != (acl in self.authorizer):
            return
        self.authorizer.replay(acl.key, None if remove else acl.to_value())

    def reload(self) -> None:
        """Stop the shard and load it from the log again."""
        self.flush()
        runtime = self.broker.runtime
        runtime._stop(self.driven)
        self.fetch(fetch_of("g"))
        runtime._reload(self.driven)
        self.fetch(fetch_of("g"))
        while self.driven.phase is not Phase.ACTIVE:
            self.world.assembly._loader.slices.run()
            self.flush()

    def fetch(self, request: m.OffsetFetchRequest, version: int = 8) -> bytes:
        """Send a fetch on both connections, compare the responses and return one."""
        fast, slow = self.world.fast, self.world.slow
        for client in (slow, fast):
            client.send(request, version)
        self.flush()
        for client in (slow, fast):
            client.connection._write()
        written = fast.transport.written
        assert written
        assert len(written) == int.from_bytes(written[:4]) + 4
        assert written[:4] == slow.transport.written[:4]
        assert written[8:] == slow.transport.written[8:]
        return written[8:]


def compared(test: Callable[[Compared], None]) -> None:
    async def run() -> None:
        authorizer = AclAuthorizer(allow_everyone_if_no_acl_found=True)
        world = World(authorizer)
        test(Compared(world, authorizer))
        world.assembly.stop()

    asyncio.run(run())


def fetch_of(
    *groups: str,
    topics: Sequence[str] | None = ("t",),
    indexes: Sequence[int] = (0,),
    ids: Sequence[bytes] = (),
    stable: bool = False,
    member: tuple[str | None, int] = (None, -1),
) -> m.OffsetFetchRequest:
    """Return a request for the same partitions of each topic, in each group."""
    rows = None
    if topics is not None:
        rows = [
            m.OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes))
            for name in topics
        ]
        rows += [
            m.OffsetFetchRequestTopics(topic_id=each, partition_indexes=list(indexes))
            for each in ids
        ]
    return m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequestGroup(
                group_id=group,
                member_id=member[0],
                member_epoch=member[1],
                topics=rows,
            )
            for group in groups
        ],
        require_stable=stable,
    )


@contextlib.contextmanager
def answers_of(world: Compared, *expected: bool) -> Iterator[None]:
    """Check which of the requests inside the path responds to."""
    world.answers.clear()
    yield
    assert world.answers == [*expected]
