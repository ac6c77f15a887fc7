"""Timers of consumer groups that requests can show (E8)."""

from __future__ import annotations

import pytest

from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .consumer_group import Members


@pytest.fixture
def members(wire: WireClient, group: str, topic: str) -> Members:
    """A group without members, with a topic of two partitions."""
    return Members(wire, group, topic)


@pytest.mark.fact("E8-03", "E8-04", "E8-05")
def test_only_the_member_that_must_revoke_has_a_rebalance_timeout(
    members: Members,
) -> None:
    members.join("m", rebalance_timeout_ms=100)
    members.join("n", rebalance_timeout_ms=50)
    members.beat("n", members.epoch(2))
    members.beat("m", members.epoch(1))
    eventually(lambda: "m" not in members.names(), expected="m is fenced")
    assert members.names() == {"n"}


@pytest.mark.fact("E8-03a")
def test_a_member_that_revoked_has_no_rebalance_timeout(
    members: Members, topic: str
) -> None:
    members.join("m", rebalance_timeout_ms=100)
    members.join("n", rebalance_timeout_ms=300)
    members.beat("m", members.epoch(1))
    members.beat("m", members.epoch(1), owned=members.assignments["m"])
    members.settle("m", "n")
    # The rebalance timeout of n starts after that of m, and is longer.
    members.beat("n", members.epoch(2), subscribed_topic_names=[])
    eventually(lambda: "n" not in members.names(), expected="n is fenced")
    assert members.names() == {"m"}
    assert members.assignments["m"][topic]
