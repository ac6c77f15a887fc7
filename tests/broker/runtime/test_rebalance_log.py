"""The log of rebalances, of a running server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coterie.broker.coordinator.consumer.record_builders import epoch_record
from coterie.broker.coordinator.consumer.replay import replay
from coterie.broker.coordinator.result import Result
from coterie.broker.coordinator.state import State
from coterie.broker.runtime import rebalance_log
from coterie.broker.runtime.rebalance_log import RebalanceLog, groups_before
from coterie.wire import messages as m
from tests.broker.server.harness import ThreadServer, WireClient

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def client() -> Iterator[WireClient]:
    with (
        ThreadServer(
            group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0
        ) as server,
        server.client() as client,
    ):
        yield client


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Return a function that returns the fields of the lines since its last call."""
    caplog.set_level(logging.INFO)

    def take() -> list[dict[str, Any]]:
        found = [
            {"event": vars(each)["event"], **vars(each)["fields"]}
            for each in caplog.records
            if each.name == rebalance_log.__name__
        ]
        caplog.clear()
        return found

    return take


def join_of(member_id: str = "", **fields: Any) -> m.JoinGroupRequest:
    return m.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"")],
        **fields,
    )


def join(client: WireClient, **fields: Any) -> str:
    """Join a classic group as a new member and sync; return the member id."""
    joined = client.call(join_of(**fields), 3)
    assert joined.error_code == 0
    sync(client, joined.member_id, joined.generation_id)
    return str(joined.member_id)


def sync(client: WireClient, member_id: str, generation: int) -> None:
    request = m.SyncGroupRequest(
        group_id="g", generation_id=generation, member_id=member_id
    )
    assert client.call(request, 3).error_code == 0


def test_a_classic_group_has_a_line_when_a_rebalance_starts_and_ends(
    client: WireClient, lines: Lines
) -> None:
    join(client)
    started, ended = lines()
    assert started == {
        "event": "rebalance_started",
        "group": "g",
        "type": "classic",
        "reason": "a new member joined",
        "members": 0,
        "generation": 0,
    }
    assert ended.pop("duration_ms") >= 0
    assert ended == {
        "event": "rebalance",
        "group": "g",
        "type": "classic",
        "reason": "a new member joined",
        "outcome": "stable",
        "members_before": 0,
        "members_after": 1,
        "generation_before": 0,
        "generation_after": 1,
    }


def test_a_leave_is_the_reason_of_an_empty_group(
    client: WireClient, lines: Lines
) -> None:
    member_id = join(client)
    lines()
    leave = m.LeaveGroupRequest(
        group_id="g", members=[m.MemberIdentity(member_id=member_id, reason="closed")]
    )
    assert client.call(leave, 5).error_code == 0
    started, ended = lines()
    assert started["reason"] == f"member {member_id} left: closed"
    assert (ended["outcome"], ended["members_before"], ended["members_after"]) == (
        "empty",
        1,
        0,
    )
    assert (ended["generation_before"], ended["generation_after"]) == (1, 2)


def test_a_rejoin_of_the_leader_is_a_rebalance(
    client: WireClient, lines: Lines
) -> None:
    member_id = join(client)
    lines()
    joined = client.call(join_of(member_id, reason="new topics"), 8)
    [started] = lines()
    assert started["reason"] == f"member {member_id} joined: new topics"
    assert started["members"] == 1
    sync(client, member_id, joined.generation_id)
    [ended] = lines()
    assert ended["generation_after"] == 2


def heartbeat(client: WireClient, member_id: str, epoch: int, **fields: Any) -> None:
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="c", member_id=member_id, member_epoch=epoch, **fields
    )
    if not epoch:
        request.rebalance_timeout_ms = 10_000
        request.topic_partitions = []
        request.subscribed_topic_names = ["t"]
    assert client.call(request, 1).error_code == 0


def test_a_consumer_group_has_a_line_when_its_epoch_changes_and_when_it_is_stable(
    client: WireClient, lines: Lines
) -> None:
    heartbeat(client, "m", 0)
    started, ended = lines()
    assert started == {
        "event": "rebalance_started",
        "group": "c",
        "type": "consumer",
        "reason": "member m joined",
        "members": 0,
        "epoch": 0,
    }
    assert ended.pop("duration_ms") >= 0
    assert ended == {
        "event": "rebalance",
        "group": "c",
        "type": "consumer",
        "reason": "member m joined",
        "outcome": "stable",
        "members_before": 0,
        "members_after": 1,
        "epoch_before": 0,
        "epoch_after": 1,
    }
    heartbeat(client, "n", 0)
    [started] = lines()
    assert (started["reason"], started["members"], started["epoch"]) == (
        "member n joined",
        1,
        1,
    )
    heartbeat(client, "m", 1)
    [ended] = lines()
    assert (ended["epoch_before"], ended["epoch_after"]) == (1, 2)
    assert (ended["members_before"], ended["members_after"]) == (1, 2)
    heartbeat(client, "n", 2, subscribed_topic_names=["u"])
    started, *_ = lines()
    assert started["reason"] == "member n changed its subscription"


def test_a_rebalance_is_over_when_the_last_member_leaves(
    client: WireClient, lines: Lines
) -> None:
    heartbeat(client, "m", 0)
    lines()
    heartbeat(client, "m", -1)
    started, ended = lines()
    assert started["reason"] == "member m left"
    assert (ended["outcome"], ended["members_after"]) == ("empty", 0)


def test_a_rebalance_lasts_until_no_newer_epoch_is_in_progress(
    client: WireClient, lines: Lines
) -> None:
    for member_id in ("m", "n", "o"):
        heartbeat(client, member_id, 0)
    lines()
    heartbeat(client, "m", 1)
    heartbeat(client, "n", 2)
    [ended] = lines()
    assert (ended["epoch_before"], ended["epoch_after"]) == (1, 3)
    assert (ended["members_before"], ended["members_after"]) == (1, 3)


def test_a_record_of_an_unchanged_epoch_starts_no_rebalance(lines: Lines) -> None:
    state = State()
    replay(state, epoch_record("g", 1, 5))
    result = Result(records=(epoch_record("g", 1, 6),))
    before = groups_before(state, result)
    replay(state, *result.records)
    RebalanceLog().observe(state, None, result, before, now_ms=0)
    assert lines() == []


def test_commits_and_stable_heartbeats_have_no_line(
    client: WireClient, lines: Lines
) -> None:
    heartbeat(client, "m", 0)
    lines()
    for _ in range(3):
        heartbeat(client, "m", 1, topic_partitions=[])
    heartbeat(client, "m", 1, rebalance_timeout_ms=7_000)
    commit = m.OffsetCommitRequest(
        group_id="other",
        topics=[
            m.OffsetCommitRequestTopic(
                name="t",
                partitions=[m.OffsetCommitRequestPartition(committed_offset=1)],
            )
        ],
    )
    client.call(commit, 8)
    assert lines() == []


def test_lines_are_limited(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance_log, "LINES_PER_S", 3)
    log = RebalanceLog()
    for _ in range(10):
        log._log("rebalance", 1_000, {})
    log._log("rebalance", 2_000, {})
    assert [line.get("suppressed") for line in lines()] == [None, None, None, 7]


def test_a_listener_gets_the_events_above_the_limit_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebalance_log, "LINES_PER_S", 3)
    log = RebalanceLog()
    heard: list[int] = []
    log.listener = lambda event, time_ms, fields: heard.append(time_ms)
    for _ in range(10):
        log._log("rebalance", 1_000, {})
    assert heard == [1_000] * 10
