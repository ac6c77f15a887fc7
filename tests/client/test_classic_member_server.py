"""Members of a classic group on a server, over sockets.

COTERIE_TEST_BOOTSTRAP=HOST:PORT selects another broker, such as Apache Kafka.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import pytest

from coterie.client import AdminClient, ClassicMember, CommitRefused, JoinedMember
from coterie.client.classic_session import Effect
from coterie.client.notifier import Notifier
from coterie.client.options import ClientOptions
from coterie.errors import ApiError, ClientError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer, WireClient

pytestmark = pytest.mark.asyncio

WAIT_S = 60
OPTIONS = ClientOptions(retry_backoff_ms=10, retry_backoff_max_ms=50)
BRIEF_MS = 6_000
"""The shortest session time-out that brokers accept by default."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if elsewhere := os.environ.get("COTERIE_TEST_BOOTSTRAP"):
        yield elsewhere
        return
    with ThreadServer(group_initial_rebalance_delay_ms=0) as server:
        yield "{}:{}".format(*server.addresses[0])


class Member:
    """A member with recorded callbacks. It is the job of number N if its metadata is
    the N-th of all."""

    def __init__(self, address: str, group_id: str, name: str, **options: Any) -> None:
        self.name = name
        self.entries: list[Any] = []
        self.sent_s: list[float] = []
        self.assigned_by: list[tuple[str, list[JoinedMember]]] = []
        self._notifier = Notifier()
        given: dict[str, Any] = {
            "protocol_type": "jobs",
            "protocols": {"even": name.encode()},
            "heartbeat_interval_ms": 20,
            "client": OPTIONS,
            **options,
        }
        self.member = ClassicMember(
            address,
            group_id=group_id,
            assign=self._assign,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            on_heartbeat=self._heartbeat,
            **given,
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            await self._notifier.wait_until(is_so)

    async def assigned(self, jobs: str) -> None:
        """Wait until the last callback assigned these jobs."""
        await self.until(lambda: self.entries[-1:] == [jobs])

    async def _assign(
        self, protocol: str, members: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        self.assigned_by.append((protocol, list(members)))
        ordered = sorted(members, key=lambda each: each.metadata)
        return {
            each.member_id: b"%s: %d of %d" % (each.metadata, number, len(members))
            for number, each in enumerate(ordered)
        }

    async def _assigned(self, assignment: bytes, generation: int) -> None:
        assert generation == self.member.generation
        self._add(assignment.decode())

    async def _revoked(self) -> None:
        self._add("revoked")

    async def _lost(self) -> None:
        self._add("lost")

    def _heartbeat(self, sent_s: float) -> None:
        self.sent_s.append(sent_s)
        self._notifier.notify()

    def _add(self, entry: str) -> None:
        self.entries.append(entry)
        self._notifier.notify()


@pytest.fixture
def group() -> str:
    return f"classic-{uuid4().hex[:8]}"


async def test_members_divide_the_jobs_until_they_leave(
    address: str, group: str
) -> None:
    one, two = Member(address, group, "a"), Member(address, group, "b")
    async with one.member:
        assert one.entries == ["a: 0 of 1"]
        assert one.member.is_leader
        assert one.member.assignment_data == b"a: 0 of 1"
        async with two.member:
            assert two.entries == ["b: 1 of 2"]
            assert not two.member.is_leader
            await one.assigned("a: 0 of 2")
            assert one.member.generation == two.member.generation
        assert two.entries[1:] == ["revoked"]
        await one.assigned("a: 0 of 1")
    assert one.entries == [
        "a: 0 of 1",
        "revoked",
        "a: 0 of 2",
        "revoked",
        "a: 0 of 1",
        "revoked",
    ]
    assert (one.member.generation, one.member.assignment_data) == (-1, None)
    assert [protocol for protocol, _ in one.assigned_by] == ["even"] * 3


async def test_a_cooperative_member_keeps_its_assignment_during_a_rebalance(
    address: str, group: str
) -> None:
    one = Member(address, group, "a", cooperative=True)
    async with one.member:
        async with Member(address, group, "b").member:
            await one.assigned("a: 0 of 2")
        await one.assigned("a: 0 of 1")
    assert one.entries == ["a: 0 of 1", "a: 0 of 2", "a: 0 of 1", "revoked"]


async def test_the_leader_gets_the_metadata_of_the_common_protocol(
    address: str, group: str
) -> None:
    one = Member(address, group, "a", protocols={"new": b"a2", "old": b"a1"})
    two = Member(address, group, "b", protocols={"old": b"b1"})
    async with one.member, two.member:
        await one.assigned("a1: 0 of 2")
        protocol, members = one.assigned_by[-1]
        assert protocol == "old"
        assert sorted(each.metadata for each in members) == [b"a1", b"b1"]


async def test_a_member_rejoins_with_new_metadata(address: str, group: str) -> None:
    counter = iter(range(100))
    one = Member(
        address, group, "a", protocols=lambda: {"even": b"a%d" % next(counter)}
    )
    async with one.member:
        await one.assigned("a0: 0 of 1")
        one.member.rejoin("the metadata has changed")
        await one.until(lambda: len(one.entries) == 3)
        assert one.entries[1] == "revoked"


async def test_heartbeats_keep_a_session_but_no_lease_while_a_rebalance_is_delayed(
    address: str, group: str
) -> None:
    slow = asyncio.Event()
    # A dynamic member is removed at the end of the rebalance time-out.
    one = Member(address, group, "a", instance_id="i-a")
    two = Member(address, group, "b")
    one.member._on_revoked = slow.wait  # type: ignore[assignment]
    session = one.member._session
    answered, ends_s = session.heartbeat_answered, list[float]()

    def observe(*arguments: Any, was_synced: bool) -> Effect:
        effect = answered(*arguments, was_synced=was_synced)
        if session.is_rebalancing and session.ends_s is not None:
            ends_s.append(session.ends_s)
            one._notifier.notify()
        return effect

    session.heartbeat_answered = observe  # type: ignore[method-assign, assignment]
    async with one.member:
        async with asyncio.TaskGroup() as tasks:
            joining = tasks.create_task(two.member.start())
            try:
                await one.until(lambda: len(ends_s) > 0)
                before = len(one.sent_s)
                await one.until(lambda: len(ends_s) > 3)
                assert not joining.done()
                assert len(one.sent_s) == before
            finally:
                slow.set()
        assert ends_s == sorted(set(ends_s))
        await two.member.leave()


async def test_a_member_that_expects_a_rebalance_notices_it_soon(
    address: str, group: str
) -> None:
    rare = {"session_timeout_ms": 300_000, "heartbeat_interval_ms": 200_000}
    one, two = Member(address, group, "a", **rare), Member(address, group, "b")
    async with one.member:
        await one.assigned("a: 0 of 1")
        one.member.expect_rebalance(WAIT_S)
        async with two.member:
            await one.assigned("a: 0 of 2")
            one.member.expect_rebalance(WAIT_S)
        await one.assigned("a: 0 of 1")


async def test_a_static_member_that_returns_causes_no_rebalance(
    address: str, group: str
) -> None:
    one = Member(address, group, "a", instance_id="i-a")
    two = Member(address, group, "b", instance_id="i-b")
    async with one.member:
        await two.member.start()
        await one.assigned("a: 0 of 2")
        generation = one.member.generation
        await two.member.leave()
        again = Member(address, group, "b", instance_id="i-b")
        async with again.member:
            assert again.entries == ["b: 1 of 2"]
            assert again.member.generation == generation
            assert again.member.member_id != two.member.member_id
            await again.member.leave(for_good=True, reason="the node is drained")
        await one.assigned("a: 0 of 1")


async def test_the_older_of_two_members_with_one_instance_id_ends(
    address: str, group: str
) -> None:
    one = Member(address, group, "a", instance_id="i")
    await one.member.start()
    async with Member(address, group, "a", instance_id="i").member as second:
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(ApiError) as raised:
                await one.member.ended()
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID
        assert one.entries[-1] == "lost"
        assert second.assignment_data == b"a: 0 of 1"
        with pytest.raises(ApiError):
            await one.member.leave()


async def test_a_removed_member_loses_its_assignment_and_joins_again(
    address: str, group: str
) -> None:
    one = Member(address, group, "a", cooperative=True)
    async with one.member, AdminClient(address) as admin:
        first_id = one.member.member_id
        await admin.groups.remove_members(group)
        await one.until(lambda: len(one.entries) == 3)
        assert one.entries == ["a: 0 of 1", "lost", "a: 0 of 1"]
        assert one.member.member_id != first_id


async def test_only_members_commit(address: str, group: str) -> None:
    host, _, port = address.rpartition(":")
    topic = m.CreatableTopic(name=group, num_partitions=1, replication_factor=1)
    with WireClient(host, int(port)) as client:
        client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    partition, other = TopicPartition(group, 0), TopicPartition(group, 1)
    one = Member(address, group, "a")
    async with one.member as member:
        await member.commit({partition: 7})
        found = await member.committed([partition, other])
        assert {key: value and value.offset for key, value in found.items()} == {
            partition: 7,
            other: None,
        }
        member._session.generation += 1
        with pytest.raises(CommitRefused, match="ILLEGAL_GENERATION"):
            await member.commit({partition: 8})
        member._session.generation -= 1
    with pytest.raises(ApiError, match="is not in group"):
        await member.commit({partition: 8})


async def test_a_member_with_another_protocol_type_is_rejected(
    address: str, group: str
) -> None:
    async with Member(address, group, "a").member:
        other = Member(address, group, "b", protocol_type="other")
        with pytest.raises(ApiError, match="INCONSISTENT_GROUP_PROTOCOL"):
            await other.member.start()


async def test_a_callback_cannot_leave_and_its_error_ends_the_membership(
    address: str, group: str
) -> None:
    one = Member(address, group, "a")

    async def leave(assignment: bytes, generation: int) -> None:
        await one.member.leave()

    one.member._on_assigned = leave
    with pytest.raises(ClientError, match="a callback cannot wait"):
        await one.member.start()
    assert one.entries == ["revoked"]
