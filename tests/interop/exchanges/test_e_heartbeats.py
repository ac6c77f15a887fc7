"""ConsumerGroupHeartbeat: groups, members and what a response has (E7.5, E7.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.server.harness import WireClient

from .conftest import Connect
from .consumer_group import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    UNKNOWN_MEMBER_ID,
    Members,
    set_group_config,
)
from .members import (
    commit,
    commit_errors,
    describe_classic,
    describe_consumer,
    join_classic,
    leave_classic,
)


@pytest.fixture
def members(wire: WireClient, group: str, topic: str) -> Members:
    """A group without members, with a topic of two partitions."""
    return Members(wire, group, topic)


# The group and the member of a heartbeat.


@pytest.mark.fact("E7-21a")
def test_a_heartbeat_to_a_classic_group_is_refused(
    members: Members, topic: str
) -> None:
    commit(members.wire, members.group, {(topic, 0): 5})
    assert members.beat("m", 5).error_code == GROUP_ID_NOT_FOUND


@pytest.mark.fact("E7-22")
def test_an_empty_classic_group_is_replaced(members: Members, topic: str) -> None:
    member = join_classic(members.wire, members.group, topic)
    leave_classic(members.wire, members.group, member.id)
    assert describe_classic(members.wire, members.group).group_state == "Empty"
    assert members.join("m").error_code == 0
    assert members.describe().group_state == "Stable"


@pytest.mark.fact("E7-22a")
def test_a_join_to_a_classic_group_that_cannot_be_upgraded_is_refused(
    members: Members, topic: str
) -> None:
    join_classic(members.wire, members.group, topic, protocol_type="other")
    assert members.join("m").error_code == GROUP_ID_NOT_FOUND
    known = describe_classic(members.wire, members.group)
    assert (known.group_state, known.protocol_type) == ("Stable", "other")


@pytest.mark.fact("E7-23")
def test_a_group_that_only_has_offsets_is_replaced(
    members: Members, topic: str
) -> None:
    commit(members.wire, members.group, {(topic, 0): 5})
    assert members.join("m").error_code == 0
    assert members.names() == {"m"}


@pytest.mark.fact("E7-25")
def test_a_member_without_an_id_gets_a_uuid(members: Members) -> None:
    first = members.join("", version=0).member_id
    second = members.join("", version=0).member_id
    assert first is not None
    assert len(first) == 22
    assert members.names() == {first, second}


# Member epochs.


def revoked(members: Members, topic: str) -> int:
    """Bring m from the first epoch to the second; return its partition."""
    members.join("m")
    members.join("n")
    members.beat("m", members.epoch(1))
    [kept] = members.assignments["m"][topic]
    sent = members.beat("m", members.epoch(1), owned={topic: [kept]})
    assert sent.member_epoch == members.epoch(2)
    return kept


@pytest.mark.fact("E7-31", "E3-09")
def test_the_previous_epoch_is_accepted_with_a_subset_of_the_assigned_partitions(
    members: Members, topic: str
) -> None:
    kept = revoked(members, topic)
    subsets: list[dict[str, list[int]]] = [{topic: [kept]}, {topic: []}, {}]
    for owned in subsets:
        sent = members.beat("m", members.epoch(1), owned=owned)
        assert (sent.error_code, sent.member_epoch) == (0, members.epoch(2))


@pytest.mark.fact("E7-31a", "E7-32")
def test_the_previous_epoch_is_fenced_with_other_partitions(
    members: Members, topic: str
) -> None:
    kept = revoked(members, topic)
    for owned in (None, {topic: [1 - kept]}, {topic: [0, 1]}):
        sent = members.beat("m", members.epoch(1), owned=owned)
        assert sent.error_code == FENCED_MEMBER_EPOCH
    assert members.names() == {"m", "n"}


@pytest.mark.fact("E7-31b")
def test_an_epoch_before_the_previous_one_is_fenced(
    members: Members, topic: str
) -> None:
    kept = revoked(members, topic)
    members.join("o")
    assert members.beat("m", members.epoch(2)).member_epoch == members.epoch(3)
    sent = members.beat("m", members.epoch(1), owned={topic: [kept]})
    assert sent.error_code == FENCED_MEMBER_EPOCH


# The fields of a member.


@pytest.mark.fact("E7-35")
def test_null_fields_keep_their_values(members: Members, topic: str) -> None:
    members.join("m", rack_id="r", instance_id="i")
    members.beat("m", members.epoch(1), instance_id="i")
    known = members.described("m")
    assert (known.rack_id, known.instance_id) == ("r", "i")
    assert known.subscribed_topic_names == [topic]


@pytest.mark.fact("E7-35a")
def test_the_client_id_is_that_of_the_last_heartbeat(
    members: Members, connect: Connect
) -> None:
    members.join("m")
    assert members.described("m").client_id == "test"
    members.wire = connect()
    members.wire._client_id = "another"
    members.beat("m", members.epoch(1))
    assert members.described("m").client_id == "another"


@pytest.mark.fact("E7-37")
def test_a_changed_list_of_topics_bumps_the_epoch(
    members: Members, new_topic: Callable[[str, int], str], topic: str
) -> None:
    members.join("m")
    more = members.add_topic(new_topic("more", 1))
    for topics in ([topic], [topic, topic]):
        members.beat("m", members.epoch(1), subscribed_topic_names=topics)
        assert members.describe().group_epoch == members.epoch(1)
    members.beat("m", members.epoch(1), subscribed_topic_names=[topic, more])
    assert members.describe().group_epoch == members.epoch(2)


@pytest.mark.fact("E7-37a")
def test_other_fields_do_not_bump_the_epoch(members: Members) -> None:
    members.join("m")
    members.beat("m", members.epoch(1), rack_id="r", rebalance_timeout_ms=40_000)
    assert members.described("m").rack_id == "r"
    assert members.describe().group_epoch == members.epoch(1)


@pytest.mark.fact("E7-41")
def test_a_heartbeat_reconciles_only_its_sender(members: Members, topic: str) -> None:
    members.join("m")
    members.join("n")
    members.beat("n", members.epoch(2))
    assert members.described("m").member_epoch == members.epoch(1)
    assert members.owns("m") == {topic: [0, 1]}
    assert members.assigned(members.beat("m", members.epoch(1)))


@pytest.mark.fact("E7-39")
def test_the_preferred_assignor_computes_the_target(
    members: Members, topic: str, new_topic: Callable[[str, int], str]
) -> None:
    one = members.add_topic(new_topic("one", 1))
    two = members.add_topic(new_topic("two", 1))
    members.join("m", one, two, server_assignor="range")
    members.join("n", one, two, server_assignor="range")
    assert members.targets("m") == {one: [0], two: [0]}
    members.join("m", one, two, server_assignor="uniform")
    members.join("n", one, two, topic, server_assignor="uniform")
    assert len(members.targets("m")) == 2
    assert members.targets("n") == {topic: [0, 1]}


# The response.


@pytest.mark.fact("E7-50a")
@pytest.mark.parametrize(
    "missing",
    [None, "rebalance_timeout_ms", "subscribed_topic_names", "owned"],
)
def test_a_full_heartbeat_gets_the_assignment(
    members: Members, topic: str, missing: str | None
) -> None:
    members.join("m")
    full = {
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": [topic],
        "owned": {topic: [0, 1]},
    }
    fields = {name: value for name, value in full.items() if name != missing}
    sent = members.beat("m", members.epoch(1), **fields)  # type: ignore[arg-type]
    expected = {topic: [0, 1]} if missing is None else None
    assert members.assigned(sent) == expected


@pytest.mark.fact("E7-50b", "E7-52")
def test_a_changed_assignment_is_sent_once(members: Members, topic: str) -> None:
    members.join("m")
    members.join("n")
    shrunk = members.assigned(members.beat("m", members.epoch(1)))
    assert shrunk is not None
    assert len(shrunk[topic]) == 1
    assert members.assigned(members.beat("m", members.epoch(1))) is None


@pytest.mark.fact("E7-51", "E7-52")
def test_an_empty_assignment_is_not_null(members: Members, topic: str) -> None:
    members.join("m")
    joined = members.join("n")
    assert members.assigned(joined) == {}
    assert members.targets("n")
    assert members.assigned(members.beat("n", members.epoch(2))) is None


@pytest.mark.fact("E7-53")
def test_the_heartbeat_interval_of_the_group_is_sent(members: Members) -> None:
    assert members.join("m").heartbeat_interval_ms == 300
    set_group_config(
        members.wire, members.group, "consumer.heartbeat.interval.ms", "700"
    )
    assert members.beat("m", members.epoch(1)).heartbeat_interval_ms == 700


@pytest.mark.fact("E7-54")
def test_an_error_response_has_only_a_code_and_a_message(members: Members) -> None:
    members.join("m")
    sent = members.beat("m", members.epoch(9))
    assert sent.error_code == FENCED_MEMBER_EPOCH
    assert sent.error_message
    assert (sent.member_id, sent.member_epoch) == (None, 0)
    assert (sent.heartbeat_interval_ms, sent.assignment) == (0, None)


# Leaving.


@pytest.mark.fact("E7-60a")
def test_a_leave_echoes_the_member_id_and_the_epoch(members: Members) -> None:
    members.join("m")
    sent = members.beat("m", -1)
    assert (sent.error_code, sent.member_id, sent.member_epoch) == (0, "m", -1)
    assert (sent.heartbeat_interval_ms, sent.assignment) == (0, None)


@pytest.mark.fact("E7-60c", "E7-60d")
def test_a_leave_bumps_the_epoch_and_the_next_heartbeat_computes_the_target(
    members: Members, topic: str
) -> None:
    members.join("m")
    members.join("n")
    members.settle("m", "n")
    members.beat("n", -1)
    left = members.describe()
    assert (left.group_epoch, left.assignment_epoch) == (
        members.epoch(3),
        members.epoch(2),
    )
    assert left.group_state == "Assigning"
    sent = members.beat("m", members.epoch(2))
    assert sent.member_epoch == members.epoch(3)
    assert members.assigned(sent) == {topic: [0, 1]}


@pytest.mark.fact("E7-61")
@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_leave_from_an_unknown_group_is_refused(members: Members, epoch: int) -> None:
    sent = members.beat("m", epoch, instance_id="i")
    assert sent.error_code == GROUP_ID_NOT_FOUND


@pytest.mark.fact("E7-61a")
def test_a_leave_of_an_unknown_member_is_refused(members: Members) -> None:
    members.join("m")
    assert members.beat("n", -1).error_code == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E7-62b")
def test_a_static_member_may_leave_by_its_member_id_alone(members: Members) -> None:
    members.join("m", instance_id="i")
    assert members.beat("m", -1).error_code == 0
    assert members.names() == set()


@pytest.mark.fact("E7-65")
def test_a_member_that_left_cannot_commit(members: Members, topic: str) -> None:
    members.join("m")
    members.join("n")
    members.beat("m", -1)
    errors = commit_errors(
        members.wire,
        members.group,
        {(topic, 0): 5},
        member_id="m",
        epoch=members.epoch(1),
    )
    assert errors == {(topic, 0): UNKNOWN_MEMBER_ID}


@pytest.mark.fact("E7-64")
def test_a_group_without_consumer_members_becomes_classic(
    members: Members, topic: str
) -> None:
    join_classic(members.wire, members.group, topic)
    members.join("m")
    assert members.beat("m", -1).error_code == 0
    assert describe_consumer(members.wire, members.group).error_code == (
        GROUP_ID_NOT_FOUND
    )
    known = describe_classic(members.wire, members.group)
    assert known.group_state == "PreparingRebalance"
