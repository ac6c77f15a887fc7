"""The `rack` assignor compared with the best of all possible assignments."""

from __future__ import annotations

import pytest
from hypothesis import given

from coterie.broker.coordinator.assignors import uniform
from coterie.broker.coordinator.assignors.rack import COHORTS_MAX, assign
from coterie.broker.coordinator.assignors.spec import GroupSpec
from tests.broker.coordinator.assignors.specs import (
    again,
    check,
    every_assignment,
    group,
    groups,
    in_racks,
    named,
    racked_groups,
)
from tests.support.assignment_quality import quality


def best(spec: GroupSpec) -> tuple[int, float, int]:
    """Return the quality of the best assignment: the spread, minus the share of
    partitions in the rack of their member, and the moves, compared in this order.
    """
    all_of_them = (quality(spec, each) for each in every_assignment(spec))
    return min((one.spread, -one.near_share, one.moved) for one in all_of_them)


@given(spec=racked_groups())
def test_balance_precedes_rack_locality_which_precedes_stickiness(
    spec: GroupSpec,
) -> None:
    result = assign(spec)
    check(spec, result)
    found = quality(spec, result)
    spread, far, moved = best(spec)
    assert (found.spread, -found.near_share) == (spread, far)
    assert moved <= found.moved <= moved + 1
    assert quality(again(spec, result), assign(again(spec, result))).moved == 0


@given(spec=racked_groups(alike=False))
def test_with_different_subscriptions_rack_locality_is_no_worse_than_in_uniform(
    spec: GroupSpec,
) -> None:
    result, even = assign(spec), uniform.assign(spec)
    check(spec, result)
    found, before = quality(spec, result), quality(spec, even)
    assert found.spread == before.spread
    assert found.near_share >= before.near_share


@given(spec=groups(alike=False))
def test_without_racks_the_assignment_equals_uniform(spec: GroupSpec) -> None:
    assert assign(spec) == uniform.assign(spec)
    nowhere = in_racks(spec, dict.fromkeys(spec.members), {"a": ["r"] * 5})
    assert assign(nowhere) == uniform.assign(nowhere)


@pytest.mark.fact("E11-08")
@given(spec=racked_groups(alike=False))
def test_the_assignment_does_not_depend_on_the_order_of_members(
    spec: GroupSpec,
) -> None:
    turned = GroupSpec(dict([*spec.members.items()][::-1]), spec.topics)
    assert named(assign(turned)) == named(assign(spec))


def test_partitions_are_swapped_until_each_is_in_the_rack_of_its_member() -> None:
    owned = {"m": {"a": [0, 1]}, "n": {"a": [2, 3]}}
    spec = group({"a": 4}, {"m": "a", "n": "a"}, owned)
    spec = in_racks(spec, {"m": "r", "n": "s"}, {"a": ["r", "s", "s", "r"]})
    assert named(assign(spec)) == {"m": {"a": [0, 3]}, "n": {"a": [1, 2]}}
    assert quality(spec, assign(spec)) == (0, 2, 0, 1.0)


def test_new_members_get_the_partitions_of_a_topic_in_order() -> None:
    spec = group({"a": 6}, {"m": "a", "n": "a", "o": "a"})
    spec = in_racks(spec, {"m": "r", "n": "r", "o": "s"}, {"a": ["r", "r", "s"] * 2})
    assert named(assign(spec)) == {
        "m": {"a": [0, 1]},
        "n": {"a": [3, 4]},
        "o": {"a": [2, 5]},
    }


def test_members_of_one_rack_and_subscription_get_what_uniform_assigns() -> None:
    spec = group({"a": 2}, {"m": "a", "n": "a"}, {"m": {"a": [0, 1]}})
    spec = in_racks(spec, {"m": "r", "n": "r"}, {"a": ["r", "s"]})
    assert named(assign(spec)) == named(uniform.assign(spec))


def test_balance_takes_precedence_over_racks() -> None:
    spec = group({"a": 4}, {"m": "a", "n": "a"})
    spec = in_racks(spec, {"m": "r", "n": "s"}, {"a": ["r", "r", "r", "s"]})
    assert quality(spec, assign(spec)).spread == 0
    assert named(assign(spec))["n"]["a"][-1] == 3


def test_the_extra_partition_is_assigned_to_a_member_in_its_rack() -> None:
    spec = group({"a": 3}, {"m": "a", "n": "a"})
    spec = in_racks(spec, {"m": "r", "n": "s"}, {"a": ["s", "s", "r"]})
    assert named(assign(spec)) == {"m": {"a": [2]}, "n": {"a": [0, 1]}}


def test_a_cycle_of_rack_swaps_is_resolved() -> None:
    owned = {"m": {"a": [0]}, "n": {"a": [1]}, "o": {"a": [2]}}
    spec = group({"a": 3}, dict.fromkeys("mno", "a"), owned)
    racks = {"m": "r", "n": "s", "o": "t"}
    spec = in_racks(spec, racks, {"a": ["s", "t", "r"]})
    assert quality(spec, assign(spec)).near_share == 1


def test_members_swap_for_racks_among_many_different_subscriptions() -> None:
    topics = {f"t{number:02}": 2 for number in range(COHORTS_MAX)}
    wanted = {f"{one}{name}": [name] for name in topics for one in "mn"}
    spec = group(topics, wanted)
    racks = {member: "r" if member[0] == "n" else "s" for member in wanted}
    spec = in_racks(spec, racks, {name: ["r", "s"] for name in topics})
    assert quality(spec, uniform.assign(spec)).near_share == 0
    result = assign(spec)
    check(spec, result)
    assert quality(spec, result).near_share == 1
