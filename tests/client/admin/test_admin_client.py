"""An admin client on a server of three nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.client import AdminClient
from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
from coterie.client.admin.groups import GroupState, GroupType
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer, WireClient
from tests.client.scripted_broker import OPTIONS

pytestmark = pytest.mark.asyncio

ORDERS = [TopicPartition("orders", number) for number in range(3)]
WITH_EPOCH = CommittedOffset(7, 0, "here")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadServer(node_count=3) as server:
        host, port = server.addresses[0]
        topic = m.CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
        with WireClient(host, port) as client:
            client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        yield f"{host}:{port}"


def admin(address: str) -> AdminClient:
    return AdminClient(address, OPTIONS)


async def test_describe_cluster_returns_the_brokers(address: str) -> None:
    async with admin(address) as client:
        cluster = await client.describe_cluster()
    assert cluster.cluster_id
    assert len(cluster.nodes) == 3
    assert address in {str(node) for node in cluster.nodes}
    assert cluster.controller_id in {node.node_id for node in cluster.nodes}


@pytest.mark.fact("B-28")
async def test_groups_are_described_by_their_coordinators(
    address: str,
) -> None:
    names = [f"spread {number}" for number in range(30)]
    async with admin(address) as client:
        for name in names:
            await client.alter_group_offsets(name, {ORDERS[0]: WITH_EPOCH})
        coordinators = (await client.find_coordinators(names)).all()
        described = (await client.describe_groups(names)).all()
        listed = (await client.list_groups()).groups
    assert len(set(coordinators.values())) == 3
    assert {name: each.coordinator for name, each in described.items()} == coordinators
    ids = {each.group_id: each.coordinator_id for each in listed}
    assert {name: node.node_id for name, node in coordinators.items()} == {
        name: ids[name] for name in names
    }


@pytest.mark.fact("A-64c")
async def test_an_outdated_coordinator_in_the_cache_is_replaced(address: str) -> None:
    async with admin(address) as client:
        await client.alter_group_offsets("moved", {ORDERS[0]: WITH_EPOCH})
        node = (await client.find_coordinators(["moved"])).one("moved")
        others = {each.node_id for each in (await client.describe_cluster()).nodes}
        for other in others - {node.node_id}:
            client._cluster._coordinators["moved"] = other
            described = await client.describe_groups(["moved"])
            assert described.one("moved").coordinator == node


@pytest.mark.fact("A-60", "A-62")
async def test_committed_offsets_of_a_group_are_fetched(address: str) -> None:
    async with admin(address) as client:
        done = await client.alter_group_offsets(
            "read back", {ORDERS[0]: WITH_EPOCH, ORDERS[1]: CommittedOffset(9)}
        )
        everything = await client.list_group_offsets("read back")
        named = await client.list_group_offsets("read back", ORDERS[1:])
    assert done.all() == dict.fromkeys(ORDERS[:2])
    assert everything == GroupOffsets(
        {ORDERS[0]: WITH_EPOCH, ORDERS[1]: CommittedOffset(9)}
    )
    assert named == GroupOffsets({ORDERS[1]: CommittedOffset(9), ORDERS[2]: None})


@pytest.mark.fact("E29-01")
async def test_a_group_is_listed_with_type_and_state(address: str) -> None:
    async with admin(address) as client:
        await client.alter_group_offsets("listed", {ORDERS[0]: WITH_EPOCH})
        listed = await client.list_groups(
            states=[GroupState.EMPTY], types=[GroupType.CLASSIC]
        )
        others = await client.list_groups(types=[GroupType.CONSUMER])
    (group,) = [each for each in listed.groups if each.group_id == "listed"]
    assert (group.type, group.state) == (GroupType.CLASSIC, GroupState.EMPTY)
    assert group.is_simple
    assert others.groups == ()


@pytest.mark.fact("D-44")
async def test_each_group_has_its_own_outcome(address: str) -> None:
    async with admin(address) as client:
        await client.alter_group_offsets("going", {ORDERS[0]: WITH_EPOCH})
        deleted = await client.delete_groups(["missing", "going"])
        described = await client.describe_groups(["going"])
    assert deleted.values == {"going": None}
    for results, name in ((deleted, "missing"), (described, "going")):
        error = results.errors[name]
        assert isinstance(error, ApiError)
        assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
