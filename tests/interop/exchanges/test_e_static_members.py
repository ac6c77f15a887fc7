"""Static members of consumer groups: leaving, returning and being fenced (E9)."""

from __future__ import annotations

import pytest

from tests.broker.server.harness import WireClient

from .consumer_group import (
    FENCED_INSTANCE_ID,
    INVALID_REQUEST,
    UNKNOWN_MEMBER_ID,
    Members,
)
from .members import commit_errors


@pytest.fixture
def members(wire: WireClient, group: str, topic: str) -> Members:
    """A group in which m, with instance id i, has both partitions of a topic."""
    members = Members(wire, group, topic)
    joined = members.join("m", instance_id="i")
    assert members.assigned(joined) == {topic: [0, 1]}
    return members


@pytest.mark.fact("E7-63", "E7-63a", "E7-63b", "E9-11b")
def test_a_temporary_leave_keeps_the_member(members: Members, topic: str) -> None:
    sent = members.beat("m", -2, instance_id="i")
    assert (sent.error_code, sent.member_id, sent.member_epoch) == (0, "m", -2)
    known = members.described("m")
    assert (known.member_epoch, known.instance_id) == (-2, "i")
    assert members.owns("m") == members.targets("m") == {topic: [0, 1]}
    assert members.describe().group_epoch == members.epoch(1)


@pytest.mark.fact("E9-11a")
def test_others_wait_for_the_partitions_of_an_absent_member(
    members: Members, topic: str
) -> None:
    members.beat("m", -2, instance_id="i")
    assert members.assigned(members.join("n")) == {}
    [wanted] = members.targets("n")[topic]
    returned = members.join("m2", instance_id="i")
    assert members.assigned(returned) == {topic: [1 - wanted]}
    sent = members.beat("n", members.epoch(2))
    assert members.assigned(sent) == {topic: [wanted]}


@pytest.mark.fact("E9-01", "E9-05", "E9-06", "E9-06a")
def test_a_returning_member_has_its_partitions_under_its_new_id(
    members: Members, topic: str
) -> None:
    members.beat("m", -2, instance_id="i")
    sent = members.join("m2", instance_id="i")
    assert members.assigned(sent) == {topic: [0, 1]}
    assert sent.member_epoch == members.epoch(1)
    assert members.names() == {"m2"}
    assert members.describe().group_epoch == members.epoch(1)


@pytest.mark.fact("E7-63d")
def test_a_returning_member_may_commit_with_an_earlier_epoch(
    members: Members, topic: str
) -> None:
    members.join("n")
    members.beat("n", members.epoch(2))
    members.beat("m", -2, instance_id="i")
    members.beat("n", -1)
    sent = members.join("m2", instance_id="i")
    assert sent.member_epoch == members.epoch(3)
    errors = commit_errors(
        members.wire,
        members.group,
        {(topic, 0): 1, (topic, 1): 1},
        member_id="m2",
        epoch=0,
    )
    assert set(errors.values()) == {0}


@pytest.mark.fact("E9-08a")
def test_a_heartbeat_with_the_instance_id_of_another_member_is_fenced(
    members: Members,
) -> None:
    sent = members.beat("n", members.epoch(1), instance_id="i")
    assert sent.error_code == FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(-1, marks=pytest.mark.fact("E7-62a")),
        pytest.param(-2, marks=pytest.mark.fact("E9-10")),
    ],
)
def test_a_leave_with_an_unknown_instance_id_is_refused(
    members: Members, epoch: int
) -> None:
    sent = members.beat("m", epoch, instance_id="j")
    assert sent.error_code == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(-1, marks=pytest.mark.fact("E7-62a")),
        pytest.param(-2, marks=pytest.mark.fact("E9-10a")),
    ],
)
def test_a_leave_with_the_instance_id_of_another_member_is_fenced(
    members: Members, epoch: int
) -> None:
    sent = members.beat("n", epoch, instance_id="i")
    assert sent.error_code == FENCED_INSTANCE_ID
    assert members.names() == {"m"}


def test_a_temporary_leave_of_a_dynamic_member_is_refused(members: Members) -> None:
    members.join("n")
    assert members.beat("n", -2).error_code == INVALID_REQUEST


@pytest.mark.fact("E9-06b")
def test_a_returning_member_keeps_fields_that_it_does_not_send(
    members: Members,
) -> None:
    members.beat("m", members.epoch(1), instance_id="i", rack_id="r")
    members.beat("m", -2, instance_id="i")
    members.join("m2", instance_id="i")
    assert members.described("m2").rack_id == "r"
