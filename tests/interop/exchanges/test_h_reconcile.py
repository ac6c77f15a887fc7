"""How members of consumer groups reach their target assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.broker.server.harness import WireClient

from .members import Beating, assign_at_once, describe_consumer, topic_id


@pytest.fixture
def first(wire: WireClient, group: str, topic: str) -> Beating:
    """The first member of the group; it has both partitions of the topic."""
    assign_at_once(wire, group)
    return Beating(wire, group, topic).owning(2)


def known_topic(
    wire: WireClient,
    member: Beating,
    new_topic: Callable[[str, int], str],
    *,
    partitions: int,
) -> str:
    """Return a new topic that the coordinator of the member's group knows."""
    group = f"{member.group}-2"
    assign_at_once(wire, group)
    topic = new_topic("other", partitions)
    Beating(wire, group, topic).owning(partitions)
    return topic


def count(owned: Mapping[bytes, Sequence[int]]) -> int:
    return sum(map(len, owned.values()))


@pytest.mark.fact("H-40")
def test_a_member_with_an_equal_newer_target_has_its_epoch(
    first: Beating, topic: str
) -> None:
    epoch, owned = first.epoch, first.owned
    answer = first.beat(subscribed_topic_names=[topic, f"{topic}-missing"])
    assert (answer.member_epoch, answer.assignment) == (epoch + 1, None)
    assert first.owned == owned
    assert first.beat(epoch=epoch, topic_partitions=[]).member_epoch == epoch + 1


@pytest.mark.fact("H-21b", "H-41")
def test_a_member_gets_free_partitions_of_another_topic_at_once(
    wire: WireClient, first: Beating, topic: str, new_topic: Callable[[str, int], str]
) -> None:
    other = known_topic(wire, first, new_topic, partitions=3)
    epoch = first.epoch
    first.beat(subscribed_topic_names=[topic, other])
    assert first.owned == {
        topic_id(wire, topic): [0, 1],
        topic_id(wire, other): [0, 1, 2],
    }
    assert first.epoch == epoch + 1


@pytest.mark.fact("H-42", "H-45a", "H-45b", "H-45c")
def test_a_member_keeps_its_epoch_until_it_has_revoked(
    wire: WireClient, first: Beating, topic: str
) -> None:
    epoch, everything = first.epoch, first.owned
    second = Beating(wire, first.group, topic)
    assert (second.epoch, second.owned) == (epoch + 1, {})
    first.beat()
    assert (first.epoch, count(first.owned)) == (epoch, 1)
    for _ in range(2):
        assert first.beat().member_epoch == epoch
        assert first.report(everything).member_epoch == epoch
        assert second.beat().assignment is None
    assert first.report().member_epoch == epoch + 1
    second.beat()
    assert (second.epoch, count(second.owned)) == (epoch + 1, 1)
    assert first.owned != second.owned


@pytest.mark.fact("H-42")
def test_a_member_that_must_revoke_gets_nothing_new(
    wire: WireClient, first: Beating, topic: str, new_topic: Callable[[str, int], str]
) -> None:
    other = known_topic(wire, first, new_topic, partitions=3)
    epoch = first.epoch
    second = Beating(wire, first.group, topic)
    first.beat(subscribed_topic_names=[topic, other])
    assert first.epoch == epoch
    assert count(first.owned) < 2
    assert topic_id(wire, other) not in first.owned
    first.report()
    assert first.epoch > second.epoch
    assert first.owned[topic_id(wire, other)] == [0, 1, 2]


@pytest.mark.fact("H-43", "H-48a")
def test_a_member_gets_free_partitions_and_waits_for_the_others(
    wire: WireClient, first: Beating, topic: str, new_topic: Callable[[str, int], str]
) -> None:
    other = known_topic(wire, first, new_topic, partitions=1)
    # The first member has two partitions, this one can have the third and no other.
    second = Beating(wire, first.group, topic, other)
    assert second.owned == {topic_id(wire, other): [0]}
    third = Beating(wire, first.group, topic)
    assert (third.epoch, third.owned) == (second.epoch + 1, {})
    first.beat()
    assert first.report().member_epoch == third.epoch
    third.beat()
    assert (third.epoch, count(third.owned)) == (first.epoch, 1)


@pytest.mark.fact("H-44")
def test_a_member_that_does_not_own_the_partitions_need_not_revoke(
    wire: WireClient, first: Beating, topic: str
) -> None:
    second = Beating(wire, first.group, topic)
    members = describe_consumer(wire, first.group).members
    [target] = [
        each.target_assignment for each in members if each.member_id == first.id
    ]
    owned = {each.topic_id: each.partitions for each in target.topic_partitions}
    assert count(owned) == 1
    assert first.report(owned).member_epoch == second.epoch
    assert first.owned == owned


@pytest.mark.fact("H-46")
def test_a_second_revocation_keeps_the_epoch(
    wire: WireClient, group: str, new_topic: Callable[[str, int], str]
) -> None:
    assign_at_once(wire, group)
    topic = new_topic("six", 6)
    first = Beating(wire, group, topic).owning(6)
    epoch = first.epoch
    Beating(wire, group, topic)
    first.beat()
    assert (first.epoch, count(first.owned)) == (epoch, 3)
    third = Beating(wire, group, topic)
    first.report()
    assert (first.epoch, count(first.owned)) == (epoch, 2)
    assert first.report().member_epoch == third.epoch
