"""Epochs and states of consumer groups (E1, E3, E4)."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .consumer_group import Members, set_group_config
from .members import commit_errors

STALE_MEMBER_EPOCH = 113


@pytest.fixture
def members(wire: WireClient, group: str, topic: str) -> Members:
    """A group without members, with a topic of two partitions."""
    return Members(wire, group, topic)


def commit_error(members: Members, topic: str, index: int, epoch: int) -> int:
    """Commit an offset of one partition as m; return its error."""
    offsets = {(topic, index): 7}
    [error] = commit_errors(
        members.wire, members.group, offsets, member_id="m", epoch=epoch
    ).values()
    return error


@pytest.mark.fact("E1-01")
def test_a_member_advances_without_waiting_for_the_others(members: Members) -> None:
    members.join("m")
    members.join("n")
    members.settle("m", "n")
    members.join("o")
    assert members.beat("m", members.epoch(2)).member_epoch == members.epoch(3)
    assert members.described("n").member_epoch == members.epoch(2)


@pytest.mark.fact("E1-02", "E7-20")
def test_one_api_joins_subscribes_reports_assigns_and_leaves(
    members: Members, topic: str
) -> None:
    joined = members.join("m", subscribed_topic_names=[])
    assert members.assigned(joined) == {}
    sent = members.beat("m", joined.member_epoch, subscribed_topic_names=[topic])
    assert members.assigned(sent) == {topic: [0, 1]}
    sent = members.beat("m", sent.member_epoch, owned={topic: [0, 1]})
    assert sent.error_code == 0
    assert members.beat("m", -1).member_epoch == -1
    assert members.names() == set()


@pytest.mark.fact("E1-03", "E1-04")
def test_an_assignment_is_complete_and_keeps_what_stays(
    members: Members, topic: str
) -> None:
    members.join("m")
    members.join("n")
    members.settle("m", "n")
    [kept] = members.assignments["m"][topic]
    assert kept in members.owns("m")[topic]
    members.beat("n", -1)
    sent = members.beat("m", members.epoch(2), owned={topic: [kept]})
    assert members.assigned(sent) == {topic: [0, 1]}
    assert sent.member_epoch == members.epoch(3)


@pytest.mark.fact("E3-01")
def test_each_new_assignment_has_the_next_epoch(members: Members) -> None:
    members.join("m")
    members.join("n")
    members.settle("m", "n")
    assert members.describe().group_epoch == members.epoch(2)
    members.beat("n", -1)
    assert members.describe().group_epoch == members.epoch(3)


@pytest.mark.fact("E3-02", "E3-02a")
def test_the_heartbeat_that_bumps_the_epoch_computes_its_target(
    members: Members,
) -> None:
    for nth, member in enumerate(("m", "n", "o"), start=1):
        members.join(member)
        known = members.describe()
        assert known.group_epoch == known.assignment_epoch == members.epoch(nth)


@pytest.mark.fact("E3-02b", "E4-02", "E4-01a")
def test_a_target_waits_for_the_assignment_interval(
    members: Members, topic: str
) -> None:
    name = "consumer.assignment.interval.ms"
    set_group_config(members.wire, members.group, name, "15000")
    members.join("m")
    joined = members.join("n")
    assert members.assigned(joined) == {}
    assert joined.member_epoch == members.epoch(1)
    known = members.describe()
    assert known.group_state == "Assigning"
    assert known.group_epoch == members.epoch(2)
    assert known.assignment_epoch == members.epoch(1)
    assert members.targets("m") == {topic: [0, 1]}


@pytest.mark.fact("E3-04")
def test_the_member_epoch_is_that_of_the_target_it_moved_to(members: Members) -> None:
    members.join("m")
    members.join("n", "no-such-topic")
    assert members.described("m").member_epoch == members.epoch(1)
    assert members.described("n").member_epoch == members.epoch(2)
    assert members.beat("m", members.epoch(1)).member_epoch == members.epoch(2)
    assert members.described("m").member_epoch == members.epoch(2)


@pytest.mark.fact("E3-05")
def test_a_commit_with_a_later_epoch_is_stale(members: Members, topic: str) -> None:
    members.join("m")
    assert commit_error(members, topic, 0, members.epoch(1)) == 0
    assert commit_error(members, topic, 0, members.epoch(2)) == STALE_MEMBER_EPOCH


@pytest.mark.fact("E3-11")
def test_a_partition_keeps_the_epoch_at_which_it_was_assigned(
    members: Members, topic: str
) -> None:
    members.join("m")
    members.join("n")
    members.settle("m", "n")
    [kept] = members.assignments["m"][topic]
    members.beat("n", -1)
    members.beat("m", members.epoch(2))
    assert members.owns("m") == {topic: [0, 1]}
    assert commit_error(members, topic, kept, members.epoch(1)) == 0
    got = 1 - kept
    assert commit_error(members, topic, got, members.epoch(2)) == STALE_MEMBER_EPOCH
    assert commit_error(members, topic, got, members.epoch(3)) == 0


@pytest.mark.fact("E4-01", "E4-01a", "E4-01b", "E4-01c", "E4-03", "E4-04")
def test_the_states_of_a_group(members: Members) -> None:
    members.join("m")
    assert members.describe().group_state == "Stable"
    members.join("n")
    assert members.describe().group_state == "Reconciling"
    members.settle("m", "n")
    members.beat("n", -1)
    assert members.describe().group_state == "Assigning"
    members.beat("m", members.epoch(2))
    assert members.describe().group_state == "Stable"
    members.beat("m", -1)
    assert members.describe().group_state == "Empty"


@pytest.mark.fact("E4-03a")
@pytest.mark.parametrize("state", ["Stable", "stable", "STABLE"])
def test_a_filter_by_state_ignores_case(members: Members, state: str) -> None:
    members.join("m")
    listed = members.wire.call(m.ListGroupsRequest(states_filter=[state]), 5).groups
    [found] = [each for each in listed if each.group_id == members.group]
    assert found.group_state == "Stable"
    other = members.wire.call(m.ListGroupsRequest(states_filter=["Empty"]), 5).groups
    assert members.group not in {each.group_id for each in other}
