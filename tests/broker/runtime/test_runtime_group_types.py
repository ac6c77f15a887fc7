"""A classic member joins a consumer group while the disk fails."""

from __future__ import annotations

import pytest

from coterie.errors import LogError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import join_request
from tests.broker.coordinator.consumer.classic_requests import offers
from tests.broker.runtime.world import World

HEARTBEAT = m.ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=10_000,
    subscribed_topic_names=["t"],
    topic_partitions=[],
)


def classic_join() -> m.JoinGroupRequest:
    return join_request("c", protocols=offers("t"))


@pytest.mark.fact("H-140")
def test_a_classic_join_of_a_consumer_group_whose_write_fails_leaves_no_member() -> (
    None
):
    world = World()
    assert world.call(HEARTBEAT, "g").error_code == ErrorCode.NONE
    world.disk_fails = LogError("broken")
    refused = world.call(classic_join(), "g")
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    driven = world.driven("g")
    group = driven.shard.state.consumer_groups["g"]
    assert list(group.members) == ["m"]
    assert not [key for key in driven.timers.entries if key[-1] == "c"]
    world.disk_fails = None
    assert world.call(classic_join(), "g").error_code == ErrorCode.NONE
    kinds = {key[0] for key in driven.timers.entries if key[-1] == "c"}
    assert kinds == {"session", "sync"}
