"""ConsumerGroupDescribe: several groups, authorization and durability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.runtime.shards import Phase
from coterie.settings import Settings
from coterie.wire import messages as m
from tests.broker.server.apis.in_process_server import InProcessServer

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
DESCRIBE = Operation.DESCRIBE


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer() as server:
        yield server


def heartbeat(group_id: str, *topics: str) -> m.ConsumerGroupHeartbeatRequest:
    """Return the first heartbeat of member "m"."""
    return m.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[*topics],
        topic_partitions=[],
    )


def join(server: InProcessServer, group_id: str = "g", *topics: str) -> None:
    answer = server.call(heartbeat(group_id, *(topics or ("t",))), 1)
    assert answer.error_code == 0


def describe(server: InProcessServer, *group_ids: str, **options: Any) -> Any:
    request = m.ConsumerGroupDescribeRequest(group_ids=[*group_ids], **options)
    return server.call(request, 1).groups


@pytest.mark.fact("E16-05", "H-113a", "H-113b", "E16-05a")
def test_each_described_group_has_its_own_result(server: InProcessServer) -> None:
    names = [server.group_in(shard) for shard in range(4)]
    for name in names:
        join(server, name)
    server.shards[0].phase = Phase.LOADING
    server.shards[1].phase = Phase.STOPPED
    requested = [names[2], "", names[0], names[3], names[1]]
    groups = describe(server, *requested)
    assert [group.group_id for group in groups] == requested
    assert [group.error_code for group in groups] == [0, 24, 14, 0, 16]
    assert [len(group.members) for group in groups] == [1, 0, 0, 1, 0]


def test_a_repeated_group_is_described_once(server: InProcessServer) -> None:
    join(server)
    assert [group.group_id for group in describe(server, "g", "h", "g")] == ["g", "h"]
    request = m.DescribeGroupsRequest(groups=["g", "h", "g"])
    classic = server.call(request, 5).groups
    assert [group.group_id for group in classic] == ["g", "h"]


@pytest.mark.fact("E16-04")
def test_an_unknown_group_is_not_found(server: InProcessServer) -> None:
    [group] = describe(server, "gone")
    assert (group.error_code, group.error_message) == (69, "Group gone not found.")


def test_no_group_ids_give_an_empty_response(server: InProcessServer) -> None:
    assert describe(server) == []


@pytest.mark.fact("E16-06")
def test_describing_a_group_without_describe_permission_is_refused() -> None:
    with InProcessServer((DESCRIBE, GROUP, "secret")) as server:
        join(server, "secret")
        join(server, "g")
        groups = describe(server, "secret", "g")
        assert [group.error_code for group in groups] == [30, 0]
        assert groups[0].members == []


@pytest.mark.fact("E16-06a")
def test_describing_a_group_needs_describe_on_its_members_topics(
    server: InProcessServer,
) -> None:
    join(server, "g", "t")
    join(server, "h", "u")
    server.authorizer.denied.add((DESCRIBE, TOPIC, "t"))
    hidden, described = describe(server, "g", "h", include_authorized_operations=True)
    assert (hidden.error_code, hidden.members) == (29, [])
    assert (hidden.group_state, hidden.authorized_operations) == ("", -2_147_483_648)
    assert (described.error_code, described.group_state) == (0, "Stable")


@pytest.mark.fact("E16-02")
def test_authorized_operations_are_included_on_request() -> None:
    with InProcessServer((Operation.DELETE, GROUP, "g")) as server:
        join(server)
        [silent] = describe(server, "g")
        [described] = describe(server, "g", include_authorized_operations=True)
    assert silent.authorized_operations == -2_147_483_648
    allowed = {Operation.READ, DESCRIBE, Operation.DESCRIBE_CONFIGS}
    allowed.add(Operation.ALTER_CONFIGS)
    assert described.authorized_operations == sum(1 << each for each in allowed)


@pytest.mark.fact("E16-07")
def test_a_disabled_consumer_protocol_describes_nothing() -> None:
    settings = Settings(group_coordinator_rebalance_protocols=("classic",))
    with InProcessServer((DESCRIBE, GROUP, "secret"), settings=settings) as server:
        groups = describe(server, "g", "", "secret")
        assert [group.error_code for group in groups] == [35, 35, 35]


@pytest.mark.fact("E16-08")
def test_the_response_waits_until_the_described_group_is_durable(
    server: InProcessServer,
) -> None:
    joined = server.send(heartbeat("g", "t"), 1)
    described = server.send(m.ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
    assert not joined.done()
    assert not described.done()
    answer = server.as_read(server.loop.run_until_complete(described), 1)
    assert joined.done()
    assert [member.member_id for member in answer.groups[0].members] == ["m"]
