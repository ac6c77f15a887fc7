"""A server process that is stopped for longer than the session time-out (SIGSTOP, as a
paused virtual machine is): heartbeats that wait in its sockets renew their sessions."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message
from tests.broker.server.harness import WireClient
from tests.support.server_process import ServerProcess, start_server

GROUPS = 20
"""The number of groups of each protocol, each with one member and connection."""
SESSION_MS = 2_000
PAUSE_S = SESSION_MS / 1000 + 0.2
SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": SESSION_MS // 4,
    "group.consumer.min.heartbeat.interval.ms": SESSION_MS // 4,
}
RETRY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REBALANCE_IN_PROGRESS,
}


def call_until_loaded(client: WireClient, request: Message, version: int) -> Any:
    """Call until the coordinator is loaded."""
    while True:
        answer = client.call(request, version)
        if answer.error_code not in RETRY:
            assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
            return answer


def join_classic(
    client: WireClient, group_id: str, session_ms: int = SESSION_MS
) -> tuple[Message, int]:
    """Create a stable classic group; return its member's heartbeat and the version."""
    joined = call_until_loaded(
        client,
        m.JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        2,
    )
    member = {
        "group_id": group_id,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    assigned = m.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
    call_until_loaded(client, m.SyncGroupRequest(assignments=[assigned], **member), 2)
    return m.HeartbeatRequest(**member), 2


def join_consumer(client: WireClient, group_id: str) -> tuple[Message, int]:
    """Create a consumer group; return its member's heartbeat and the version."""
    joined = call_until_loaded(
        client,
        m.ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id="member",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["topic"],
            topic_partitions=[],
        ),
        1,
    )
    heartbeat = m.ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id="member", member_epoch=joined.member_epoch
    )
    return heartbeat, 1


@contextmanager
def stopped(server: ServerProcess) -> Iterator[None]:
    """Stop the process until its sessions are older than their time-out."""
    server.process.send_signal(signal.SIGSTOP)
    resumes_at = time.monotonic() + PAUSE_S
    try:
        yield
        time.sleep(max(resumes_at - time.monotonic(), 0))  # the length of the pause
    finally:
        server.process.send_signal(signal.SIGCONT)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_heartbeats_sent_during_a_pause_renew_their_sessions(loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    with ExitStack() as stack:
        server = stack.enter_context(start_server("--loop", loop, settings=SETTINGS))
        members: list[tuple[WireClient, Message, int]] = []
        for at in range(GROUPS):
            for join in (join_classic, join_consumer):
                client = stack.enter_context(server.client())
                members.append((client, *join(client, f"{join.__name__}-{at}")))
                for each, heartbeat, version in members:  # no session ends meanwhile
                    call_until_loaded(each, heartbeat, version)
        with stopped(server):
            for client, heartbeat, version in members:
                client.send(heartbeat, version)
        codes = [ErrorCode(client.receive().error_code) for client, *_ in members]
        assert codes == [ErrorCode.NONE] * len(members)
