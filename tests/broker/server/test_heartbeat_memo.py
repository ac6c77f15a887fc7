"""A response from the heartbeat memo equals the response of full handling."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coterie.auth.authorizer import Authorizer
from coterie.auth.sasl import no_credential
from coterie.broker.coordinator.consumer.group import ConsumerGroup, Refresh
from coterie.broker.coordinator.state import State
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.shards import Phase
from coterie.broker.server.assembly import Assembly
from coterie.broker.server.broker import Node
from coterie.broker.server.client_connection import ClientConnection
from coterie.broker.server.connections import Connections
from coterie.broker.server.dispatch import HANDLERS
from coterie.broker.server.heartbeat_memo import HeartbeatMemo
from coterie.broker.server.security import Security
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from coterie.wire.codec import encode
from coterie.wire.framing import RequestHeaderV0, write_request
from coterie.wire.schema import Message
from tests.broker.runtime.test_quotas import configure

SETTINGS = Settings(
    group_initial_rebalance_delay_ms=0,
    group_consumer_assignment_interval_ms=0,
    offsets_topic_num_partitions=1,
)
ROUNDS = 60
NO_TOPICS = bytes(6) + b"\xff" * 4
"""A subscription."""


class Transport(asyncio.Transport):
    """A transport that records the written bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        assert high

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        raise AssertionError("closed")


def no_security() -> Security:
    return Security(
        SecurityProtocol.PLAINTEXT, Settings(), no_credential, no_credential
    )


