"""The contents and times of a member's heartbeats."""

from __future__ import annotations

import pytest

from coterie.client.member_states import MemberState, Subscription
from coterie.errors import UnsupportedByBroker
from coterie.wire import messages as m
from tests.client.membership_script import (
    INTERVAL_MS,
    OTHER,
    OWN_ID,
    TOPIC,
    MembershipScript,
    listed,
    owned,
)


def bare(epoch: int, member_id: str = OWN_ID) -> m.ConsumerGroupHeartbeatRequest:
    """Return a heartbeat without changes."""
    return m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch
    )


@pytest.mark.fact("E7-78")
def test_the_joining_heartbeat_is_sent_immediately_with_all_fields() -> None:
    script = MembershipScript(
        rack_id="r", server_assignor="range", rebalance_timeout_ms=7
    )
    assert script.wait_ms is None
    script.member.join()
    assert script.sent() == m.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=OWN_ID,
        member_epoch=0,
        rack_id="r",
        rebalance_timeout_ms=7,
        subscribed_topic_names=["orders"],
        server_assignor="range",
        topic_partitions=[],
    )
    assert script.member.state is MemberState.JOINING


@pytest.mark.fact("E25-02a")
def test_no_server_assignor_is_sent_by_default() -> None:
    script = MembershipScript()
    script.member.join()
    assert script.sent().server_assignor is None


@pytest.mark.fact("E7-77", "E7-78")
def test_an_empty_first_assignment_is_acknowledged_immediately() -> None:
    script = MembershipScript()
    script.member.join()
    script.sent()
    script.yes(5, [])
    assert script.member.state is MemberState.ACKNOWLEDGING
    assert script.steps() == []
    assert script.sent().topic_partitions == []
    assert script.member.state is MemberState.STABLE


@pytest.mark.fact("E7-76")
def test_a_heartbeat_without_changes_contains_only_ids_and_epoch() -> None:
    script = MembershipScript(instance_id="i")
    script.joined(5, owned(0))
    expected = bare(5)
    expected.instance_id = "i"
    assert script.sent_later() == expected


@pytest.mark.fact("E7-53")
def test_the_heartbeat_interval_starts_when_the_request_is_sent() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.now_ms += 700
    script.yes(5)
    assert script.wait_ms == INTERVAL_MS - 700


@pytest.mark.fact("E7-77")
def test_a_changed_assignment_is_acknowledged_with_all_owned_partitions() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.yes(6, owned(0, 1) | owned(3, topic=OTHER))
    script.steps()
    acknowledgement = script.sent()
    assert acknowledgement.topic_partitions == listed(
        [*owned(0, 1), *owned(3, topic=OTHER)]
    )
    assert acknowledgement.subscribed_topic_names is None
    assert acknowledgement.rebalance_timeout_ms == -1
    script.yes(6)
    assert script.wait_ms == INTERVAL_MS


@pytest.mark.fact("E7-77")
def test_an_assignment_that_changed_back_is_acknowledged() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.yes(5, owned(0, 1) - owned(1) | owned(9, topic=b"?" * 16))
    script.sent_later()
    script.yes(6, owned(0))
    assert script.member.state is MemberState.ACKNOWLEDGING
    assert script.sent().topic_partitions == listed(owned(0))


def test_a_response_with_a_new_epoch_only_is_not_acknowledged() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.yes(6)
    assert script.member.state is MemberState.STABLE
    assert script.wait_ms == INTERVAL_MS
    assert script.sent_later() == bare(6)


@pytest.mark.fact("E7-51")
def test_only_an_empty_assignment_revokes_everything() -> None:
    script = MembershipScript()
    script.joined(5, owned(0, 1))
    script.sent_later()
    script.yes(6)
    assert script.member.begin() is None
    script.sent_later()
    script.yes(7, [])
    script.steps()
    assert script.member.owned == owned()


def test_an_unchanged_assignment_changes_nothing() -> None:
    script = MembershipScript()
    script.joined(5, owned(0, 1))
    script.sent_later()
    script.yes(5, owned(0, 1))
    assert script.member.state is MemberState.STABLE
    assert script.wait_ms == INTERVAL_MS


def test_a_changed_subscription_is_sent_immediately_without_other_fields() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.member.subscribe(Subscription(frozenset({"b", "a"})))
    expected = bare(5)
    expected.subscribed_topic_names = ["a", "b"]
    assert not script.member.is_accepted
    assert script.sent() == expected
    script.yes(6)
    assert script.member.is_accepted


def test_a_subscription_changed_during_a_heartbeat_is_sent_next() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.member.subscribe(Subscription(frozenset({"a"})))
    script.sent()
    script.member.subscribe(Subscription(frozenset({"b"})))
    script.yes(6)
    assert not script.member.is_accepted
    assert script.sent().subscribed_topic_names == ["b"]


@pytest.mark.fact("E25-06")
def test_a_regex_is_sent_and_an_empty_regex_removes_it() -> None:
    script = MembershipScript(Subscription(pattern="or.*"))
    script.member.join()
    first = script.sent()
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == ([], "or.*")
    script.yes(1, [])
    script.member.subscribe(Subscription(frozenset({"orders"})))
    second = script.sent()
    assert second.subscribed_topic_names == ["orders"]
    assert second.subscribed_topic_regex == ""


def test_a_regex_requires_version_1() -> None:
    script = MembershipScript(Subscription(pattern="or.*"), version=0)
    script.member.join()
    with pytest.raises(UnsupportedByBroker, match="subscribe by topic names"):
        script.sent()


@pytest.mark.fact("E10-02")
def test_the_member_id_is_sent_in_version_1_and_received_in_version_0() -> None:
    own, given = MembershipScript(version=1), MembershipScript(version=0)
    own.member.join()
    given.member.join()
    assert own.sent().member_id == OWN_ID
    assert given.sent().member_id == ""
    given.yes(1, [], member_id="given-id")
    assert given.sent().member_id == "given-id"


def test_the_member_id_does_not_change_on_an_older_coordinator() -> None:
    script = MembershipScript(version=1)
    script.joined(5, owned(0))
    script.version = 0
    assert script.sent_later().member_id == OWN_ID


def test_one_heartbeat_is_in_flight_at_a_time() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.member.request_heartbeat()
    assert script.wait_ms is None
    script.yes(5)
    assert script.is_due


def test_a_requested_heartbeat_is_sent_once() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.member.request_heartbeat()
    assert script.sent().topic_partitions == listed(owned(0))
    script.yes(6)
    assert script.member.epoch == 6
    assert script.wait_ms == INTERVAL_MS


def test_an_assignment_has_the_documented_state_transitions() -> None:
    script, seen = MembershipScript(), []
    member = script.member
    seen.append(member.state)
    member.join()
    seen.append(member.state)
    script.sent()
    script.yes(5, owned(0))
    seen.append(member.state)
    member.begin()
    seen.append(member.state)
    member.finish()
    seen.append(member.state)
    script.sent()
    seen.append(member.state)
    assert [state.name for state in seen] == [
        "UNSUBSCRIBED",
        "JOINING",
        "RECONCILING",
        "RECONCILING",
        "ACKNOWLEDGING",
        "STABLE",
    ]
    assert member.named(member.owned) == {("orders", 0)}
    assert TOPIC in member.names
