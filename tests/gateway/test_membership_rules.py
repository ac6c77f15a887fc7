"""The rules of a node's membership, with a member whose responses the test sends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.broker.server.config import make_settings
from coterie.errors import ApiError
from coterie.gateway import membership
from coterie.gateway.membership import MembershipEvents, NodeMembership
from coterie.gateway.node_protocol import (
    PROTOCOL,
    NodeAssignment,
    read_metadata,
    write_assignment,
)
from coterie.gateway.options import GatewayOptions
from coterie.gateway.view import NodeInfo, View
from coterie.wire.error_codes import ErrorCode

pytestmark = pytest.mark.asyncio

OWN = NodeInfo(name="a", host="host", port=9092, broker_port=9093)
OTHER = NodeInfo(name="b", host="other", port=9092, broker_port=9093)
SESSION_MS = 9_000
NOW_MS = 99_000


class FakeMember:
    """A member of the group upstream."""

    def __init__(self, bootstrap: str, **given: Any) -> None:
        self.given = given
        self.generation = -1
        self.commits = 0
        self.may_commit = asyncio.Event()
        self.may_commit.set()
        self.refusal: ApiError | None = None
        self.rejoined: list[str] = []

    async def start(self) -> None: ...

    async def commit(self, offsets: Any) -> None:
        self.commits += 1
        await self.may_commit.wait()
        await asyncio.sleep(0)
        if self.refusal is not None:
            raise self.refusal

    def rejoin(self, reason: str) -> None:
        self.rejoined.append(reason)

    def expect_rebalance(self) -> None: ...

    async def leave(self, **_: Any) -> None: ...


class Node:
    """A node with recorded callbacks."""

    def __init__(self) -> None:
        self.leases: list[int] = []
        self.shards: frozenset[int] | None = None
        self.is_started = False
        plan = GatewayOptions(
            settings=make_settings({}),
            bootstrap="upstream",
            node=OWN.name,
            host="127.0.0.1",
            port=0,
            advertised_host=OWN.host,
            session_timeout_ms=SESSION_MS,
        )
        events = MembershipEvents(self._view, self.leases.append, self._lost, _nothing)
        self.membership = NodeMembership(plan, OWN, 2, events, lambda: NOW_MS)
        member: Any = self.membership._member
        self.member: FakeMember = member

    def _view(self, _: View, shards: frozenset[int]) -> None:
        self.shards = shards

    def _lost(self) -> None:
        self.shards = None

    async def assign(self, generation: int, owner: int = 0, **given: Any) -> None:
        if not self.is_started:
            self.is_started = True
            await self.membership.start()
        nodes = given.pop("nodes", (OWN, OTHER))
        view = View(nodes, (owner, owner), generation)
        data = write_assignment(NodeAssignment(view, **given))
        self.member.generation = generation
        await self.member.given["on_assigned"](data, generation)

    async def heartbeat(self, sent_ms: int) -> None:
        self.member.given["on_heartbeat"](sent_ms / 1_000)
        await turns()

    @property
    def claimed(self) -> list[int]:
        metadata = self.member.given["protocols"]()[PROTOCOL]
        return list(read_metadata(metadata).shards)


async def _nothing() -> None: ...


async def turns() -> None:
    """Let everything run that is ready."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(membership, "ClassicMember", FakeMember)
    return Node()


async def test_the_lease_counts_from_the_time_of_the_heartbeat(node: Node) -> None:
    await node.assign(1)
    await node.heartbeat(12_000)
    assert node.leases == [12_000]
    assert node.member.commits == 1, "once for each heartbeat"


async def test_a_refused_commit_does_not_renew_the_lease(node: Node) -> None:
    node.member.refusal = ApiError(ErrorCode.ILLEGAL_GENERATION)
    await node.assign(1)
    await node.heartbeat(12_000)
    assert (node.leases, node.member.commits) == ([], 1)


async def test_a_commit_of_an_earlier_generation_does_not_renew_the_lease(
    node: Node,
) -> None:
    await node.assign(1)
    node.member.may_commit.clear()
    await node.heartbeat(12_000)
    await node.assign(2)
    node.member.may_commit.set()
    await turns()
    assert (node.leases, node.member.commits) == ([], 1)


async def test_a_node_that_has_joined_the_next_generation_does_not_renew_its_lease(
    node: Node,
) -> None:
    await node.assign(1)
    node.member.generation = 2
    await node.heartbeat(12_000)
    assert node.member.commits == 0


async def test_an_assignment_that_cannot_be_read_releases_all_shards(
    node: Node,
) -> None:
    await node.assign(1)
    assert node.shards == {0, 1}
    await node.member.given["on_assigned"](b"?", 2)
    assert node.shards is None


async def test_a_removed_node_keeps_its_claim(node: Node) -> None:
    await node.assign(1)
    await node.member.given["on_lost"]()
    assert node.claimed == [0, 1]


async def test_a_node_whose_addresses_have_changed_joins_again_once(
    node: Node,
) -> None:
    old = NodeInfo(name="a", host="old", port=9092, broker_port=9093)
    await node.assign(1, nodes=(old, OTHER))
    await node.assign(2, nodes=(old, OTHER))
    assert node.member.rejoined == ["the addresses of the node have changed"]


async def test_a_node_that_released_shards_for_others_joins_again(node: Node) -> None:
    await node.assign(1, owner=1, has_to_release=True)
    assert node.member.rejoined == ["the node has released shards for other nodes"]


async def test_requests_of_the_membership_end_within_a_session(node: Node) -> None:
    options = node.member.given["client"]
    assert options.request_timeout_ms == SESSION_MS // 3
    assert options.api_timeout_ms == SESSION_MS
