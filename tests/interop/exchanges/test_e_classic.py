"""The join, the sync and the sessions of classic groups (E19)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.record_serde import decode_record
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .conftest import Connect
from .log_records import Position, end_of_log, records_of
from .members import (
    await_writes,
    describe_classic,
    join_classic,
    join_request,
    leave_classic,
    subscription,
)
from .test_classic_groups import (
    Joined,
    await_state,
    heartbeat_error,
    join_all,
    join_two,
    pending_id,
    stable_two,
    sync_request,
)

ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
FENCED_INSTANCE_ID = 82


def metadata_records(
    wire: WireClient, group: str, since: Position
) -> list[GroupMetadataValue]:
    """Return the records of the group's metadata."""
    values = []
    for key, value in records_of(wire, group, since):
        record = decode_record(key, value)
        assert record is not None
        assert isinstance(record.value, GroupMetadataValue)
        values.append(record.value)
    return values


# New members.


@pytest.mark.fact("E19-03b")
@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_member_joins_at_once(
    wire: WireClient, group: str, version: int
) -> None:
    response = wire.call(join_request(group), version)
    assert (response.error_code, response.generation_id) == (0, 1)
    assert response.leader == response.member_id


@pytest.mark.fact("E19-15")
def test_the_join_that_creates_a_group_writes_it_as_empty(
    wire: WireClient, group: str
) -> None:
    since = end_of_log(wire, group)
    pending_id(wire, group)
    await_writes(wire, group)
    [value] = metadata_records(wire, group, since)
    assert (value.protocol_type, value.generation, value.members) == ("", 0, [])
    assert (value.protocol, value.leader) == (None, None)


@pytest.mark.fact("E19-15a")
def test_a_rebalance_without_members_writes_the_group_as_empty(
    wire: WireClient, group: str
) -> None:
    member = join_classic(wire, group)
    since = end_of_log(wire, group)
    leave_classic(wire, group, member.id)
    [value] = metadata_records(wire, group, since)
    assert (value.protocol_type, value.members) == ("consumer", [])
    assert value.generation == member.generation + 1


# The join phase.


@pytest.mark.fact("E19-07")
def test_only_the_leader_gets_the_members(connect: Connect, group: str) -> None:
    wires = [connect(), connect()]
    ids = [pending_id(wire, group) for wire in wires]
    for number, wire in enumerate(wires):
        metadata = subscription(f"topic-{number}")
        protocol = m.JoinGroupRequestProtocol(name="range", metadata=metadata)
        request = join_request(group, member_id=ids[number], protocols=[protocol])
        wire.send(request, 9)
    responses = [wire.receive() for wire in wires]
    leader = responses[0].leader
    for response in responses:
        found = {each.member_id: each.metadata for each in response.members}
        expected = {
            member_id: subscription(f"topic-{number}")
            for number, member_id in enumerate(ids)
        }
        assert found == (expected if response.member_id == leader else {})


@pytest.mark.fact("E19-06")
def test_the_protocol_with_most_votes_is_chosen(connect: Connect, group: str) -> None:
    def request(member_id: str, *names: str) -> m.JoinGroupRequest:
        protocols = [
            m.JoinGroupRequestProtocol(name=name, metadata=subscription())
            for name in names
        ]
        return join_request(group, member_id=member_id, protocols=protocols)

    wires = [connect() for _ in range(3)]
    ids = [pending_id(wire, group) for wire in wires]
    wires[0].send(request(ids[0], "range", "sticky"), 9)
    for wire, member_id in zip(wires[1:], ids[1:], strict=True):
        wire.send(request(member_id, "own", "sticky", "range"), 9)
    assert [each.receive().protocol_name for each in wires] == ["sticky"] * 3


@pytest.mark.fact("E19-05c", "E19-07a", "E19-14")
def test_a_rejoin_of_the_leader_starts_a_generation_once_all_have_joined(
    connect: Connect, group: str
) -> None:
    leader, follower = stable_two(connect, group)
    leader.wire.send(join_request(group, member_id=leader.id), 9)
    await_state(follower.wire, group, "PreparingRebalance")
    rejoined = follower.wire.call(join_request(group, member_id=follower.id), 9)
    assert rejoined.generation_id == leader.generation + 1
    assert leader.wire.receive().generation_id == leader.generation + 1


@pytest.mark.fact("E19-14a", "E19-14b")
def test_a_rejoin_of_a_follower_counts_if_its_metadata_changed(
    connect: Connect, wire: WireClient, group: str
) -> None:
    leader, follower = stable_two(connect, group)
    same = follower.wire.call(join_request(group, member_id=follower.id), 9)
    assert (same.error_code, same.generation_id) == (0, leader.generation)
    assert (same.leader, same.members) == (leader.id, [])
    assert heartbeat_error(group, leader) == 0
    follower.wire.send(join_request(group, "other", member_id=follower.id), 9)
    await_state(wire, group, "PreparingRebalance")
    assert heartbeat_error(group, leader) == REBALANCE_IN_PROGRESS


