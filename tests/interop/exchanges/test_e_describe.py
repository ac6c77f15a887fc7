"""What ConsumerGroupDescribe shows of groups and members (E16)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .consumer_group import Members
from .mixed_group import Group

NO_OPERATIONS = -(2**31)


@pytest.mark.fact("E16-01", "E16-02")
def test_a_description_has_every_field(
    wire: WireClient, group: str, topic: str
) -> None:
    members = Members(wire, group)
    members.add_topic(topic)
    fields = {"instance_id": "i", "rack_id": "r", "server_assignor": "range"}
    epoch = members.join("m", **fields).member_epoch
    for includes in (False, True):
        request = m.ConsumerGroupDescribeRequest(
            group_ids=[group], include_authorized_operations=includes
        )
        [found] = wire.call(request, 0).groups
        assert (found.error_code, found.error_message) == (0, None)
        assert (found.group_id, found.group_state) == (group, "Stable")
        assert (found.group_epoch, found.assignment_epoch) == (epoch, epoch)
        assert found.assignor_name == "range"
        assert (found.authorized_operations != NO_OPERATIONS) is includes
        [described] = found.members
        assert (described.member_id, described.member_epoch) == ("m", epoch)
        assert (described.instance_id, described.rack_id) == ("i", "r")
        assert (described.client_id, described.client_host) == ("test", "/127.0.0.1")
        assert described.subscribed_topic_names == [topic]
        assert described.subscribed_topic_regex == ""
        assert described.member_type == -1
        assert described.assignment == described.target_assignment
        [assigned] = described.assignment.topic_partitions
        assert (assigned.topic_name, sorted(assigned.partitions)) == (topic, [0, 1])
        assert assigned.topic_id == members.topic_ids[topic]


@pytest.mark.fact("E16-03")
def test_version_1_has_the_type_of_each_member(
    wire: WireClient, group: str, topic: str
) -> None:
    here = Group(wire, group, topic)
    member = here.consumer()
    joined = here.join(group_instance_id="c")
    types = {member.id: 1, joined.member_id: 0}
    for version in (0, 1):
        request = m.ConsumerGroupDescribeRequest(group_ids=[group])
        [found] = wire.call(request, version).groups
        expected = dict.fromkeys(types, -1) if version == 0 else types
        assert {each.member_id: each.member_type for each in found.members} == expected


@pytest.mark.fact("E16-11")
def test_a_deleted_topic_is_left_out(
    wire: WireClient, group: str, new_topic: Callable[[str, int], str]
) -> None:
    kept, deleted = new_topic("kept", 1), new_topic("deleted", 1)
    members = Members(wire, group)
    members.add_topic(kept)
    members.add_topic(deleted)
    members.join("a")
    members.settle("a")
    assert members.owns("a") == {kept: [0], deleted: [0]}
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name=deleted)], timeout_ms=10_000
    )
    [answer] = wire.call(request, 6).responses
    assert answer.error_code == 0
    # No member has sent a heartbeat since, so the group still has the topic's id.
    eventually(
        lambda: (members.owns("a"), members.targets("a")) == ({kept: [0]},) * 2,
        expected="no deleted topic",
    )
