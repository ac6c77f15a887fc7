"""What a member's heartbeats say, and when they are sent."""

from __future__ import annotations

import pytest

from coterie.client.member_states import MemberState
from coterie.client.member_values import Subscription
from coterie.errors import UnsupportedByBroker
from coterie.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client.script import (
    INTERVAL_MS,
    OTHER,
    OWN_ID,
    TOPIC,
    Script,
    listed,
    owned,
)


def bare(epoch: int, member_id: str = OWN_ID) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that says nothing new."""
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch
    )


@pytest.mark.fact("E7-78")
def test_joining_is_due_at_once_and_says_everything() -> None:
    script = Script(rack_id="r", server_assignor="range", rebalance_timeout_ms=7)
    assert script.wait_ms is None
    script.member.join()
    assert script.sent() == ConsumerGroupHeartbeatRequest(
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


@pytest.mark.fact("E7-77", "E7-78")
def test_an_empty_first_assignment_is_acknowledged_at_once() -> None:
    script = Script()
    script.member.join()
    script.sent()
    script.yes(5, [])
    assert script.member.state is MemberState.ACKNOWLEDGING
    assert script.steps() == []
    assert script.sent().topic_partitions == []
    assert script.member.state is MemberState.STABLE


@pytest.mark.fact("E7-76")
def test_a_steady_heartbeat_says_who_and_nothing_more() -> None:
    script = Script(instance_id="i")
    script.joined(5, owned(0))
    expected = bare(5)
    expected.instance_id = "i"
    assert script.sent_later() == expected


@pytest.mark.fact("E7-53")
def test_the_interval_of_an_answer_counts_from_the_heartbeat_it_answers() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.sent_later()
    script.now_ms += 700
    script.yes(5)
    assert script.wait_ms == INTERVAL_MS - 700


@pytest.mark.fact("E7-77")
def test_a_changed_assignment_is_acknowledged_with_all_that_is_owned() -> None:
    script = Script()
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
def test_a_target_that_changed_and_changed_back_is_acknowledged_too() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.sent_later()
    script.yes(5, owned(0, 1) - owned(1) | owned(9, topic=b"?" * 16))
    script.sent_later()
    script.yes(6, owned(0))
    assert script.member.state is MemberState.ACKNOWLEDGING
    assert script.sent().topic_partitions == listed(owned(0))


def test_an_epoch_that_moves_alone_is_not_acknowledged() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.sent_later()
    script.yes(6)
    assert script.member.state is MemberState.STABLE
    assert script.wait_ms == INTERVAL_MS
    assert script.sent_later() == bare(6)


@pytest.mark.fact("E7-51")
def test_no_assignment_is_no_change_and_an_empty_one_takes_everything() -> None:
    script = Script()
    script.joined(5, owned(0, 1))
    script.sent_later()
    script.yes(6)
    assert script.member.begin() is None
    script.sent_later()
    script.yes(7, [])
    script.steps()
    assert script.member.owned == owned()


def test_the_assignment_that_it_has_already_changes_nothing() -> None:
    script = Script()
    script.joined(5, owned(0, 1))
    script.sent_later()
    script.yes(5, owned(0, 1))
    assert script.member.state is MemberState.STABLE
    assert script.wait_ms == INTERVAL_MS


def test_another_subscription_is_sent_at_once_and_only_that() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.member.subscribe(Subscription(frozenset({"b", "a"})))
    expected = bare(5)
    expected.subscribed_topic_names = ["a", "b"]
    assert not script.member.is_accepted
    assert script.sent() == expected
    script.yes(6)
    assert script.member.is_accepted


def test_a_subscription_that_changes_while_one_is_asked_for_is_sent_next() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.member.subscribe(Subscription(frozenset({"a"})))
    script.sent()
    script.member.subscribe(Subscription(frozenset({"b"})))
    script.yes(6)
    assert not script.member.is_accepted
    assert script.sent().subscribed_topic_names == ["b"]


@pytest.mark.fact("E25-06")
def test_a_pattern_is_sent_and_taken_back_with_an_empty_one() -> None:
    script = Script(Subscription(pattern="or.*"))
    script.member.join()
    first = script.sent()
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == ([], "or.*")
    script.yes(1, [])
    script.member.subscribe(Subscription(frozenset({"orders"})))
    second = script.sent()
    assert second.subscribed_topic_names == ["orders"]
    assert second.subscribed_topic_regex == ""


def test_a_pattern_needs_version_1() -> None:
    script = Script(Subscription(pattern="or.*"), version=0)
    script.member.join()
    with pytest.raises(UnsupportedByBroker, match="subscribe by names"):
        script.sent()


@pytest.mark.fact("E10-02")
def test_version_1_sends_an_id_of_its_own_and_version_0_takes_what_it_is_given() -> (
    None
):
    own, given = Script(version=1), Script(version=0)
    own.member.join()
    given.member.join()
    assert own.sent().member_id == OWN_ID
    assert given.sent().member_id == ""
    given.yes(1, [], member_id="given-id")
    assert given.sent().member_id == "given-id"


def test_an_id_that_a_coordinator_knows_is_kept_at_one_that_is_older() -> None:
    script = Script(version=1)
    script.joined(5, owned(0))
    script.version = 0
    assert script.sent_later().member_id == OWN_ID


def test_one_heartbeat_is_in_flight_at_a_time() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.sent_later()
    script.member.hurry()
    assert script.wait_ms is None
    script.yes(5)
    assert script.is_due


def test_hurry_sends_a_heartbeat_at_once_and_only_one() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.member.hurry()
    assert script.sent().topic_partitions == listed(owned(0))
    script.yes(6)
    assert script.member.epoch == 6
    assert script.wait_ms == INTERVAL_MS


def test_the_states_on_the_way_to_an_assignment() -> None:
    script, seen = Script(), []
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
