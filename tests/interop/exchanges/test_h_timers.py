"""Members that do not act within their rebalance timeout."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import (
    Beating,
    assign_at_once,
    describe_classic,
    describe_consumer,
    join_request,
)

REBALANCE_IN_PROGRESS = 27
SHORT_MS = 300
TO_SYNC_MS = 1_000
"""A classic member must send its sync in this time, too."""


def member_ids(wire: WireClient, group: str) -> set[str]:
    return {each.member_id for each in describe_consumer(wire, group).members}


@pytest.mark.slow
@pytest.mark.fact("H-63a", "H-64")
def test_a_member_that_does_not_revoke_in_time_is_removed(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    first = Beating(wire, group, topic, rebalance_timeout_ms=SHORT_MS).owning(2)
    second = Beating(wire, group, topic)
    first.beat()
    eventually(
        lambda: member_ids(wire, group) == {second.id}, expected="the first is removed"
    )
    assert describe_consumer(wire, group).group_epoch == second.epoch + 1
    second.owning(2)


@pytest.mark.slow
@pytest.mark.fact("H-145")
def test_a_classic_member_that_does_not_rejoin_in_time_is_removed(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    modern = Beating(wire, group, topic).owning(2)
    request = join_request(group, topic, rebalance_timeout_ms=TO_SYNC_MS)
    joined = wire.call(request, 3)
    sync = m.SyncGroupRequest(
        group_id=group,
        member_id=joined.member_id,
        generation_id=joined.generation_id,
    )
    assert wire.call(sync, 3).error_code == 0
    epoch = Beating(wire, group, f"{topic}-missing").epoch
    beat = m.HeartbeatRequest(
        group_id=group,
        member_id=joined.member_id,
        generation_id=joined.generation_id,
    )
    assert wire.call(beat, 3).error_code == REBALANCE_IN_PROGRESS
    eventually(
        lambda: joined.member_id not in member_ids(wire, group),
        expected="the classic member is removed",
    )
    assert modern.id in member_ids(wire, group)
    assert describe_consumer(wire, group).group_epoch == epoch + 1


@pytest.mark.slow
@pytest.mark.fact("H-136c")
def test_a_group_is_downgraded_when_its_last_modern_member_does_not_revoke(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    modern = Beating(wire, group, topic, rebalance_timeout_ms=SHORT_MS).owning(2)
    joined = wire.call(join_request(group, topic), 3)
    assert joined.error_code == 0
    modern.beat()
    eventually(
        lambda: describe_classic(wire, group).group_state == "PreparingRebalance",
        expected="a classic group",
    )
    [member] = describe_classic(wire, group).members
    assert member.member_id == joined.member_id
