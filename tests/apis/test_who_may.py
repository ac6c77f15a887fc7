"""Requests about one group ask the authorizer what Kafka's ask (kip-facts E27)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.sync_group import SyncGroupRequest
from coterie.wire.schema import Message
from tests.apis.live import Live, node_of

GROUP: Final = "whose"
REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED

REQUESTS: Final[list[Message]] = [
    JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="m",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    ),
    SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m"),
    HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"),
    LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="m")]),
]


def ask(live: Live, request: Message) -> Any:
    return live.call(request, request.VERSIONS.high, node=node_of(GROUP))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_only_who_may_read_a_group_takes_part_in_it(
    live: Live, request_: Message
) -> None:
    with live.rules.deny((Operation.READ, ResourceType.GROUP, GROUP)):
        assert ask(live, request_).error_code == REFUSED
    assert ask(live, request_).error_code != REFUSED


def commit(live: Live, *topics: str) -> dict[str, int]:
    """The code of each topic's partition 0."""
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    asked = [
        OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in topics
    ]
    request = OffsetCommitRequest(group_id=GROUP, topics=asked)
    answer = live.call_owner(GROUP, request, 9)
    return {each.name: each.partitions[0].error_code for each in answer.topics}


@pytest.fixture(scope="session", autouse=True)
def topics(live: Live) -> None:
    live.create_topic("may-read")
    live.create_topic("may-not")


def test_only_who_may_read_a_group_commits_for_it(live: Live) -> None:
    with live.rules.deny((Operation.READ, ResourceType.GROUP, GROUP)):
        assert commit(live, "may-read") == {"may-read": REFUSED}
    assert commit(live, "may-read") == {"may-read": 0}


def test_a_commit_counts_for_the_topics_that_may_be_read(live: Live) -> None:
    with live.rules.deny((Operation.READ, ResourceType.TOPIC, "may-not")):
        assert commit(live, "may-not", "may-read") == {
            "may-not": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "may-read": 0,
        }