@pytest.mark.fact("E19-14c")
def test_a_repeated_join_gets_the_same_answer(connect: Connect, group: str) -> None:
    for member in join_two(connect, group):
        again = member.wire.call(join_request(group, member_id=member.id), 9)
        assert (again.error_code, again.generation_id) == (0, member.generation)
        assert len(again.members) == (2 if member.leads else 0)


@pytest.mark.slow
@pytest.mark.fact("E19-05")
def test_members_that_do_not_rejoin_in_time_are_removed(
    connect: Connect, group: str
) -> None:
    leader, follower = join_all(*short_joins(connect, group))
    request = join_request(
        group, "other", member_id=follower.id, rebalance_timeout_ms=200
    )
    response = follower.wire.call(request, 9)
    assert response.generation_id == leader.generation + 1
    [left] = describe_classic(follower.wire, group).members
    assert left.member_id == follower.id
    assert heartbeat_error(group, leader) == UNKNOWN_MEMBER_ID


def short_joins(
    connect: Connect, group: str
) -> list[tuple[WireClient, m.JoinGroupRequest]]:
    """Return the joins of two members with a rebalance timeout of 200 ms."""
    wires = [connect(), connect()]
    return [
        (
            wire,
            join_request(
                group, member_id=pending_id(wire, group), rebalance_timeout_ms=200
            ),
        )
        for wire in wires
    ]


@pytest.mark.slow
@pytest.mark.fact("E19-05a")
def test_static_members_that_do_not_rejoin_stay(connect: Connect, group: str) -> None:
    requests = [
        join_request(group, group_instance_id=instance_id, rebalance_timeout_ms=200)
        for instance_id in ("i", "j")
    ]
    leader, follower = join_all(*((connect(), each) for each in requests))
    request = join_request(
        group, "other", member_id=follower.id, rebalance_timeout_ms=200
    )
    response = follower.wire.call(request, 9)
    assert response.generation_id == leader.generation + 1
    assert response.leader == follower.id
    assert {each.member_id for each in response.members} == {leader.id, follower.id}


# The sync phase.


@pytest.mark.fact("E19-08a", "E19-08b")
def test_followers_wait_for_the_sync_of_the_leader(
    connect: Connect, group: str
) -> None:
    leader, follower = join_two(connect, group)
    follower.wire.send(sync_request(group, follower), 5)
    assert describe_classic(leader.wire, group).group_state == "CompletingRebalance"
    assigned = m.SyncGroupRequestAssignment(member_id=leader.id, assignment=b"all")
    sent = sync_request(group, leader, assignments=[assigned])
    assert leader.wire.call(sent, 5).assignment == b"all"
    response = follower.wire.receive()
    assert (response.error_code, response.assignment) == (0, b"")


@pytest.mark.fact("E19-08")
def test_the_sync_of_the_leader_writes_the_assignments(
    wire: WireClient, group: str
) -> None:
    member_id = pending_id(wire, group)
    joined = wire.call(join_request(group, member_id=member_id), 9)
    since = end_of_log(wire, group)
    member = Joined(wire, member_id, joined.generation_id, leads=True)
    assigned = m.SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    sent = sync_request(group, member, assignments=[assigned])
    assert wire.call(sent, 5).error_code == 0
    [value] = metadata_records(wire, group, since)
    assert (value.generation, value.leader) == (joined.generation_id, member_id)
    assert [each.assignment for each in value.members] == [b"all"]


@pytest.mark.slow
@pytest.mark.fact("E19-09")
def test_members_that_do_not_sync_in_time_are_removed(
    connect: Connect, wire: WireClient, group: str
) -> None:
    leader, follower = join_all(*short_joins(connect, group))
    assert leader.wire.call(sync_request(group, leader), 5).error_code == 0

    def members() -> list[str]:
        return [each.member_id for each in describe_classic(wire, group).members]

    eventually(lambda: members() == [leader.id], expected="no follower")
    assert heartbeat_error(group, follower) == UNKNOWN_MEMBER_ID


# Heartbeats.


@pytest.mark.fact("E19-10", "E19-10a", "E19-10c", "E19-10d")
def test_a_heartbeat_has_the_error_of_the_state(
    connect: Connect, wire: WireClient, group: str
) -> None:
    def error(member_id: str, generation: int, group_id: str = group) -> int:
        request = m.HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id
        )
        return int(wire.call(request, 4).error_code)

    leader, follower = join_two(connect, group)
    assert error(follower.id, leader.generation) == 0
    assert leader.wire.call(sync_request(group, leader), 5).error_code == 0
    assert error(follower.id, leader.generation) == 0
    for generation in (-1, 0, leader.generation + 1):
        assert error(follower.id, generation) == ILLEGAL_GENERATION
        assert error("nobody", generation) == UNKNOWN_MEMBER_ID
        assert error(follower.id, generation, f"{group}-none") == UNKNOWN_MEMBER_ID
    leader.wire.send(join_request(group, member_id=leader.id), 9)
    await_state(wire, group, "PreparingRebalance")
    assert error(follower.id, leader.generation) == REBALANCE_IN_PROGRESS


# Leaves.


