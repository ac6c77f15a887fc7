"""A response from the path of OffsetFetch equals the response of full handling."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from coterie.auth.acl import (
    WILDCARD_PRINCIPAL,
    AclBinding,
    Operation,
    PermissionType,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.coordinator.offsets.committed import CommittedOffset
from coterie.broker.runtime.shards import DrivenShard, Phase
from coterie.broker.server import offset_fetch_path
from coterie.broker.server.call import Call
from coterie.broker.server.offset_fetch_path import OffsetFetchPath
from coterie.errors import LogCorrupt
from coterie.wire.codec import encode
from coterie.wire.framing import RequestHeaderV0, write_request
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.delete_topics import DeleteTopicsRequest
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.wire.schema import Message
from tests.broker.runtime.test_quotas import configure
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
        topic = CreatableTopic(
            name=name, num_partitions=PARTITIONS, replication_factor=1
        )
        self.send(CreateTopicsRequest(topics=[topic]), 5)
        self.flush()

    def commit(
        self, group: str = "g", topic: str = "t", index: int = 0, offset: int = 7
    ) -> None:
        committed = OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_metadata="m" * (offset % 200),
        )
        rows = [OffsetCommitRequestTopic(name=topic, partitions=[committed])]
        self.send(OffsetCommitRequest(group_id=group, topics=rows), 9)

    def commit_by_id(self, group: str, topic: str, index: int) -> None:
        topic_id = self.broker.catalog.topic_id(topic)
        if topic_id is not None:
            committed = OffsetCommitRequestPartition(partition_index=index)
            rows = [OffsetCommitRequestTopic(topic_id=topic_id, partitions=[committed])]
            self.send(OffsetCommitRequest(group_id=group, topics=rows), BY_ID)

    def delete(self, group: str, topic: str, index: int) -> None:
        part = OffsetDeleteRequestPartition(partition_index=index)
        rows = [OffsetDeleteRequestTopic(name=topic, partitions=[part])]
        self.send(OffsetDeleteRequest(group_id=group, topics=rows), 0)

    def begin(self, group: str, topic: str, index: int, producer_id: int = 5) -> None:
        """Add an offset to an open transaction."""
        part = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=99, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
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
            self.world.assembly._loader.run_slice()
            self.flush()

    def fetch(self, request: OffsetFetchRequest, version: int = 8) -> bytes:
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
) -> OffsetFetchRequest:
    """Return a request for the same partitions of each topic, in each group."""
    rows = None
    if topics is not None:
        rows = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes))
            for name in topics
        ]
        rows += [
            OffsetFetchRequestTopics(topic_id=each, partition_indexes=list(indexes))
            for each in ids
        ]
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                member_id=member[0],
                member_epoch=member[1],
                topics=rows,
            )
            for group in groups
        ],
        require_stable=stable,
    )


@contextmanager
def answers_of(world: Compared, *expected: bool) -> Iterator[None]:
    """Check which of the requests inside the path responds to."""
    world.answers.clear()
    yield
    assert world.answers == [*expected]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_the_path_responds_to_first_and_repeated_requests(version: int) -> None:
    def test(world: Compared) -> None:
        world.commit(index=1)
        world.commit(topic="u")
        world.flush()
        ids = [world.broker.catalog.topic_id(name) or b"" for name in ("u", "t")]
        named = {"topics": (), "ids": ids} if version == BY_ID else {"topics": "ut"}
        request = fetch_of("g", "unknown", indexes=(1, 0, 3), **named)
        with answers_of(world, True, True, True):
            first = world.fetch(request, version)
            assert first == world.fetch(request, version)
            world.fetch(fetch_of("g", topics=None), version)
        counted = world.broker.counts.requests[9, version]
        assert counted == 6  # those of the other connection, too

    compared(test)


def test_each_change_of_an_offset_is_in_the_next_response() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        request = fetch_of("g")
        seen = [world.fetch(request)]
        for change in (
            lambda: world.commit(offset=8),
            lambda: world.delete("g", "t", 0),
            lambda: world.commit(offset=9),
        ):
            change()
            world.flush()
            with answers_of(world, True, True):
                seen += {world.fetch(request), world.fetch(request)}
        assert len(seen) == len({*seen}) == 4

    compared(test)


def test_an_offset_is_sent_once_it_is_durable() -> None:
    def test(world: Compared) -> None:
        world.commit(group="other")
        world.flush()
        requests = fetch_of("g"), fetch_of("other")
        for request in requests:
            world.fetch(request)
        world.commit()
        with answers_of(world, False):
            assert not world.world.fast.send(requests[0], 8)
        world.flush()
        world.commit()
        # The offsets of another group of the shard have not changed.
        with answers_of(world, True):
            world.fetch(requests[1])
        with answers_of(world, True):
            world.fetch(requests[0])

    compared(test)


def test_an_unstable_offset_is_reported_if_required() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        stable, any_offset = fetch_of("g", stable=True), fetch_of("g")
        before = world.fetch(stable)
        assert before == world.fetch(any_offset)
        world.begin("g", "t", 0)
        world.flush()
        with answers_of(world, False, True):
            assert world.fetch(stable) != before
            assert world.fetch(any_offset) == before
        world.end(commit=True)
        world.flush()
        with answers_of(world, True, True):
            assert world.fetch(stable) == world.fetch(any_offset) != before

    compared(test)


def test_a_refusal_is_handled_in_full() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        requests = fetch_of("g", topics="tu"), fetch_of("g", topics=None)
        before = [world.fetch(request) for request in requests]
        for resource in (
            (ResourceType.TOPIC, "t"),
            (ResourceType.GROUP, "g"),
        ):
            world.deny(*resource, remove=False)
            with answers_of(world, False, False):
                assert before != [world.fetch(request) for request in requests]
            refused = world.broker.counts.authorization_refusals
            assert refused[resource[0], Operation.DESCRIBE] == 4
            world.deny(*resource, remove=True)
            with answers_of(world, True, True):
                assert before == [world.fetch(request) for request in requests]

    compared(test)


def test_the_member_and_its_epoch_are_checked() -> None:
    def test(world: Compared) -> None:
        world.commit("c")
        world.world.consumer_join("m", "c")
        right = fetch_of("c", member=("m", 1))
        with answers_of(world, True, True, False, False):
            assert world.fetch(right, 9) == world.fetch(fetch_of("c"), 9)
            world.fetch(fetch_of("c", member=("m", 7)), 9)
            world.fetch(fetch_of("c", member=("n", 1)), 9)
        world.world.consumer_heartbeat("m", -1)  # the member leaves
        with answers_of(world, False):
            world.fetch(right, 9)

    compared(test)


def test_a_topic_that_was_created_again_has_no_offsets() -> None:
    def test(world: Compared) -> None:
        world.commit_by_id("g", "t", 0)
        world.commit()
        world.flush()

        def by_id() -> OffsetFetchRequest:
            topic_id = world.broker.catalog.topic_id("t") or b""
            return fetch_of("g", topics=(), ids=[topic_id])

        old = by_id()
        world.fetch(old, BY_ID)
        world.send(DeleteTopicsRequest(topic_names=["t"]), 1)
        world.flush()
        with answers_of(world, False):
            world.fetch(old, BY_ID)
        world.create("t")
        with answers_of(world, False, True):
            world.fetch(old, BY_ID)
            world.fetch(by_id(), BY_ID)

    compared(test)


def test_an_offset_of_an_older_topic_is_not_returned_by_id() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        topic_id = world.broker.catalog.topic_id("t") or b""
        request = fetch_of("g", topics=(), ids=[topic_id], indexes=(0, 1))
        with answers_of(world, True):
            before = world.fetch(request, BY_ID)
        older = CommittedOffset(7, -1, "", 0, topic_id=bytes(range(16)))
        world.driven.shard.state.offsets.stored.put("g", "t", 0, older)
        with answers_of(world, False):
            assert world.fetch(request, BY_ID) != before

    compared(test)


def test_equal_bytes_of_two_versions_have_their_own_responses() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        every = fetch_of("g", topics=None)
        with answers_of(world, True, True, True):
            by_name = world.fetch(every, 9)
            assert world.fetch(every, BY_ID) != by_name
            assert world.fetch(every, 9) == by_name

    compared(test)


def test_client_quotas_apply_to_every_fetch() -> None:
    def test(world: Compared) -> None:
        world.fetch(fetch_of("g"))
        quotas = world.broker.catalog.client_quotas
        configure(quotas, {"client-id": "me"}, request_percentage=50.0)
        with answers_of(world, False):
            world.world.fast.send(fetch_of("g"), 8)

    compared(test)


def test_an_unreadable_snapshot_is_reported_by_full_handling() -> None:
    def test(world: Compared) -> None:
        def damaged() -> None:
            raise LogCorrupt("damaged")

        state = world.driven.shard.state
        state.ensure_group("g")
        state.offsets.stored._loaders["g"] = damaged  # type: ignore[assignment]
        with answers_of(world, False):
            world.fetch(fetch_of("g"))

    compared(test)


def test_malformed_and_uncommon_requests_are_handled_in_full() -> None:
    def test(world: Compared) -> None:
        world.commit()
        path = OffsetFetchPath(
            world.broker.nodes[0],
            world.world.fast.connection,
            world.world.fast.connection._connections.fetches,
        )
        request = fetch_of("g", "other", indexes=range(130))
        front = RequestHeaderV0(9, 9, 1)
        frame = write_request(front, "me", encode(request, 9), flexible=True)[4:]
        world.flush()
        assert path.respond(frame)
        for size in range(8, len(frame), 3):
            assert path.respond(frame[:size]) is None
        assert path.respond(frame + b"\0") is None
        dice = random.Random(1)
        for _ in range(400):
            changed = bytearray(frame)
            changed[dice.randrange(len(frame))] = dice.randrange(256)
            path.respond(bytes(changed))  # raises nothing

    compared(test)


def test_the_stored_responses_have_a_limited_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offset_fetch_path, "STORED_BYTES_MAX", 30_000)

    def test(world: Compared) -> None:
        stored = world.world.fast.connection._connections.fetches
        sizes = []
        for index in range(100):
            world.fetch(fetch_of("g", indexes=range(index)))
            sizes.append(len(stored.by_request))
            content = sum(
                1_000 + len(request) + len(each.tail)
                for request, each in stored.by_request.items()
            )
            assert content == stored._bytes <= 30_000
        assert 1 < max(sizes) < 30

    compared(test)


def test_a_large_response_is_not_stored() -> None:
    def test(world: Compared) -> None:
        for index in range(PARTITIONS):
            world.commit(index=index, offset=199)
        world.flush()
        indexes = [*range(PARTITIONS)] * 100
        stored = world.world.fast.connection._connections.fetches
        with answers_of(world, True, True):
            world.fetch(fetch_of("g", indexes=indexes[:8]))
            world.fetch(fetch_of("g", indexes=indexes))
        assert len(stored.by_request) == 1

    compared(test)


def random_request(
    dice: random.Random, world: Compared
) -> tuple[OffsetFetchRequest, int]:
    version = dice.choice([*range(1, 11), 8, 9, 9, 10])
    topics = dice.choices(TOPICS, k=dice.randrange(4))
    indexes = dice.choices(range(PARTITIONS + 1), k=dice.randrange(6))
    if version < 8:
        rows = [
            OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name in topics
        ]
        old = OffsetFetchRequest(
            group_id=dice.choice(GROUPS),
            topics=None if version > 1 and dice.random() < 0.2 else rows,
            require_stable=version == 7 and dice.random() < 0.5,
        )
        return old, version
    ids = []
    if version == BY_ID:
        found = (world.broker.catalog.topic_id(name) for name in topics)
        ids = [each or bytes(range(16)) for each in found]
    request = fetch_of(
        *dice.choices(GROUPS, k=dice.randrange(4)),
        topics=None if dice.random() < 0.2 else () if version == BY_ID else topics,
        ids=ids,
        indexes=indexes,
        stable=dice.random() < 0.5,
        member=dice.choice([(None, -1)] * 3 + [("m", 1), ("m", 2)]),
    )
    return request, version


def change(dice: random.Random, world: Compared) -> None:
    """Make a random change."""
    name = dice.choice(GROUPS[:-1]), dice.choice(TOPICS), dice.randrange(PARTITIONS)
    producer = dice.choice([5, 6])
    resource = dice.choice([(ResourceType.GROUP, "g"), (ResourceType.TOPIC, "t")])
    steps: list[tuple[int, Callable[[], None]]] = [
        (12, lambda: world.commit(*name, dice.randrange(1_000))),
        (3, lambda: world.commit_by_id(*name)),
        (4, lambda: world.delete(*name)),
        (6, lambda: world.begin(*name, producer)),
        (5, lambda: world.end(commit=dice.random() < 0.5, producer_id=producer)),
        (2, lambda: world.world.consumer_join("m", "c")),
        (2, lambda: world.deny(*resource, remove=False)),
        (6, lambda: world.deny(*resource, remove=True)),
        (1, lambda: world.send(DeleteGroupsRequest(groups_names=[name[0]]), 1)),
        (1, lambda: world.send(DeleteTopicsRequest(topic_names=[name[1]]), 1)),
        (3, lambda: world.create(name[1])),
        (1, world.reload),
        (12, world.flush),
    ]
    weights = [weight for weight, _ in steps]
    dice.choices([step for _, step in steps], weights)[0]()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_path_and_full_handling_agree_in_random_runs(seed: int) -> None:
    def test(world: Compared) -> None:
        dice = random.Random(seed)
        requests = [random_request(dice, world) for _ in range(20)]
        for _ in range(250):
            change(dice, world)
            if dice.random() < 0.1:
                requests[dice.randrange(20)] = random_request(dice, world)
            for request, version in dice.choices(requests, k=4):
                world.fetch(request, version)
        assert world.answers.count(True) > 50
        assert world.answers.count(False) > 50

    compared(test)
