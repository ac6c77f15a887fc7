"""The `uniform` assignor compared with an exhaustive search (E11.3)."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given

from coterie.broker.coordinator.assignors import uniform_mixed
from coterie.broker.coordinator.assignors.spec import GroupSpec
from coterie.broker.coordinator.assignors.survey import size_of
from coterie.broker.coordinator.assignors.uniform import assign
from tests.broker.coordinator.assignors.specs import (
    again,
    check,
    every_assignment,
    group,
    groups,
    named,
    racked_groups,
)
from tests.support.assignment_quality import quality


def least_moves(spec: GroupSpec) -> int:
    """Return the fewest moves of any balanced assignment, by trying all of them."""
    kept = [
        sum(
            len(some)
            for topic, some in member.partitions.items()
            if topic in member.subscribed_topic_ids
        )
        for member in spec.members.values()
    ]
    wanted = {t for each in spec.members.values() for t in each.subscribed_topic_ids}
    total = sum(spec.topics[topic].partition_count for topic in wanted)
    least, extra = divmod(total, len(kept))
    unwanted = sum(
        len(some)
        for member in spec.members.values()
        for topic, some in member.partitions.items()
        if topic not in member.subscribed_topic_ids
    )
    return unwanted + min(
        sum(max(0, have - least - (at in lucky)) for at, have in enumerate(kept))
        for lucky in combinations(range(len(kept)), extra)
    )


@pytest.mark.fact("E11-41", "E11-42", "E11-43", "E11-46", "H-165", "H-166")
@given(spec=groups(alike=True))
@pytest.mark.fact("E11-41", "E11-42", "E11-43", "E11-46")
def test_assignments_are_balanced_and_sticky(spec: GroupSpec) -> None:
    result = assign(spec)
    check(spec, result)
    found = quality(spec, result)
    assert found.spread <= 1
    assert found.moved == found.moves_needed == least_moves(spec)


@pytest.mark.fact("E11-45", "E11-46")
@given(spec=groups(alike=False))
def test_no_single_move_improves_the_balance(
    spec: GroupSpec,
) -> None:
    result = assign(spec)
    check(spec, result)
    sizes = {member_id: size_of(result[member_id]) for member_id in spec.members}
    for member_id, partitions in result.items():
        for topic in partitions:
            for other, member in spec.members.items():
                if topic in member.subscribed_topic_ids:
                    assert sizes[member_id] - sizes[other] <= 1


@given(spec=racked_groups(alike=False))
def test_the_spread_is_at_most_two_above_the_optimum(
    spec: GroupSpec,
) -> None:
    spreads = (quality(spec, each).spread for each in every_assignment(spec))
    assert quality(spec, assign(spec)).spread <= min(spreads) + 2


@pytest.mark.fact("E11-08")
@given(spec=groups(alike=False))
def test_the_assignment_does_not_depend_on_the_order_of_members(
    spec: GroupSpec,
) -> None:
    turned = GroupSpec(dict([*spec.members.items()][::-1]), spec.topics)
    assert named(assign(turned)) == named(assign(spec))


@pytest.mark.fact("H-165", "E11-41")
def test_many_topics_and_members_are_balanced() -> None:
    topics = {f"t{number}": 3 for number in range(99)}
    wanted = {f"m{number}": topics.keys() for number in range(49)}
    spec = group(topics, wanted)
    result = assign(spec)
    check(spec, result)
    assert quality(spec, result).spread == 1


@pytest.mark.fact("H-167a", "E11-42")
def test_a_join_and_a_leave_move_the_fewest_partitions() -> None:
    spec = group({"a": 6}, {"m": "a", "n": "a"})
    two = assign(spec)
    grown = again(group({"a": 6}, {"m": "a", "n": "a", "o": "a"}), two)
    three = assign(grown)
    assert quality(grown, three)[:3] == (0, 2, 2)
    left = again(group({"a": 6}, {"n": "a", "o": "a"}), three)
    assert quality(left, assign(left))[:3] == (0, 0, 0)
    more = again(group({"a": 9}, {"m": "a", "n": "a", "o": "a"}), three)
    assert quality(more, assign(more))[:3] == (0, 0, 0)


@pytest.mark.fact("H-160a", "H-160b", "E11-27")
def test_no_topics_give_an_empty_assignment_and_unknown_topics_raise_key_error() -> (
    None
):
    assert named(assign(group({}, {"m": ""}))) == {}
    assert named(assign(group({}, {}))) == {}
    with pytest.raises(KeyError):
        assign(group({}, {"m": "a"}))
    with pytest.raises(KeyError):
        assign(group({}, {"m": "a", "n": "ab"}))


@pytest.mark.fact("H-166")
def test_a_member_with_too_many_partitions_loses_only_the_excess() -> None:
    owned = {"m": {"a": [0, 1, 2], "b": [0, 1]}, "n": {"b": [2]}}
    spec = group({"a": 3, "b": 3}, {"m": "ab", "n": "ab"}, owned)
    assert named(assign(spec)) == {"m": {"a": [0, 1, 2]}, "n": {"b": [0, 1, 2]}}
    assert quality(spec, assign(spec))[:3] == (0, 2, 2)


@pytest.mark.fact("H-167b", "E11-46")
def test_a_member_keeps_no_partitions_of_an_unsubscribed_topic() -> None:
    owned = {"m": {"a": [0, 1], "b": [0]}, "n": {"a": [2], "b": [1, 2]}}
    spec = group({"a": 3, "b": 3}, {"m": "a", "n": "ab"}, owned)
    result = assign(spec)
    assert named(result)["m"].keys() == {"a"}
    assert quality(spec, result) == (0, 2, 1, 1.0)


@pytest.mark.fact("E11-44", "E11-44a")
def test_topics_with_most_partitions_per_subscriber_are_assigned_first() -> None:
    spec = group({"a": 2, "b": 4}, {"m": "ab", "n": "a", "o": "ab"})
    assert named(assign(spec)) == {
        "m": {"b": [0, 1]},
        "n": {"a": [0, 1]},
        "o": {"b": [2, 3]},
    }
    # As many partitions per subscriber: the topic with fewer subscribers is first.
    spec = group({"a": 3, "b": 1}, {"m": "ab", "n": "a", "o": "a"})
    assert named(assign(spec))["m"] == {"a": [2], "b": [0]}


@pytest.mark.fact("E11-44b")
@pytest.mark.parametrize("rounds", [1, 16])
def test_the_balance_ends_after_16_rounds(
    monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """Count the rounds over the topics when each of them moves a partition."""
    assert uniform_mixed.ROUNDS_MAX == 16
    monkeypatch.setattr(uniform_mixed, "ROUNDS_MAX", rounds)
    asked: list[object] = []

    def never_even(_: object, topic: object) -> int:
        asked.append(topic)
        return 1

    monkeypatch.setattr(uniform_mixed._Balance, "_even_out", never_even)
    owned = {"m": {"a": range(4), "b": range(4)}}
    assign(group({"a": 4, "b": 4}, {"m": "ab", "n": "b", "o": "a"}, owned))
    assert len(asked) == 2 * rounds


@pytest.mark.bug("KAFKA-18688")
@pytest.mark.fact("E11-43")
def test_the_members_with_most_partitions_keep_one_more() -> None:
    owned = {"m": {"a": [0, 1]}, "n": {"a": [2, 3, 4]}}
    spec = group({"a": 7}, {"m": "a", "n": "a", "o": "a"}, owned)
    assert named(assign(spec))["n"] == {"a": [2, 3, 4]}


@pytest.mark.fact("E11-47")
@given(spec=racked_groups(alike=True))
def test_racks_make_no_difference(spec: GroupSpec) -> None:
    members = {each: one._replace(rack_id=None) for each, one in spec.members.items()}
    topics = {each: one._replace(racks=()) for each, one in spec.topics.items()}
    assert named(assign(GroupSpec(members, topics))) == named(assign(spec))


@pytest.mark.fact("H-168")
def test_members_beyond_the_partition_count_get_no_partitions() -> None:
    spec = group({"a": 2, "b": 1}, {"l": "a", "m": "ab", "n": "ab", "o": "a", "p": "b"})
    result = assign(spec)
    check(spec, result)
    sizes = [size_of(result[member]) for member in spec.members]
    assert sorted(sizes) == [0, 0, 1, 1, 1]
    assert named(assign(again(spec, result))) == named(result)


@pytest.mark.fact("H-169")
def test_a_member_without_topics_gets_no_partitions_and_the_others_are_balanced() -> (
    None
):
    spec = group({"a": 4, "b": 2}, {"l": "", "m": "ab", "n": "ab"})
    result = assign(spec)
    check(spec, result)
    assert [size_of(result[member]) for member in "lmn"] == [0, 3, 3]


@pytest.mark.fact("E11-44a", "E11-45")
def test_topics_with_few_subscribers_are_balanced() -> None:
    spec = group({"a": 4, "b": 2}, {"m": "a", "n": "ab", "o": "b"})
    result = assign(spec)
    check(spec, result)
    assert quality(spec, result).spread == 0


@pytest.mark.fact("E11-45")
def test_partitions_move_to_members_with_fewer_partitions() -> None:
    owned = {"m": {"a": range(4), "b": range(4)}}
    spec = group({"a": 4, "b": 4}, {"m": "ab", "n": "b", "o": "a"}, owned)
    result = assign(spec)
    check(spec, result)
    assert quality(spec, result).spread <= 1
