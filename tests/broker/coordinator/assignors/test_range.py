"""The `range` assignor, with the same results as Kafka's RangeAssignor (E11.2)."""

from __future__ import annotations

import pytest
from hypothesis import given

from coterie.broker.coordinator.assignors.range import assign
from coterie.broker.coordinator.assignors.spec import GroupSpec
from tests.broker.coordinator.assignors.specs import (
    check,
    group,
    groups,
    named,
    racked_groups,
)


@pytest.mark.fact("H-161", "E11-20a", "E11-21", "E11-21a")
def test_each_topic_is_divided_into_ranges() -> None:
    spec = group({"a": 3, "b": 2}, {"m": "ab", "n": "ab"})
    assert named(assign(spec)) == {
        "m": {"a": [0, 1], "b": [0]},
        "n": {"a": [2], "b": [1]},
    }


@pytest.mark.fact("H-162", "E11-23")
def test_each_topic_is_divided_among_its_subscribers() -> None:
    spec = group({"a": 3, "b": 3, "c": 2}, {"m": "ab", "n": "c", "o": "bc"})
    assert named(assign(spec)) == {
        "m": {"a": [0, 1, 2], "b": [0, 1]},
        "n": {"c": [0]},
        "o": {"b": [2], "c": [1]},
    }


@pytest.mark.fact("H-163", "E11-25")
def test_members_beyond_the_partition_count_get_no_partition_of_the_topic() -> None:
    spec = group({"a": 2}, {"m": "a", "n": "a", "o": "a"})
    assert named(assign(spec)) == {"m": {"a": [0]}, "n": {"a": [1]}}
    spec = group({"a": 2}, {"l": "a", "m": "a", "n": "a", "o": "a"})
    assert named(assign(spec)) == {"l": {"a": [0]}, "m": {"a": [1]}}


@pytest.mark.fact("H-164a", "H-164b", "E11-20", "E11-26")
def test_static_members_precede_dynamic_members_by_instance_id() -> None:
    wanted = {"m": "a", "n": "a", "o": "a"}
    spec = group({"a": 3}, wanted, instances={"n": "2", "o": "1"})
    expected = {"o": {"a": [0]}, "n": {"a": [1]}, "m": {"a": [2]}}
    assert named(assign(spec)) == expected
    swapped = group({"a": 3}, wanted, instances={"n": "1", "o": "2"})
    assert named(assign(swapped))["n"] == {"a": [0]}


@pytest.mark.fact("E11-22")
def test_topics_of_equal_size_are_divided_equally() -> None:
    spec = group({"a": 7, "b": 7}, {"m": "ab", "n": "ab", "o": "ab"})
    for partitions in named(assign(spec)).values():
        assert partitions["a"] == partitions["b"]


@pytest.mark.fact("E11-24")
@given(spec=groups(alike=False))
def test_previous_assignments_are_ignored(spec: GroupSpec) -> None:
    result = assign(spec)
    check(spec, result)
    forgotten = {
        member_id: member._replace(partitions={})
        for member_id, member in spec.members.items()
    }
    assert named(assign(GroupSpec(forgotten, spec.topics))) == named(result)


@pytest.mark.fact("E11-47")
@given(spec=racked_groups(alike=True))
def test_racks_make_no_difference(spec: GroupSpec) -> None:
    members = {each: one._replace(rack_id=None) for each, one in spec.members.items()}
    topics = {each: one._replace(racks=()) for each, one in spec.topics.items()}
    assert named(assign(GroupSpec(members, topics))) == named(assign(spec))


@pytest.mark.fact("E11-27", "H-160b")
def test_an_unknown_topic_raises_key_error() -> None:
    with pytest.raises(KeyError):
        assign(group({}, {"m": "a"}))
    assert named(assign(group({"a": 1}, {"m": ""}))) == {}
