"""What a principal without some rights gets from the APIs of groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.auth.acl import Operation, PermissionType, ResourceType
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.interop.sasl_listener import SaslListener
from tests.support.waiting import eventually

from .consumer_group import Members
from .members import (
    Partition,
    commit_errors,
    describe_classic,
    describe_consumer,
    join_consumer,
    join_request,
)
from .test_offset_delete import delete as delete_offsets
from .test_offset_fetch import content, fetch, request_of

TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
INVALID_REQUEST = 42
GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.fixture
def admin(sasl: SaslListener) -> Iterator[WireClient]:
    with sasl.client("admin") as client:
        yield client


@pytest.fixture
def alice(sasl: SaslListener) -> Iterator[WireClient]:
    """A user whose only rights are those that the test allows."""
    with sasl.client("alice") as client:
        yield client


def allow(
    admin: WireClient,
    *rights: tuple[Operation, ResourceType, str],
    host: str = "*",
    error: int = 0,
) -> None:
    creations = [
        m.AclCreation(
            resource_type=resource_type,
            resource_name=name,
            principal="User:alice",
            host=host,
            operation=operation,
            permission_type=PermissionType.ALLOW,
        )
        for operation, resource_type, name in rights
    ]
    results = admin.call(m.CreateAclsRequest(creations=creations), 3).results
    assert {each.error_code for each in results} == {error}


@pytest.fixture
def group(admin: WireClient, name: str) -> str:
    """A group with offsets of the topics {group}-seen and {group}-hidden."""
    group = f"g-{name}"
    topics = [f"{group}-seen", f"{group}-hidden"]
    created = [
        m.CreatableTopic(name=each, num_partitions=1, replication_factor=1)
        for each in topics
    ]
    admin.call(m.CreateTopicsRequest(topics=created, timeout_ms=5_000), 7)
    offsets = {(each, 0): 7 for each in topics}

    def is_committed() -> bool:
        return set(commit_errors(admin, group, offsets).values()) == {0}

    eventually(is_committed, expected="offsets of both topics")
    return group


@pytest.mark.fact("A-30", "A-31", "A-32", "A-50a", "E27-07")
@pytest.mark.parametrize("version", range(1, 10))
def test_offsets_of_a_group_need_describe_on_it(
    alice: WireClient, group: str, version: int
) -> None:
    topics = {f"{group}-seen": [0, 1], f"{group}-hidden": [0]}
    response = alice.call(request_of({group: topics}, version), version)
    [(error, found)] = content(response)
    if version >= 2:
        assert (error, found) == (GROUP_AUTHORIZATION_FAILED, {})
    else:
        assert set(found.values()) == {(-1, GROUP_AUTHORIZATION_FAILED)}
        assert len(found) == 3
        assert {each.metadata for t in response.topics for each in t.partitions} == {""}
        assert fetch(alice, group, {}, version) == (0, {})


@pytest.mark.fact("A-50b", "A-50c", "E27-07")
@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
def test_offsets_of_a_topic_need_describe_on_it(
    admin: WireClient, alice: WireClient, group: str, version: int
) -> None:
    seen, hidden = f"{group}-seen", f"{group}-hidden"
    allow(
        admin,
        (Operation.DESCRIBE, ResourceType.GROUP, group),
        (Operation.DESCRIBE, ResourceType.TOPIC, seen),
    )
    expected = {(seen, 0): (7, 0), (hidden, 0): (-1, TOPIC_AUTHORIZATION_FAILED)}

    def fetched() -> bool:
        topics = {hidden: [0], seen: [0]}
        return fetch(alice, group, topics, version) == (0, expected)

    eventually(fetched, expected=str(expected))
    if version >= 2:
        assert fetch(alice, group, None, version) == (0, {(seen, 0): (7, 0)})


@pytest.mark.fact("B-10", "B-11", "B-12a", "B-13a", "B-13b", "B-13c", "E27-11")
def test_finding_a_coordinator_needs_describe_on_the_key(
    admin: WireClient, alice: WireClient, group: str
) -> None:
    allow(
        admin,
        (Operation.DESCRIBE, ResourceType.GROUP, group),
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, group),
    )

    def errors(key_type: int, *keys: str) -> list[int]:
        request = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[*keys])
        found = alice.call(request, 6).coordinators
        assert all(
            (each.node_id, each.host, each.port) == (-1, "", -1)
            for each in found
            if each.error_code
        )
        return [each.error_code for each in found]

    other = f"{group}-2"
    eventually(
        lambda: errors(GROUP, other, group) == [GROUP_AUTHORIZATION_FAILED, 0],
        expected="the coordinator of the group",
    )
    refused = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    eventually(
        lambda: errors(TRANSACTION, other, group) == [refused, 0],
        expected="the coordinator of the transactional id",
    )
    old = alice.call(m.FindCoordinatorRequest(key=other), 3)
    assert (old.error_code, old.error_message) == (
        GROUP_AUTHORIZATION_FAILED,
        "Group authorization failed.",
    )
    old = alice.call(m.FindCoordinatorRequest(key=other, key_type=TRANSACTION), 3)
    assert (old.error_code, old.error_message) == (
        refused,
        "Transactional Id authorization failed.",
    )
    assert errors(SHARE, f"{group}:AAAAAAAAAAAAAAAAAAAAAQ:0") == [
        CLUSTER_AUTHORIZATION_FAILED
    ]


@pytest.mark.fact("C-25a", "E27-03")
def test_describing_a_group_needs_describe_on_it(
    admin: WireClient, alice: WireClient, group: str
) -> None:
    allow(admin, (Operation.DESCRIBE, ResourceType.GROUP, group))
    eventually(
        lambda: describe_classic(alice, group).error_code == 0,
        expected="a description of the group",
    )
    asked = m.DescribeGroupsRequest(groups=[group, f"{group}-2"])
    found = alice.call(asked, 6).groups
    assert {each.group_id: each.error_code for each in found} == {
        group: 0,
        f"{group}-2": GROUP_AUTHORIZATION_FAILED,
    }


@pytest.mark.fact("E16-06", "E16-06a", "E16-06b", "E27-03")
def test_describing_a_consumer_group_needs_describe_on_its_assigned_topics(
    admin: WireClient, alice: WireClient, group: str
) -> None:
    topic = f"{group}-seen"
    members = Members(admin, f"{group}-c")
    members.add_topic(topic)
    members.join("m", topic, f"{group}-nowhere")
    found = describe_consumer(alice, f"{group}-c")
    assert (found.error_code, found.members) == (GROUP_AUTHORIZATION_FAILED, [])
    allow(admin, (Operation.DESCRIBE, ResourceType.GROUP, f"{group}-c"))
    eventually(
        lambda: (
            describe_consumer(alice, f"{group}-c").error_code
            == TOPIC_AUTHORIZATION_FAILED
        ),
        expected="the right to the group",
    )
    found = describe_consumer(alice, f"{group}-c")
    assert (found.group_state, found.members) == ("", [])
    allow(admin, (Operation.DESCRIBE, ResourceType.TOPIC, topic))
    eventually(
        lambda: describe_consumer(alice, f"{group}-c").error_code == 0,
        expected="the right to the assigned topic",
    )
    [member] = describe_consumer(alice, f"{group}-c").members
    assert set(member.subscribed_topic_names) == {topic, f"{group}-nowhere"}


@pytest.mark.fact("D-34", "E27-09")
def test_deleting_a_group_needs_delete_on_it(
    admin: WireClient, alice: WireClient, group: str
) -> None:
    allow(admin, (Operation.DELETE, ResourceType.GROUP, group))
    request = m.DeleteGroupsRequest(groups_names=[f"{group}-2", group])

    def is_deleted() -> bool:
        results = alice.call(request, 2).results
        errors = {each.group_id: each.error_code for each in results}
        assert errors[f"{group}-2"] == GROUP_AUTHORIZATION_FAILED
        return errors[group] == 0

    eventually(is_deleted, expected="the deletion of the group")


@pytest.mark.fact("D-51a", "D-51b", "E27-08")
def test_deleting_offsets_needs_delete_on_the_group_and_read_on_topics(
    admin: WireClient, alice: WireClient, group: str
) -> None:
    seen, hidden = (f"{group}-seen", 0), (f"{group}-hidden", 0)
    refused: tuple[int, dict[Partition, int]] = (GROUP_AUTHORIZATION_FAILED, {})
    assert delete_offsets(alice, group, seen, hidden) == refused
    allow(
        admin,
        (Operation.DELETE, ResourceType.GROUP, group),
        (Operation.READ, ResourceType.TOPIC, seen[0]),
    )
    expected = 0, {seen: 0, hidden: TOPIC_AUTHORIZATION_FAILED}
    eventually(
        lambda: delete_offsets(alice, group, seen, hidden) == expected,
        expected=str(expected),
    )


def join_error(wire: WireClient, group: str, *topics: str) -> int:
    """Join as a new member; return the error code."""
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[*topics],
        topic_partitions=[],
    )
    error: int = wire.call(request, 1).error_code
    return error


@pytest.mark.fact("E7-02", "E7-03", "E27-01")
def test_a_heartbeat_needs_read_on_the_group_and_describe_on_its_topics(
    admin: WireClient, alice: WireClient, group: str
) -> None:
    seen, hidden = f"{group}-seen", f"{group}-hidden"
    assert join_error(alice, group, seen) == GROUP_AUTHORIZATION_FAILED
    allow(
        admin,
        (Operation.READ, ResourceType.GROUP, group),
        (Operation.DESCRIBE, ResourceType.TOPIC, seen),
    )
    eventually(lambda: join_error(alice, group, seen) == 0, expected="a member")
    for topics in ([hidden], [seen, hidden]):
        assert join_error(alice, group, *topics) == TOPIC_AUTHORIZATION_FAILED


@pytest.mark.fact("E27-05")
def test_classic_members_need_read_on_the_group(alice: WireClient, group: str) -> None:
    leaver = m.MemberIdentity(member_id="m")
    for request, version in (
        (join_request(group, "t"), 9),
        (m.SyncGroupRequest(group_id=group, generation_id=1, member_id="m"), 4),
        (m.HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), 4),
        (m.LeaveGroupRequest(group_id=group, members=[leaver]), 5),
    ):
        assert alice.call(request, version).error_code == GROUP_AUTHORIZATION_FAILED


@pytest.mark.fact("E27-04", "E27-04a")
def test_groups_without_describe_are_not_listed(
    admin: WireClient, alice: WireClient, group: str
) -> None:
    seen, hidden = f"{group}-seen", f"{group}-hidden"
    join_consumer(admin, seen)
    join_consumer(admin, hidden)
    allow(admin, (Operation.DESCRIBE, ResourceType.GROUP, seen))

    def listed(wire: WireClient) -> set[str]:
        response = wire.call(m.ListGroupsRequest(), 5)
        assert response.error_code == 0
        return {each.group_id for each in response.groups}

    eventually(lambda: seen in listed(alice), expected="the right to the group")
    assert hidden not in listed(alice)
    assert {seen, hidden} <= listed(admin)


@pytest.mark.fact("E27-06")
def test_commits_need_read_on_the_group(alice: WireClient, group: str) -> None:
    zero = (group, 0)
    errors = commit_errors(alice, group, {zero: 5})
    assert errors == {zero: GROUP_AUTHORIZATION_FAILED}


def test_a_host_may_be_a_network(
    admin: WireClient, alice: WireClient, group: str
) -> None:
    describe = Operation.DESCRIBE, ResourceType.GROUP, group

    def code() -> int:
        return int(describe_classic(alice, group).error_code)

    for wrong in ("127.0.0.0/33", "127.0/8", "/8", "127.0.0.0/", "127.0.0.0/255.0.0.0"):
        allow(admin, describe, host=wrong, error=INVALID_REQUEST)
    allow(admin, describe, host="10.0.0.0/8")
    allow(admin, describe, host="::/0")
    assert code() == GROUP_AUTHORIZATION_FAILED
    allow(admin, describe, host="127.9.9.9/8")
    eventually(lambda: code() == 0, expected="the right of a network")
