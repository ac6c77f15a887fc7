"""The reasons for which the epoch of a consumer group is bumped (E6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .consumer_group import Members, Response
from .members import join_classic, leave_classic

NewTopic = Callable[[str, int], str]


@pytest.fixture
def members(wire: WireClient, group: str, topic: str) -> Members:
    """A group without members, with a topic of two partitions."""
    return Members(wire, group, topic)


def assigned_at(members: Members, expected: dict[str, list[int]]) -> Response:
    """Let m send heartbeats until it has this assignment; return the response."""

    def arrived() -> Response | None:
        epoch = members.described("m").member_epoch
        sent = members.beat("m", epoch, owned=members.assignments["m"])
        assert sent.error_code == 0, sent
        return sent if members.assignments["m"] == expected else None

    found = eventually(arrived, expected=f"an assignment of {expected}")
    assert found is not None
    return found


@pytest.mark.fact("E6-01", "E6-33")
def test_each_join_with_topics_bumps_the_epoch(members: Members, topic: str) -> None:
    first = members.join("m")
    assert members.assigned(first) == {topic: [0, 1]}
    second = members.join("n")
    assert second.member_epoch == members.epoch(2)
    assert members.describe().group_epoch == members.epoch(2)


@pytest.mark.fact("E6-01a")
def test_a_join_without_topics_does_not_bump_the_epoch(members: Members) -> None:
    members.join("m")
    members.join("n", subscribed_topic_names=[])
    assert members.names() == {"m", "n"}
    assert members.describe().group_epoch == members.epoch(1)


@pytest.mark.fact("E6-02")
def test_a_leave_bumps_the_epoch(members: Members) -> None:
    members.join("m")
    members.join("n")
    members.beat("n", -1)
    assert members.describe().group_epoch == members.epoch(3)


@pytest.mark.fact("E6-04", "E8-03", "E8-04")
def test_a_member_that_does_not_revoke_in_time_is_fenced(
    members: Members, topic: str
) -> None:
    members.join("m", rebalance_timeout_ms=100)
    members.join("n")
    members.beat("m", members.epoch(1))
    eventually(lambda: members.names() == {"n"}, expected="m is fenced")
    assert members.describe().group_epoch == members.epoch(3)
    sent = members.beat("n", members.epoch(2))
    assert members.assigned(sent) == {topic: [0, 1]}


@pytest.mark.fact("E6-05", "E6-33")
@pytest.mark.parametrize("is_added", [True, False])
def test_another_list_of_topics_bumps_the_epoch(
    members: Members, topic: str, new_topic: NewTopic, is_added: bool
) -> None:
    other = members.add_topic(new_topic("other", 1))
    names = [topic] if is_added else [topic, other]
    members.join("m", *names)
    changed = [topic, other] if is_added else [other]
    sent = members.beat("m", members.epoch(1), subscribed_topic_names=changed, owned={})
    assert members.describe().group_epoch == members.epoch(2)
    assert sent.member_epoch == members.epoch(2)
    found = members.assigned(sent)
    assert found is not None
    assert found.keys() == set(changed)


@pytest.mark.fact("E6-06a")
def test_a_new_regular_expression_bumps_the_epoch_when_it_is_resolved(
    members: Members, topic: str
) -> None:
    members.join("n", subscribed_topic_names=[])
    joined = members.join("m", subscribed_topic_names=[], subscribed_topic_regex=topic)
    assert members.assigned(joined) == {}
    assigned_at(members, {topic: [0, 1]})
    assert members.describe().group_epoch == members.described("m").member_epoch


@pytest.mark.fact("E6-06")
def test_a_resolved_regular_expression_bumps_the_epoch_at_once(
    members: Members, topic: str
) -> None:
    members.join("m", subscribed_topic_names=[], subscribed_topic_regex=topic)
    before = assigned_at(members, {topic: [0, 1]}).member_epoch
    joined = members.join("n", subscribed_topic_names=[], subscribed_topic_regex=topic)
    assert joined.member_epoch == members.describe().group_epoch == before + 1
    assert members.targets("n")


@pytest.mark.fact("E6-06b")
def test_the_removal_of_a_regular_expression_bumps_the_epoch(
    members: Members, topic: str
) -> None:
    members.join("m", subscribed_topic_names=[], subscribed_topic_regex=topic)
    before = assigned_at(members, {topic: [0, 1]}).member_epoch
    sent = members.beat("m", before, subscribed_topic_regex="", owned={})
    assert members.assigned(sent) == {}
    assert members.describe().group_epoch == before + 1


@pytest.mark.fact("E6-10", "E6-32a", "E7-37b")
def test_added_partitions_bump_the_epoch(members: Members, topic: str) -> None:
    before = members.join("m").member_epoch
    added = m.CreatePartitionsTopic(name=topic, count=3, assignments=None)
    request = m.CreatePartitionsRequest(topics=[added], timeout_ms=10_000)
    [result] = members.wire.call(request, 3).results
    assert result.error_code == 0
    assert assigned_at(members, {topic: [0, 1, 2]}).member_epoch == before + 1


@pytest.mark.fact("E6-11a")
def test_a_deleted_topic_bumps_the_epoch(members: Members, topic: str) -> None:
    before = members.join("m").member_epoch
    gone = [m.DeleteTopicState(name=topic)]
    request = m.DeleteTopicsRequest(topics=gone, timeout_ms=10_000)
    [result] = members.wire.call(request, 6).responses
    assert result.error_code == 0
    assigned_at(members, {})
    sent = members.beat("m", members.described("m").member_epoch, owned={})
    assert sent.member_epoch == members.describe().group_epoch == before + 1


@pytest.mark.fact("E6-11b")
def test_a_topic_that_is_created_again_bumps_the_epoch(
    members: Members, topic: str, new_topic: NewTopic
) -> None:
    other = members.add_topic(new_topic("other", 1))
    before = members.join("m", other).member_epoch
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name=other)], timeout_ms=10_000
    )
    [result] = members.wire.call(request, 6).responses
    assert result.error_code == 0
    assert new_topic("other", 1) == other
    old = members.topic_ids.pop(other)
    members.topic_ids["deleted"] = old
    members.add_topic(other)
    assigned_at(members, {other: [0]})
    assert members.describe().group_epoch > before


@pytest.mark.fact("E6-13", "E6-20")
@pytest.mark.parametrize("changed", [{"rack_id": "r"}, {"rebalance_timeout_ms": 77}])
def test_another_rack_or_rebalance_timeout_does_not_bump_the_epoch(
    members: Members, changed: dict[str, object]
) -> None:
    members.join("m")
    sent = members.beat("m", members.epoch(1), **changed)  # type: ignore[arg-type]
    assert sent.member_epoch == members.epoch(1)
    assert members.describe().group_epoch == members.epoch(1)


@pytest.mark.fact("E6-15", "E6-16")
def test_a_static_member_that_restarts_does_not_bump_the_epoch(
    members: Members,
) -> None:
    members.join("m", instance_id="i")
    members.beat("m", -2, instance_id="i")
    assert members.describe().group_epoch == members.epoch(1)
    members.join("m2", instance_id="i")
    assert members.describe().group_epoch == members.epoch(1)


@pytest.mark.fact("E6-17")
def test_members_that_leave_group_removes_bump_the_epoch_once(
    members: Members,
) -> None:
    for member in ("m", "n", "o"):
        members.join(member)
    removed = leave_classic(members.wire, members.group, "m", "n")
    assert [each.error_code for each in removed.members] == [0, 0]
    assert members.names() == {"o"}
    assert members.describe().group_epoch == members.epoch(4)


@pytest.mark.fact("E6-19")
def test_a_classic_member_that_joins_bumps_the_epoch(
    members: Members, topic: str
) -> None:
    members.join("m")
    joined = join_classic(members.wire, members.group, topic)
    assert members.describe().group_epoch == joined.generation == members.epoch(2)
