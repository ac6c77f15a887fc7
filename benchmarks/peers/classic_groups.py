"""Stable groups of the classic protocol, for measuring requests of their members.

The members use JoinGroup 5 and SyncGroup 3, which every measured server supports.
Followers sync before the leader, because librdkafka's mock requires it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.peers.connection import Connection, frame
from coterie.wire import messages as m
from coterie.wire.codec import encode

JOIN, SYNC = 5, 3
ROUNDS_MAX = 20
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27
REBALANCE_MS = 60_000
SETTLE_S = 0.3
"""Time for the server to read the followers' requests before the leader's."""


@dataclass(slots=True)
class JoinedMember:
    """A member with its own connection."""

    connection: Connection
    group: str
    member_id: str = ""
    generation: int = -1
    leader: str = ""

    def heartbeat(self) -> m.HeartbeatRequest:
        """Return the request of a stable member's heartbeat."""
        return m.HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
        )


@contextlib.contextmanager
def joined(
    address: str, groups: Sequence[str], group_size: int, session_ms: int = 45_000
) -> Iterator[list[JoinedMember]]:
    """Form stable groups of `group_size` members each."""
    with connected(address, groups, group_size) as members:
        form(members, session_ms)
        yield members


@contextlib.contextmanager
def connected(
    address: str, groups: Sequence[str], group_size: int
) -> Iterator[list[JoinedMember]]:
    """Open the connections of members that have not joined.

    Each has one response before the next connects: Kafka's listen backlog is 50, and a
    connection beyond it takes seconds.
    """
    members: list[JoinedMember] = []
    try:
        for group in groups:
            for _ in range(group_size):
                members.append(JoinedMember(Connection(address), group))
                members[-1].connection.call(
                    m.ApiVersionsRequest(), m.ApiVersionsResponse, 0
                )
        yield members
    finally:
        for member in members:
            member.connection.close()


def form(members: Sequence[JoinedMember], session_ms: int) -> None:
    """Form stable groups of connected members."""
    _join(members, session_ms)
    _sync(members)


def heartbeat_frames(
    address: str, groups: Sequence[str], group_size: int, version: int
) -> list[bytes]:
    """Form groups and return the frames of their heartbeats.

    Without heartbeats the members are removed after one session timeout.
    """
    with joined(address, groups, group_size) as members:
        return [frame(member.heartbeat(), version) for member in members]


def send_heartbeats(members: Sequence[JoinedMember], version: int = 4) -> list[int]:
    """Send one heartbeat of every member; return the error codes."""
    for member in members:
        member.connection.send(member.heartbeat(), version)
    responses = (
        member.connection.receive(m.HeartbeatResponse, version) for member in members
    )
    return [response.error_code for response in responses]


def _join(members: Sequence[JoinedMember], session_ms: int) -> None:
    # In the first round every JoinGroup fails with MEMBER_ID_REQUIRED and returns a
    # member id. Members that join in different generations join again, until all are in
    # the same generation.
    for _ in range(ROUNDS_MAX):
        for member in members:
            member.connection.send(_join_request(member, session_ms), JOIN)
        codes = [_receive_join(member) for member in members]
        generations = {(member.group, member.generation) for member in members}
        together = len(generations) == len({member.group for member in members})
        if not any(codes) and together:
            return
    raise RuntimeError("the groups did not become stable")


def _receive_join(member: JoinedMember) -> int:
    response = member.connection.receive(m.JoinGroupResponse, JOIN)
    if response.error_code not in (0, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS):
        raise RuntimeError(f"JoinGroup: error {response.error_code}")
    member.member_id = response.member_id or member.member_id
    member.generation, member.leader = response.generation_id, response.leader
    return response.error_code


def _join_request(member: JoinedMember, session_ms: int) -> m.JoinGroupRequest:
    subscription = m.ConsumerProtocolSubscription(topics=["bench"], user_data=None)
    metadata = b"\0\0" + encode(subscription, 0)
    return m.JoinGroupRequest(
        group_id=member.group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member.member_id,
        protocol_type="consumer",
        protocols=[m.JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def _sync(members: Sequence[JoinedMember]) -> None:
    for is_leader in (False, True):
        time.sleep(SETTLE_S if is_leader else 0)
        for member in members:
            if (member.leader == member.member_id) is is_leader:
                member.connection.send(_sync_request(member, members), SYNC)
    for member in members:
        response = member.connection.receive(m.SyncGroupResponse, SYNC)
        if response.error_code:
            raise RuntimeError(f"SyncGroup: error {response.error_code}")


def _sync_request(
    member: JoinedMember, members: Sequence[JoinedMember]
) -> m.SyncGroupRequest:
    assignments: list[m.SyncGroupRequestAssignment] = []
    if member.leader == member.member_id:
        no_partitions = m.ConsumerProtocolAssignment(
            assigned_partitions=[], user_data=None
        )
        empty = b"\0\0" + encode(no_partitions, 0)
        assignments = [
            m.SyncGroupRequestAssignment(member_id=each.member_id, assignment=empty)
            for each in members
            if each.group == member.group
        ]
    return m.SyncGroupRequest(
        group_id=member.group,
        generation_id=member.generation,
        member_id=member.member_id,
        assignments=assignments,
    )
