"""The server-side assignors, their choice, and member ids (E10 to E12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.interop.exchanges.consumer_group import Members
from tests.interop.exchanges.members import describe_classic, join_request, subscription

MEMBER_ID_REQUIRED = 79
UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

NewTopic = Callable[[str, int], str]
Targets = Mapping[str, Mapping[str, Sequence[int]]]


def targets(members: Members, *names: str) -> dict[str, dict[str, list[int]]]:
    return {
        name: {topic: sorted(some) for topic, some in members.targets(name).items()}
        for name in names
    }


def sizes(found: Targets) -> list[int]:
    return sorted(sum(map(len, each.values())) for each in found.values())


def moves(before: Targets, after: Targets) -> int:
    """Return how many partitions have a new owner."""

    def owners(found: Targets) -> set[tuple[str, str, int]]:
        return {
            (name, topic, partition)
            for name, topics in found.items()
            for topic, some in topics.items()
            for partition in some
        }

    return len(owners(after) - owners(before))


@pytest.fixture
def members(wire: WireClient, group: str) -> Members:
    return Members(wire, group)


@pytest.mark.fact("E11-20", "E11-20a", "E11-21", "E11-21a", "E11-22", "E11-26")
def test_range_gives_runs_in_the_order_of_members(
    members: Members, new_topic: NewTopic
) -> None:
    one, two = (members.add_topic(new_topic(name, 5)) for name in "ab")
    chosen = {"server_assignor": "range"}
    members.join("a", **chosen)
    members.join("b", **chosen)
    members.join("y", instance_id="2", **chosen)
    members.join("z", instance_id="1", **chosen)
    runs: dict[str, list[int]] = {"z": [0, 1], "y": [2], "a": [3], "b": [4]}
    expected = {name: {one: run, two: run} for name, run in runs.items()}
    assert targets(members, *"abyz") == expected
    members.beat("z", -2, instance_id="1")
    members.join("c", instance_id="1", **chosen)
    expected["c"] = expected.pop("z")
    assert targets(members, *"abcy") == expected


@pytest.mark.fact("E11-23", "E11-24", "E11-25")
def test_range_divides_a_topic_among_its_subscribers(
    members: Members, new_topic: NewTopic
) -> None:
    one, two = (members.add_topic(new_topic(name, 2)) for name in "ab")
    members.join("m", one, two, server_assignor="range")
    assert targets(members, "m") == {"m": {one: [0, 1], two: [0, 1]}}
    for name in "lab":
        members.join(name, one, server_assignor="range")
    assert targets(members, *"ablm") == {
        "a": {one: [0]},
        "b": {one: [1]},
        "l": {},
        "m": {two: [0, 1]},
    }


@pytest.mark.fact("E11-41", "E11-42", "E11-43", "E11-46")
def test_uniform_balances_with_the_fewest_moves(
    members: Members, new_topic: NewTopic
) -> None:
    topic = members.add_topic(new_topic("a", 7))
    members.join("m")
    one = targets(members, "m")
    members.join("a")
    two = targets(members, *"am")
    assert (sizes(two), moves(one, two)) == ([3, 4], 3)
    members.join("z")
    three = targets(members, *"amz")
    assert (sizes(three), moves(two, three)) == ([2, 2, 3], 2)
    other = members.add_topic(new_topic("b", 3))
    members.join("z", other)
    four = targets(members, *"amz")
    assert four["z"] == {other: [0, 1, 2]}
    assert sizes({name: four[name] for name in "am"}) == [3, 4]
    kept = {name: {topic: three[name][topic]} for name in "am"}
    assert moves(kept, {name: four[name] for name in "am"}) == len(three["z"][topic])


@pytest.mark.fact("E11-44", "E11-44a", "E11-45")
def test_uniform_starts_with_topics_of_few_subscribers(
    members: Members, new_topic: NewTopic
) -> None:
    small = members.add_topic(new_topic("a", 4))
    large = members.add_topic(new_topic("b", 2))
    members.join("m", small, large)
    assert sizes(targets(members, "m")) == [6]
    members.join("n", large)
    both = targets(members, *"mn")
    assert both == {"m": {small: [0, 1, 2, 3]}, "n": {large: [0, 1]}}
    members.join("o", small)
    three = targets(members, *"mno")
    assert sizes(three) == [2, 2, 2]
    assert three["n"] == both["n"]
    assert moves(both, three) == 2


@pytest.mark.fact("E12-02", "E12-03", "E12-03a", "E12-06", "E12-07")
def test_the_assignor_that_most_members_name_is_described(
    members: Members, topic: str
) -> None:
    members.add_topic(topic)
    named = [None, None, "range", "uniform", "uniform", "range", "range"]
    chosen = []
    for number, name in enumerate(named):
        fields = {} if name is None else {"server_assignor": name}
        members.join(str(number), **fields)
        chosen.append(members.describe().assignor_name)
    del chosen[3], chosen[4]  # a tie
    assert chosen == ["uniform", "uniform", "range", "uniform", "range"]


@pytest.mark.fact("E11-04", "E11-04a", "E10-03")
def test_topics_that_do_not_exist_are_not_assigned(
    members: Members, topic: str
) -> None:
    members.add_topic(topic)
    odd = "äöü / with space"
    sent = members.join(odd, topic, f"{topic}-gone", server_assignor="range")
    assert (sent.error_code, sent.member_id) == (0, odd)
    assert members.join("z", f"{topic}-gone").error_code == 0
    assert targets(members, odd, "z") == {odd: {topic: [0, 1]}, "z": {}}


@pytest.mark.fact("E10-02", "E10-04", "E10-05")
def test_a_join_of_version_0_without_an_id_adds_a_member(members: Members) -> None:
    ids = [members.join("", version=0).member_id for _ in range(2)]
    assert members.names() == {*ids}
    for member_id in ids:
        assert member_id is not None
        assert re.fullmatch("[A-Za-z0-9_-]{22}", member_id)


@pytest.mark.fact("E10-07", "E10-07a")
def test_classic_members_have_ids_with_their_client_or_instance(
    wire: WireClient, group: str, topic: str
) -> None:
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=subscription(topic))
    request = join_request(group, topic, protocols=[protocol])
    required = wire.call(request, 9)
    assert required.error_code == MEMBER_ID_REQUIRED
    assert re.fullmatch(f"test-{UUID}", required.member_id)
    static = join_request(f"{group}-2", topic, group_instance_id="pod-1")
    joined = wire.call(static, 9)
    assert joined.error_code == 0
    assert re.fullmatch(f"pod-1-{UUID}", joined.member_id)
    [member] = describe_classic(wire, f"{group}-2").members
    assert member.group_instance_id == "pod-1"
