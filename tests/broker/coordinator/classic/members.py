"""Requests of classic members, and helpers that create stable groups."""

from __future__ import annotations

import struct
from typing import Any

from coterie.wire import messages as m
from tests.broker.coordinator.driver import Driver, Sent

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    """Return a subscription of the consumer protocol, version 0."""
    body = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + body + struct.pack(">i", -1)


def protocols(**named: bytes) -> list[m.JoinGroupRequestProtocol]:
    """Return protocols by name, the most preferred first."""
    return [
        m.JoinGroupRequestProtocol(name=n, metadata=data) for n, data in named.items()
    ]


def join_request(member_id: str = "", **fields: Any) -> m.JoinGroupRequest:
    """Return a JoinGroup request of a consumer to group "g"; `fields` replace the
    defaults.
    """
    values: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": protocols(range=subscription("t")),
        **fields,
    }
    return m.JoinGroupRequest(**values)


def join(
    driver: Driver, member_id: str = "", *, version: int = 9, **fields: Any
) -> Sent:
    """Send a join; a new dynamic member then rejoins with the member id it received."""
    sent = driver.send(join_request(member_id, **fields), version=version)
    if not sent.parked and sent.error == 79:
        member_id = sent.response.member_id
        return driver.send(join_request(member_id, **fields), version=version)
    return sent


def sync(
    driver: Driver,
    member_id: str,
    generation: int = 1,
    *,
    assignments: dict[str, bytes] | None = None,
    **fields: Any,
) -> Sent:
    """Send a sync to group "g"; the leader's has assignments."""
    given = [
        m.SyncGroupRequestAssignment(member_id=member, assignment=a)
        for member, a in (assignments or {}).items()
    ]
    values: dict[str, Any] = {
        "group_id": "g",
        "generation_id": generation,
        "member_id": member_id,
        "assignments": given,
        **fields,
    }
    return driver.send(m.SyncGroupRequest(**values))


def heartbeat(
    driver: Driver, member_id: str, generation: int = 1, **fields: Any
) -> int:
    """Send a heartbeat to group "g"; return the error code."""
    values: dict[str, Any] = {
        "group_id": "g",
        "generation_id": generation,
        "member_id": member_id,
        **fields,
    }
    return driver.send(m.HeartbeatRequest(**values)).error


def leave(driver: Driver, *members: str | tuple[str, str | None]) -> Sent:
    """Send a LeaveGroup with member ids, or pairs of member id and instance id."""
    pairs = [(each, None) if isinstance(each, str) else each for each in members]
    identities = [
        m.MemberIdentity(member_id=one, group_instance_id=i) for one, i in pairs
    ]
    return driver.send(m.LeaveGroupRequest(group_id="g", members=identities))


def codes(sent: Sent) -> list[int]:
    """Return the error code of each member in a LeaveGroup response."""
    return [member.error_code for member in sent.response.members]


def joining_group(
    driver: Driver, count: int = 2, *, static: bool = False, **fields: Any
) -> list[str]:
    """Create a group and end its join phase; return the member ids, leader first."""
    instances = [f"i{n}" if static else None for n in range(count)]
    joins = [join(driver, group_instance_id=i, **fields) for i in instances]
    driver.advance(driver.settings.group_initial_rebalance_delay_ms)
    if any(sent.parked for sent in joins):  # later joins extended the delay
        driver.advance(driver.settings.group_initial_rebalance_delay_ms)
    assert [sent.error for sent in joins] == [0] * count
    ids: list[str] = [sent.response.member_id for sent in joins]
    assert joins[0].response.leader == ids[0]
    return ids


def stable_group(
    driver: Driver, count: int = 2, *, static: bool = False, **fields: Any
) -> list[str]:
    """Create a stable group; each member is assigned its member id in upper case."""
    ids = joining_group(driver, count, static=static, **fields)
    generation = driver.groups["g"].generation
    followers = [sync(driver, member_id, generation) for member_id in ids[1:]]
    assignments = {member_id: member_id.upper().encode() for member_id in ids}
    leader = sync(driver, ids[0], generation, assignments=assignments)
    assert [sent.error for sent in (leader, *followers)] == [0] * count
    return ids
