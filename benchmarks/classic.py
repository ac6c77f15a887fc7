"""Classic groups joined for real, so that what is measured is a living group.

Rules of this file: JoinGroup 5 and SyncGroup 3, which every peer knows; followers sync
before the leader, because librdkafka's mock wants it so.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.peer import Peer, frame
from coterie.wire.codec import encode
from coterie.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from coterie.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

JOIN, SYNC = 5, 3
ROUNDS_MAX = 20
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27
REBALANCE_MS = 60_000
SETTLE_S = 0.3
"""For followers' requests to be read before their leader's, on other connections."""


@dataclass(slots=True)
class Joined:
    """One member on its own connection."""

    peer: Peer
    group: str
    member_id: str = ""
    generation: int = -1
    leader: str = ""

    def heartbeat(self) -> HeartbeatRequest:
        """What this member sends as long as nothing changes."""
        return HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
        )


@contextlib.contextmanager
def joined(
    address: str, groups: Sequence[str], members: int, session_ms: int = 45_000
) -> Iterator[list[Joined]]:
    """Stable groups of so many members each, every member on its own connection."""
    everybody = [
        Joined(Peer(address), group) for group in groups for _ in range(members)
    ]
    try:
        _join(everybody, session_ms)
        _sync(everybody)
        yield everybody
    finally:
        for member in everybody:
            member.peer.close()


def heartbeats(
    address: str, groups: Sequence[str], members: int, version: int
) -> list[bytes]:
    """Frames of steady heartbeats; their members live for one session without them."""
    with joined(address, groups, members) as everybody:
        return [frame(member.heartbeat(), version) for member in everybody]


def beat(everybody: Sequence[Joined], version: int = 4) -> list[int]:
    """One heartbeat of everybody; the error codes."""
    for member in everybody:
        member.peer.send(member.heartbeat(), version)
    answers = (m.peer.receive(HeartbeatResponse, version) for m in everybody)
    return [answer.error_code for answer in answers]


def _join(everybody: Sequence[Joined], session_ms: int) -> None:
    # A round answers 79 at once (here is your member id, join again), or 0 when all are
    # in; members that came in different rounds are brought together by joining again.
    for _ in range(ROUNDS_MAX):
        for member in everybody:
            member.peer.send(_join_request(member, session_ms), JOIN)
        codes = [_take_join(member) for member in everybody]
        generations = {(m.group, m.generation) for m in everybody}
        together = len(generations) == len({m.group for m in everybody})
        if not any(codes) and together:
            return
    raise RuntimeError("the groups did not settle")


def _take_join(member: Joined) -> int:
    answer = member.peer.receive(JoinGroupResponse, JOIN)
    if answer.error_code not in (0, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS):
        raise RuntimeError(f"JoinGroup: error {answer.error_code}")
    member.member_id = answer.member_id or member.member_id
    member.generation, member.leader = answer.generation_id, answer.leader
    return answer.error_code


def _join_request(member: Joined, session_ms: int) -> JoinGroupRequest:
    subscription = ConsumerProtocolSubscription(topics=["bench"], user_data=None)
    metadata = b"\0\0" + encode(subscription, 0)
    return JoinGroupRequest(
        group_id=member.group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member.member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def _sync(everybody: Sequence[Joined]) -> None:
    for leads in (False, True):
        time.sleep(SETTLE_S if leads else 0)
        for member in everybody:
            if (member.leader == member.member_id) is leads:
                member.peer.send(_sync_request(member, everybody), SYNC)
    for member in everybody:
        answer = member.peer.receive(SyncGroupResponse, SYNC)
        if answer.error_code:
            raise RuntimeError(f"SyncGroup: error {answer.error_code}")


def _sync_request(member: Joined, everybody: Sequence[Joined]) -> SyncGroupRequest:
    plan: list[SyncGroupRequestAssignment] = []
    if member.leader == member.member_id:
        nothing = ConsumerProtocolAssignment(assigned_partitions=[], user_data=None)
        empty = b"\0\0" + encode(nothing, 0)
        plan = [
            SyncGroupRequestAssignment(member_id=one.member_id, assignment=empty)
            for one in everybody
            if one.group == member.group
        ]
    return SyncGroupRequest(
        group_id=member.group,
        generation_id=member.generation,
        member_id=member.member_id,
        assignments=plan,
    )