@pytest.mark.fact("E19-11a", "E19-11c", "E19-11d")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_static_member_leaves_by_its_instance_id(
    wire: WireClient, group: str, version: int
) -> None:
    join_classic(wire, group, group_instance_id="i")
    leaving = [
        ("nobody", "i", FENCED_INSTANCE_ID),
        ("", "j", UNKNOWN_MEMBER_ID),
        ("", "i", 0),
        ("", "i", UNKNOWN_MEMBER_ID),
    ]
    members = [
        m.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
        for member_id, instance_id, _ in leaving
    ]
    request = m.LeaveGroupRequest(group_id=group, members=members)
    response = wire.call(request, version)
    assert [each.error_code for each in response.members] == [
        code for *_, code in leaving
    ]
    assert describe_classic(wire, group).group_state == "Empty"


# Static members that return.


def static_two(connect: Connect, group: str) -> list[Joined]:
    """Return two static members of a stable group, with instance ids `i` and `j`."""
    requests = [
        join_request(group, group_instance_id=instance_id) for instance_id in ("i", "j")
    ]
    members = join_all(*((connect(), each) for each in requests))
    for each in members:
        assigned = [
            m.SyncGroupRequestAssignment(
                member_id=member.id, assignment=member.id.encode()
            )
            for member in members
        ]
        sent = sync_request(group, each, assignments=assigned if each.leads else [])
        assert each.wire.call(sent, 5).error_code == 0
    return members


def instance_of(member: Joined) -> str:
    """Return the instance id, with which Kafka begins the id of a static member."""
    return member.id[0]


@pytest.mark.fact("E19-13", "E19-13a", "E19-13b")
def test_a_returning_static_member_replaces_its_id(
    connect: Connect, wire: WireClient, group: str
) -> None:
    leader, follower = static_two(connect, group)
    since = end_of_log(wire, group)
    instance_id = instance_of(follower)
    request = join_request(group, group_instance_id=instance_id)
    joined = wire.call(request, 9)
    assert (joined.error_code, joined.generation_id) == (0, follower.generation)
    assert joined.member_id != follower.id
    assert (joined.leader, joined.skip_assignment) == (leader.id, False)
    assert heartbeat_error(group, leader) == 0
    [value] = metadata_records(wire, group, since)
    stored = {each.member_id: each.assignment for each in value.members}
    assert stored == {
        leader.id: leader.id.encode(),
        joined.member_id: follower.id.encode(),
    }
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id": follower.generation,
        "member_id": follower.id,
        "group_instance_id": instance_id,
    }
    for old, version in (
        (m.HeartbeatRequest(**fields), 4),
        (m.SyncGroupRequest(**fields), 4),
    ):
        assert wire.call(old, version).error_code == FENCED_INSTANCE_ID


@pytest.mark.fact("E19-13b")
def test_the_waiting_sync_of_a_replaced_id_is_fenced(
    connect: Connect, wire: WireClient, group: str
) -> None:
    requests = [
        join_request(group, group_instance_id=instance_id) for instance_id in ("i", "j")
    ]
    _, follower = join_all(*((connect(), each) for each in requests))
    instance_id = instance_of(follower)
    sync = sync_request(group, follower, group_instance_id=instance_id)
    follower.wire.send(sync, 5)
    wire.send(join_request(group, group_instance_id=instance_id), 9)
    assert follower.wire.receive().error_code == FENCED_INSTANCE_ID


@pytest.mark.fact("E19-13b")
def test_the_waiting_join_of_a_replaced_id_is_fenced(
    connect: Connect, group: str
) -> None:
    first, second = connect(), connect()
    first.send(join_request(group, group_instance_id="i"), 9)
    await_state(second, group, "PreparingRebalance")
    second.send(join_request(group, group_instance_id="i"), 9)
    codes = first.receive().error_code, second.receive().error_code
    assert codes == (FENCED_INSTANCE_ID, 0)


@pytest.mark.fact("E19-13c", "E19-13d")
@pytest.mark.parametrize("version", range(5, 10))
def test_a_returning_leader_does_not_assign(
    wire: WireClient, group: str, version: int
) -> None:
    leader = join_classic(wire, group, group_instance_id="i")
    joined = wire.call(join_request(group, group_instance_id="i"), version)
    assert (joined.error_code, joined.generation_id) == (0, leader.generation)
    assert joined.member_id != leader.id
    if version >= 9:
        assert joined.skip_assignment
        assert joined.leader == joined.member_id
        assert [each.member_id for each in joined.members] == [joined.member_id]
    else:
        assert (joined.leader, joined.members) == (leader.id, [])


@pytest.mark.fact("E19-13e")
def test_a_returning_static_member_with_another_protocol_rebalances(
    wire: WireClient, group: str
) -> None:
    protocols = [
        m.JoinGroupRequestProtocol(name=name, metadata=subscription())
        for name in ("range", "sticky")
    ]
    member = join_classic(wire, group, group_instance_id="i", protocols=protocols)
    request = join_request(group, group_instance_id="i", protocols=protocols[1:])
    joined = wire.call(request, 9)
    assert (joined.error_code, joined.protocol_name) == (0, "sticky")
    assert joined.generation_id == member.generation + 1
