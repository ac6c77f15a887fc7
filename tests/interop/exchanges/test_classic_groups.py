"""Classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup in unusual order, and
with fields that no client sends."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from coterie.wire import messages as m
from coterie.wire.codec import encode
from coterie.wire.framing import RequestHeaderV0, write_request
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .conftest import Connect
from .members import (
    MEMBER_ID_REQUIRED,
    await_writes,
    describe_classic,
    join_classic,
    join_request,
    leave_classic,
    subscription,
)

UNKNOWN_SERVER_ERROR = -1
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27


class Joined(NamedTuple):
    """A member with its own connection, after JoinGroup."""

    wire: WireClient
    id: str
    generation: int
    leads: bool


def pending_id(wire: WireClient, group: str) -> str:
    """Return the id of a new pending member."""
    response = wire.call(join_request(group), 9)
    assert response.error_code == MEMBER_ID_REQUIRED
    return str(response.member_id)


def join_all(*requests: tuple[WireClient, m.JoinGroupRequest]) -> list[Joined]:
    """Send JoinGroup requests together; return the members, the leader first."""
    for wire, request in requests:
        wire.send(request, 9)
    responses = [wire.receive() for wire, _ in requests]
    assert [each.error_code for each in responses] == [0] * len(requests), responses
    members = [
        Joined(wire, each.member_id, each.generation_id, each.leader == each.member_id)
        for (wire, _), each in zip(requests, responses, strict=True)
    ]
    return sorted(members, key=lambda member: not member.leads)


def join_two(connect: Connect, group: str) -> list[Joined]:
    """Return two dynamic members after the first join phase."""
    wires = [connect(), connect()]
    ids = [pending_id(wire, group) for wire in wires]
    requests = [join_request(group, member_id=member_id) for member_id in ids]
    return join_all(*zip(wires, requests, strict=True))


def sync_request(group: str, member: Joined, **fields: Any) -> m.SyncGroupRequest:
    usual: dict[str, Any] = {
        "generation_id": member.generation,
        "member_id": member.id,
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    return m.SyncGroupRequest(group_id=group, **{**usual, **fields})


def stable_two(connect: Connect, group: str) -> list[Joined]:
    """Return two members of a stable group; each is assigned its own id."""
    members = join_two(connect, group)
    assignments = [
        m.SyncGroupRequestAssignment(member_id=each.id, assignment=each.id.encode())
        for each in members
    ]
    for each in members:
        sent = assignments if each.leads else []
        each.wire.send(sync_request(group, each, assignments=sent), 5)
    for each in members:
        assert each.wire.receive().assignment == each.id.encode()
    return members


def heartbeat_error(group: str, member: Joined) -> int:
    request = m.HeartbeatRequest(
        group_id=group, generation_id=member.generation, member_id=member.id
    )
    return int(member.wire.call(request, 4).error_code)


def await_state(wire: WireClient, group: str, state: str) -> None:
    eventually(
        lambda: describe_classic(wire, group).group_state == state,
        expected=f"{group} is {state}",
    )


# Pending members.


def test_the_leave_of_a_pending_member_starts_a_rebalance(
    connect: Connect, wire: WireClient, group: str
) -> None:
    members = stable_two(connect, group)
    leave_classic(wire, group, pending_id(wire, group))
    errors = [heartbeat_error(group, each) for each in members]
    assert errors == [REBALANCE_IN_PROGRESS] * 2


def test_the_leave_of_a_pending_member_interrupts_the_sync_phase(
    connect: Connect, wire: WireClient, group: str
) -> None:
    leader, follower = join_two(connect, group)
    follower.wire.send(sync_request(group, follower), 5)
    leave_classic(wire, group, pending_id(wire, group))
    assert follower.wire.receive().error_code == REBALANCE_IN_PROGRESS
    assert heartbeat_error(group, leader) == REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("instance_id", ["i", ""])
def test_a_pending_member_cannot_join_with_an_instance_id(
    wire: WireClient, group: str, instance_id: str
) -> None:
    request = join_request(
        group, member_id=pending_id(wire, group), group_instance_id=instance_id
    )
    response = wire.call(request, 9)
    assert (response.error_code, response.member_id) == (UNKNOWN_SERVER_ERROR, "")
    await_writes(wire, group)
    assert describe_classic(wire, group).group_state == "Empty"


# Errors of JoinGroup.

Case = tuple[int, str, dict[str, Any]]
ERRORS: dict[str, Case] = {
    "no group id": (INVALID_GROUP_ID, "m", {"group_id": ""}),
    "session timeout": (INVALID_SESSION_TIMEOUT, "m", {"session_timeout_ms": 1}),
    "unknown group": (UNKNOWN_MEMBER_ID, "m", {}),
    "unknown group and no protocol": (UNKNOWN_MEMBER_ID, "m", {"protocols": []}),
    "no protocol": (
        INCONSISTENT_GROUP_PROTOCOL,
        "",
        {"member_id": "", "protocols": []},
    ),
}


@pytest.mark.fact("E19-02", "E19-02a", "E19-02b")
@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("case", ERRORS)
def test_an_error_of_join_group_has_the_member_id_and_no_protocol(
    wire: WireClient, group: str, version: int, case: str
) -> None:
    code, member_id, fields = ERRORS[case]
    request = join_request(group, member_id="m")
    for name, value in fields.items():
        setattr(request, name, value)
    assert wire.call(request, version) == m.JoinGroupResponse(
        error_code=code,
        member_id=member_id,
        protocol_name=None if version >= 7 else "",
    )


@pytest.mark.fact("E19-03")
@pytest.mark.parametrize("version", [4, 6, 7, 9])
def test_member_id_required_has_no_protocol(
    wire: WireClient, group: str, version: int
) -> None:
    response = wire.call(join_request(group), version)
    assert response.error_code == MEMBER_ID_REQUIRED
    assert response.protocol_name == (None if version >= 7 else "")


def test_an_error_of_a_member_has_its_id(wire: WireClient, group: str) -> None:
    member = join_classic(wire, group)
    for code, fields in (
        (INCONSISTENT_GROUP_PROTOCOL, {"member_id": member.id, "protocol_type": "x"}),
        (INCONSISTENT_GROUP_PROTOCOL, {"member_id": "x", "protocols": []}),
        (UNKNOWN_MEMBER_ID, {"member_id": "x"}),
        (UNKNOWN_MEMBER_ID, {"member_id": member.id, "group_instance_id": "i"}),
        (INCONSISTENT_GROUP_PROTOCOL, {"member_id": "", "protocols": []}),
    ):
        response = wire.call(join_request(group, **fields), 9)
        assert (response.error_code, response.member_id) == (code, fields["member_id"])


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": []}])
def test_a_first_join_without_protocol_leaves_an_empty_group(
    wire: WireClient, group: str, fields: dict[str, Any]
) -> None:
    response = wire.call(join_request(group, **fields), 9)
    assert response.error_code == INCONSISTENT_GROUP_PROTOCOL
    await_writes(wire, group)
    described = describe_classic(wire, group)
    assert (described.error_code, described.group_state) == (0, "Empty")
    assert described.protocol_type == ""


@pytest.mark.parametrize("version", [0, 5, 6, 9])
def test_a_null_member_id_closes_the_connection(
    wire: WireClient, group: str, version: int
) -> None:
    body = encode(join_request(group, member_id="MMMM"), version)
    text, null = (b"\5MMMM", b"\0") if version >= 6 else (b"\0\4MMMM", b"\xff\xff")
    assert body.count(text) == 1
    header = RequestHeaderV0(m.JoinGroupRequest.API_KEY, version, 1)
    frame = write_request(
        header, "test", body.replace(text, null), flexible=version >= 6
    )
    wire.socket.sendall(frame)
    assert wire.is_closed()


# The protocol of a generation.


@pytest.mark.fact("E19-06a")
@pytest.mark.parametrize(
    ("offered", "selected"),
    [
        (("roundrobin", "range"), "range"),
        (("cooperative-sticky", "roundrobin"), "roundrobin"),
        (("range", "sticky"), "sticky"),
        (("b", "a"), "a"),
    ],
)
def test_of_protocols_with_the_same_votes_the_first_of_a_hash_map_is_selected(
    connect: Connect, group: str, offered: tuple[str, str], selected: str
) -> None:
    def request(member_id: str, names: tuple[str, ...]) -> m.JoinGroupRequest:
        protocols = [
            m.JoinGroupRequestProtocol(name=name, metadata=subscription())
            for name in names
        ]
        return join_request(group, member_id=member_id, protocols=protocols)

    wires = [connect(), connect()]
    ids = [pending_id(wire, group) for wire in wires]
    wires[0].send(request(ids[0], offered), 9)
    wires[1].send(request(ids[1], offered[::-1]), 9)
    assert [each.receive().protocol_name for each in wires] == [selected] * 2


# SyncGroup.


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name"),
    [(None, None), (None, "range"), ("consumer", None)],
)
def test_a_sync_of_version_5_without_protocol_is_inconsistent(
    wire: WireClient, group: str, protocol_type: str | None, protocol_name: str | None
) -> None:
    for group_id in (group, ""):
        request = m.SyncGroupRequest(
            group_id=group_id,
            member_id="m",
            protocol_type=protocol_type,
            protocol_name=protocol_name,
        )
        assert wire.call(request, 5).error_code == INCONSISTENT_GROUP_PROTOCOL
        expected = UNKNOWN_MEMBER_ID if group_id else INVALID_GROUP_ID
        assert wire.call(request, 4).error_code == expected


def test_the_errors_of_a_sync_have_an_order(wire: WireClient, group: str) -> None:
    joined = join_classic(wire, group)
    member = Joined(wire, joined.id, joined.generation, leads=True)
    for code, fields in (
        (UNKNOWN_MEMBER_ID, {"member_id": "x", "generation_id": 9}),
        (UNKNOWN_MEMBER_ID, {"group_instance_id": "x", "generation_id": 9}),
        (ILLEGAL_GENERATION, {"generation_id": 9, "protocol_name": "x"}),
        (INCONSISTENT_GROUP_PROTOCOL, {"protocol_name": "x"}),
        (INCONSISTENT_GROUP_PROTOCOL, {"protocol_type": ""}),
        (0, {}),
    ):
        request = sync_request(group, member, **fields)
        assert wire.call(request, 5).error_code == code, fields


# LeaveGroup.


@pytest.mark.fact("E19-11", "E19-11b", "E19-11c")
def test_a_member_of_a_classic_group_may_leave_once(
    connect: Connect, wire: WireClient, group: str
) -> None:
    leader, follower = stable_two(connect, group)
    pending = pending_id(wire, group)
    leaving = [
        (leader.id, None, 0),
        (leader.id, None, UNKNOWN_MEMBER_ID),
        (pending, "no-instance", 0),
        (pending, None, UNKNOWN_MEMBER_ID),
        (follower.id, "", UNKNOWN_MEMBER_ID),
        ("", None, UNKNOWN_MEMBER_ID),
        ("", "", UNKNOWN_MEMBER_ID),
    ]
    assert _leave(wire, group, leaving, 5) == leaving
    await_state(wire, group, "PreparingRebalance")


Leaving = tuple[str, str | None, int]


def _leave(
    wire: WireClient, group: str, leaving: list[Leaving], version: int
) -> list[Leaving]:
    members = [
        m.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
        for member_id, instance_id, _ in leaving
    ]
    response = wire.call(m.LeaveGroupRequest(group_id=group, members=members), version)
    assert response.error_code == 0
    return [
        (each.member_id, each.group_instance_id, each.error_code)
        for each in response.members
    ]


def test_a_leave_of_no_member_changes_nothing(wire: WireClient, group: str) -> None:
    join_classic(wire, group)
    response = wire.call(m.LeaveGroupRequest(group_id=group), 5)
    assert (response.error_code, response.members) == (0, [])
    assert describe_classic(wire, group).group_state == "Stable"


# Static members.


def test_a_restarted_static_member_keeps_its_client_id(
    wire: WireClient, ready: str, group: str
) -> None:
    member = join_classic(wire, group, group_instance_id="i")
    host, _, port = ready.rpartition(":")
    with WireClient(host, int(port), client_id="moved") as moved:
        response = moved.call(join_request(group, group_instance_id="i"), 9)
    assert response.error_code == 0
    assert response.member_id != member.id
    [described] = describe_classic(wire, group).members
    assert (described.member_id, described.client_id) == (response.member_id, "test")
