"""Reconciliation of members, seen from outside (E5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.server.harness import WireClient

from .consumer_group import Members, set_group_config

NewTopic = Callable[[str, int], str]


@pytest.fixture
def members(wire: WireClient, group: str, topic: str) -> Members:
    """A group without members, with a topic of two partitions."""
    return Members(wire, group, topic)


def revoking(members: Members, topic: str) -> int:
    """Let m keep one of two partitions at its first epoch; return the partition."""
    members.join("m")
    members.join("n")
    sent = members.beat("m", members.epoch(1))
    assert sent.member_epoch == members.epoch(1)
    [kept] = members.assignments["m"][topic]
    return kept


@pytest.mark.fact("E5-01")
def test_a_stable_member_at_the_epoch_of_the_target_stays(
    members: Members, topic: str
) -> None:
    members.join("m")
    for owned in (None, {topic: [0, 1]}):
        sent = members.beat("m", members.epoch(1), owned=owned)
        assert (sent.member_epoch, sent.assignment) == (members.epoch(1), None)


@pytest.mark.fact("E5-01a", "E5-09")
def test_a_stable_member_advances_to_an_equal_target(
    members: Members, topic: str
) -> None:
    members.join("m")
    members.join("n", "no-such-topic")
    sent = members.beat("m", members.epoch(1))
    assert sent.member_epoch == members.epoch(2)
    assert members.owns("m") == {topic: [0, 1]}


@pytest.mark.fact("E5-02", "E5-05", "E5-06", "E3-06")
def test_a_member_that_has_not_revoked_keeps_its_epoch(
    members: Members, topic: str
) -> None:
    kept = revoking(members, topic)
    for owned in (None, {topic: [0, 1]}, {topic: [1 - kept]}):
        sent = members.beat("m", members.epoch(1), owned=owned)
        assert (sent.member_epoch, sent.assignment) == (members.epoch(1), None)


@pytest.mark.fact("E5-02a", "E5-09")
@pytest.mark.parametrize("keeps", [True, False])
def test_a_member_that_has_revoked_reaches_the_epoch_of_the_target(
    members: Members, topic: str, keeps: bool
) -> None:
    kept = revoking(members, topic)
    sent = members.beat("m", members.epoch(1), owned={topic: [kept]} if keeps else {})
    assert sent.member_epoch == members.epoch(2)
    assert members.owns("m") == {topic: [kept]}


@pytest.mark.fact("E5-03", "E5-05a", "E5-13")
def test_a_waiting_member_gets_a_partition_once_it_is_free(
    members: Members, topic: str
) -> None:
    kept = revoking(members, topic)
    waits = members.beat("n", members.epoch(2))
    assert (waits.member_epoch, waits.assignment) == (members.epoch(2), None)
    members.beat("m", members.epoch(1), owned={topic: [kept]})
    sent = members.beat("n", members.epoch(2))
    assert members.assigned(sent) == {topic: [1 - kept]}
    assert sent.member_epoch == members.epoch(2)


@pytest.mark.fact("E5-08", "E3-07")
def test_a_member_that_waits_has_the_epoch_of_the_target(members: Members) -> None:
    members.join("m")
    waits = members.join("n")
    assert waits.member_epoch == members.epoch(2)
    assert members.assigned(waits) == {}
    assert members.describe().group_state == "Reconciling"


@pytest.mark.fact("E5-07")
def test_free_partitions_are_assigned_beside_those_that_are_waited_for(
    members: Members, topic: str, new_topic: NewTopic
) -> None:
    other = members.add_topic(new_topic("other", 1))
    members.join("m", topic, server_assignor="range")
    joined = members.join("n", topic, other, server_assignor="range")
    assert members.targets("n").keys() == {topic, other}
    assert members.assigned(joined) == {other: [0]}
    assert joined.member_epoch == members.epoch(2)


@pytest.mark.fact("E5-12")
def test_a_member_gains_nothing_before_it_has_revoked(
    members: Members, topic: str, new_topic: NewTopic
) -> None:
    other = members.add_topic(new_topic("other", 2))
    members.join("m", topic)
    sent = members.beat("m", members.epoch(1), subscribed_topic_names=[other])
    assert members.assigned(sent) == {}
    assert sent.member_epoch == members.epoch(1)
    assert members.targets("m") == {other: [0, 1]}
    sent = members.beat("m", members.epoch(1), owned={})
    assert members.assigned(sent) == {other: [0, 1]}
    assert sent.member_epoch == members.epoch(2)


@pytest.mark.fact("E5-05c", "E5-15")
def test_a_topic_that_was_left_is_not_assigned_again_by_an_older_target(
    members: Members, topic: str, new_topic: NewTopic
) -> None:
    other = members.add_topic(new_topic("other", 1))
    name = "consumer.assignment.interval.ms"
    set_group_config(members.wire, members.group, name, "15000")
    members.join("m", topic, other)
    sent = members.beat("m", members.epoch(1), subscribed_topic_names=[other])
    assert members.assigned(sent) == {other: [0]}
    for _ in range(2):
        sent = members.beat("m", members.epoch(1), owned={other: [0]})
        assert (sent.error_code, sent.assignment) == (0, None)
    assert members.targets("m") == {topic: [0, 1], other: [0]}
    assert members.owns("m") == {other: [0]}


@pytest.mark.fact("E5-15a")
def test_a_member_that_must_revoke_loses_a_topic_that_it_leaves(
    members: Members, topic: str, new_topic: NewTopic
) -> None:
    other = members.add_topic(new_topic("other", 1))
    members.join("m", topic, other)
    sent = members.beat("m", members.epoch(1), subscribed_topic_names=[topic])
    assert members.assigned(sent) == {topic: [0, 1]}
    sent = members.beat("m", members.epoch(1), subscribed_topic_names=[])
    assert members.assigned(sent) == {}
    sent = members.beat("m", members.epoch(1), owned={other: [0]})
    assert (sent.member_epoch, sent.assignment) == (members.epoch(1), None)
    sent = members.beat("m", members.epoch(1), owned={topic: [0]})
    assert (sent.member_epoch, sent.assignment) == (members.epoch(1), None)
    sent = members.beat("m", members.epoch(1), owned={})
    assert sent.member_epoch == members.epoch(3)