class Client:
    """A connection, and the bytes written to it."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        connections = Connections(SETTINGS, HANDLERS, no_security())
        self.connection = ClientConnection(node, connections, loop)
        self.transport = Transport()
        self.connection.connection_made(self.transport)
        self._correlation_id = 0

    def send(self, request: Message, version: int) -> bytes:
        """Send a request; return the bytes written in the same iteration."""
        self._correlation_id += 1
        self.connection._write()  # discard responses of earlier requests
        self.transport.written = b""
        front = RequestHeaderV0(request.API_KEY, version, self._correlation_id)
        flexible = version in request.FLEXIBLE
        body = encode(request, version)
        frame = write_request(front, "me", body, flexible=flexible)
        self.connection.data_received(frame)
        return self.transport.written


class World:
    """A broker in memory with two connections: one with the memo, one without."""

    def __init__(self, authorizer: Authorizer | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.assembly = Assembly(SETTINGS, MemoryLog(), authorizer=authorizer)
        broker = self.assembly.broker
        broker.nodes.append(Node(1, "localhost", 1, broker))
        self.assembly.start()
        while any(each.phase is not Phase.ACTIVE for each in broker.runtime.shards):
            self.assembly._loader.slices.run()  # several on a busy machine
            broker.flusher.flush()
        self.fast = Client(broker.nodes[0], loop)
        self.slow = Client(broker.nodes[0], loop)
        self.slow.connection._heartbeats.store = lambda *_: None  # type: ignore[method-assign]

    def create_topic(self) -> None:
        topic = m.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        self.slow.send(m.CreateTopicsRequest(topics=[topic]), 5)
        self.assembly.broker.flusher.flush()

    def join(self, members: list[str]) -> tuple[int, list[str]]:
        """Create a stable group of members; return generation and member ids."""
        ids = []
        for at, member in enumerate(members):
            self._join_one(member, at)
        self._settle()
        group = self.group
        for member_id in group.members:
            ids.append(member_id)
            self._sync(member_id)
        self._settle()
        return group.generation, ids

    @property
    def group(self) -> Any:
        return self.assembly.broker.runtime.shards[0].shard.state.classic_groups["g"]

    def heartbeat(self, generation: int, member_id: str, version: int) -> None:
        """Send the same heartbeat on both connections and compare the responses."""
        request = m.HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id
        )
        self.assembly.broker.flusher.flush()
        slow = self.slow.send(request, version)
        fast = self.fast.send(request, version)
        assert fast[:4] == slow[:4]
        assert fast[8:] == slow[8:]

    def consumer_heartbeat(self, member_id: str, epoch: int) -> None:
        """Send the same consumer group heartbeat on both connections and compare."""
        request = m.ConsumerGroupHeartbeatRequest(
            group_id="c", member_id=member_id, member_epoch=epoch
        )
        self.slow.send(request, 1)  # so that the compared heartbeats change nothing
        self.assembly.broker.flusher.flush()
        slow = self.slow.send(request, 1)
        fast = self.fast.send(request, 1)
        assert fast[:4] == slow[:4]
        assert fast[8:] == slow[8:]

    def consumer_join(self, member_id: str, group_id: str = "c") -> None:
        """Join a consumer group on the connection without memo."""
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        self.slow.send(request, 1)
        self.assembly.broker.flusher.flush()

    @property
    def consumer_group(self) -> ConsumerGroup:
        state: State = self.assembly.broker.runtime.shards[0].shard.state
        return state.consumer_groups["c"]

    def commit(self) -> None:
        """Commit an offset of another group in the same shard."""
        partition = m.OffsetCommitRequestPartition(committed_metadata="")
        topic = m.OffsetCommitRequestTopic(name="t", partitions=[partition])
        self.slow.send(m.OffsetCommitRequest(group_id="other", topics=[topic]), 8)

    def leave(self, member_id: str) -> None:
        """Leave the group; the response may wait for a flush."""
        self.slow.send(m.LeaveGroupRequest(group_id="g", member_id=member_id), 1)
        self.assembly.broker.flusher.flush()

    def _join_one(self, member: str, at: int) -> None:
        request = m.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[
                m.JoinGroupRequestProtocol(
                    name="range", metadata=NO_TOPICS + b"%d" % at
                )
            ],
        )
        client = Client(self.fast.connection.node, asyncio.get_running_loop())
        client.send(request, 2)

    def _sync(self, member_id: str) -> None:
        client = Client(self.fast.connection.node, asyncio.get_running_loop())
        generation = self.group.generation
        client.send(
            m.SyncGroupRequest(
                group_id="g", generation_id=generation, member_id=member_id
            ),
            2,
        )

    def _settle(self) -> None:
        """Fire due timers and flush."""
        broker = self.assembly.broker
        broker.runtime._timers.run_due()
        broker.flusher.flush()


@contextmanager
def counted_answers(client: Client) -> Iterator[list[bool]]:
    """Collect for each heartbeat whether the memo responded."""
    memo: HeartbeatMemo = client.connection._heartbeats
    responded: list[bool] = []
    original = memo.respond

    def answer(frame: bytes) -> bytes | None:
        found = original(frame)
        responded.append(found is not None)
        return found

    client.connection._connection._fast_path = answer
    yield responded


def in_a_world(
    test: Callable[[World], None], authorizer: Authorizer | None = None
) -> None:
    async def run() -> None:
        world = World(authorizer)
        test(world)
        world.assembly.stop()

    asyncio.run(run())


@pytest.mark.parametrize("version", range(5))
def test_the_response_to_a_repeated_heartbeat_is_from_the_memo(version: int) -> None:
    def test(world: World) -> None:
        generation, [member] = world.join([""])
        with counted_answers(world.fast) as answers:
            world.heartbeat(generation, member, version)
            world.heartbeat(generation, member, version)
        assert answers == [False, True]

    in_a_world(test)


def test_a_response_from_the_memo_renews_the_session() -> None:
    def test(world: World) -> None:
        generation, [member] = world.join([""])
        world.heartbeat(generation, member, 4)
        table = world.assembly.broker.runtime.shards[0].timers
        entry = table.entries["session", "g", member]
        entry.deadline_ms = 0
        with counted_answers(world.fast) as answers:
            request = m.HeartbeatRequest(
                group_id="g", generation_id=generation, member_id=member
            )
            world.fast.send(request, 4)
        assert answers == [True]
        assert entry.deadline_ms >= world.assembly.broker.clock() + 9_000

    in_a_world(test)


@pytest.mark.parametrize(("user", "from_memo"), [("ANONYMOUS", False), ("bob", True)])
def test_a_client_with_a_request_quota_gets_no_response_from_the_memo(
    user: str, from_memo: bool
) -> None:
    def test(world: World) -> None:
        generation, [member] = world.join([""])
        world.heartbeat(generation, member, 4)
        quotas = world.assembly.broker.catalog.client_quotas
        configure(quotas, {"user": user}, request_percentage=100.0)
        with counted_answers(world.fast) as answers:
            for _ in range(3):
                world.heartbeat(generation, member, 4)
        assert answers == [False, from_memo, from_memo]

    in_a_world(test)


def test_an_offset_commit_does_not_invalidate_the_memo() -> None:
    def test(world: World) -> None:
        generation, [member] = world.join([""])
        world.create_topic()
        world.heartbeat(generation, member, 4)
        world.commit()
        assert world.assembly.broker.log.has_staged()
        world.assembly.broker.flusher.flush()
        with counted_answers(world.fast) as answers:
            world.heartbeat(generation, member, 4)
        assert answers == [True]

    in_a_world(test)


def test_the_memo_is_filled_and_used_while_a_commit_is_not_durable() -> None:
    def test(world: World) -> None:
        generation, [member] = world.join([""])
        world.create_topic()
        world.commit()
        request = m.HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member
        )
        with counted_answers(world.fast) as answers:
            assert all(world.fast.send(request, 4) for _ in range(3))
        assert world.assembly.broker.log.has_staged()
        assert answers == [False, True, True]
        world.assembly.broker.flusher.flush()

    in_a_world(test)


def test_the_memo_is_not_used_while_a_write_of_a_group_is_not_durable() -> None:
    def test(world: World) -> None:
        generation, [member] = world.join([""])
        world.heartbeat(generation, member, 4)
        join = m.ConsumerGroupHeartbeatRequest(
            group_id="other",
            member_id="m",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert world.slow.send(join, 1) == b""
        assert world.assembly.broker.log.has_staged()
        with counted_answers(world.fast) as answers:
            request = m.HeartbeatRequest(
                group_id="g", generation_id=generation, member_id=member
            )
            assert world.fast.send(request, 4) == b""
        assert answers == [False]
        world.assembly.broker.flusher.flush()

    in_a_world(test)


@pytest.mark.fact("E22-25")
def test_a_stable_member_of_a_consumer_group_gets_responses_from_the_memo() -> None:
    def test(world: World) -> None:
        world.consumer_join("m")
        with counted_answers(world.fast) as answers:
            for _ in range(3):
                world.consumer_heartbeat("m", 1)
            catalog = world.assembly.broker.catalog
            catalog.clear()
            change = {"consumer.heartbeat.interval.ms": "7000"}
            catalog.replay(catalog.group_configs.alter("c", change))
            world.consumer_heartbeat("m", 1)
            world.consumer_join("n")
            world.consumer_heartbeat("m", 1)
        assert answers == [False, True, True, False, False]

    in_a_world(test)


@pytest.mark.fact("E20-10", "E20-28")
def test_a_member_of_an_upgraded_group_gets_no_response_from_the_memo() -> None:
    def test(world: World) -> None:
        generation, (member_id, *_) = world.join(["", ""])
        with counted_answers(world.fast) as answers:
            for _ in range(2):
                world.heartbeat(generation, member_id, 4)
            world.consumer_join("m", "g")
            for _ in range(2):
                world.heartbeat(generation, member_id, 4)
        assert answers == [False, True, False, False]
        assert not world.assembly.broker.runtime.shards[0].shard.state.classic_groups

    in_a_world(test)


def test_the_memo_is_not_used_while_a_metadata_refresh_is_due() -> None:
    def test(world: World) -> None:
        world.consumer_join("m")
        world.consumer_heartbeat("m", 1)
        world.consumer_group.refresh = Refresh(0, 1)
        world.fast.connection._heartbeats._clock = lambda: 1 << 62
        with counted_answers(world.fast) as answers:
            world.consumer_heartbeat("m", 1)
        assert answers == [False]

    in_a_world(test)


@pytest.mark.parametrize("seed", range(5))
def test_memo_and_full_handling_agree_in_a_consumer_group(seed: int) -> None:
    def test(world: World) -> None:
        dice = random.Random(seed)
        world.create_topic()
        world.consumer_join("m0")
        joined = 1
        with counted_answers(world.fast) as answers:
            for _ in range(ROUNDS):
                step = dice.choice(["beat"] * 6 + ["join", "leave"])
                members = [*world.consumer_group.members]
                if step == "join":
                    world.consumer_join(f"m{joined}")
                    joined += 1
                elif step == "leave" and len(members) > 1:
                    world.consumer_heartbeat(dice.choice(members), -1)
                for known in dice.sample(members, min(3, len(members))):
                    member = world.consumer_group.members.get(known)
                    epoch = 1 if member is None else member.epoch
                    world.consumer_heartbeat(known, dice.choice([epoch] * 8 + [7]))
        assert any(answers)
        assert not all(answers)

    in_a_world(test)


@pytest.mark.parametrize("seed", range(5))
def test_memo_and_full_handling_agree_in_random_runs(seed: int) -> None:
    def test(world: World) -> None:
        dice = random.Random(seed)
        generation, ids = world.join(["", "", ""])
        old = [(generation, member) for member in ids]
        with counted_answers(world.fast) as answers:
            for _ in range(ROUNDS):
                step = dice.choice(["beat"] * 4 + ["leave", "join", "settle"])
                if step == "leave" and ids:
                    world.leave(ids.pop(dice.randrange(len(ids))))
                elif step == "join":
                    world._join_one("", 0)
                elif step == "settle":
                    generation, ids = world.join(list(world.group.members))
                    old += [(generation, member) for member in ids]
                for known in dice.sample(old, min(4, len(old))):
                    world.heartbeat(*known, version=4)
        assert any(answers)
        assert not all(answers)

    in_a_world(test)
