"""The `rack` assignor against all assignments there are."""

from __future__ import annotations

import pytest
from hypothesis import given

from coterie.coordinator.assignors import uniform
from coterie.coordinator.assignors.quality import quality
from coterie.coordinator.assignors.rack import PARTIES_MAX, assign
from coterie.coordinator.assignors.spec import GroupSpec
from tests.coordinator.assignors.specs import (
    again,
    check,
    every_assignment,
    group,
    groups,
    in_racks,
    named,
    racked_groups,
)


def best(spec: GroupSpec) -> tuple[int, float, int]:
    """The least spread; with it the largest share near; with both the fewest moves."""
    all_of_them = (quality(spec, each) for each in every_assignment(spec))
    return min((one.spread, -one.near_share, one.moved) for one in all_of_them)


@given(spec=racked_groups())
def test_even_first_then_near_then_few_moves(spec: GroupSpec) -> None:
    result = assign(spec)
    check(spec, result)
    found = quality(spec, result)
    spread, far, moved = best(spec)
    assert (found.spread, -found.near_share) == (spread, far)
    assert moved <= found.moved <= moved + 1
    assert quality(again(spec, result), assign(again(spec, result))).moved == 0


@given(spec=racked_groups(alike=False))
def test_other_wishes_are_as_even_and_at_least_as_near(spec: GroupSpec) -> None:
    result, even = assign(spec), uniform.assign(spec)
    check(spec, result)
    found, before = quality(spec, result), quality(spec, even)
    assert found.spread == before.spread
    assert found.near_share >= before.near_share


@given(spec=groups(alike=False))
def test_without_racks_it_is_uniform(spec: GroupSpec) -> None:
    assert assign(spec) == uniform.assign(spec)
    nowhere = in_racks(spec, dict.fromkeys(spec.members), {"a": ["r"] * 5})
    assert assign(nowhere) == uniform.assign(nowhere)


@pytest.mark.fact("E11-08")
@given(spec=racked_groups(alike=False))
def test_the_order_of_members_does_not_count(spec: GroupSpec) -> None:
    turned = GroupSpec(dict([*spec.members.items()][::-1]), spec.topics)
    assert named(assign(turned)) == named(assign(spec))


def test_partitions_are_swapped_until_each_is_near() -> None:
    owned = {"m": {"a": [0, 1]}, "n": {"a": [2, 3]}}
    spec = group({"a": 4}, {"m": "a", "n": "a"}, owned)
    spec = in_racks(spec, {"m": "r", "n": "s"}, {"a": ["r", "s", "s", "r"]})
    assert named(assign(spec)) == {"m": {"a": [0, 3]}, "n": {"a": [1, 2]}}
    assert quality(spec, assign(spec)) == (0, 2, 0, 1.0)


def test_balance_comes_before_racks() -> None:
    spec = group({"a": 4}, {"m": "a", "n": "a"})
    spec = in_racks(spec, {"m": "r", "n": "s"}, {"a": ["r", "r", "r", "s"]})
    assert quality(spec, assign(spec)).spread == 0
    assert named(assign(spec))["n"]["a"][-1] == 3


def test_who_gets_one_more_is_who_is_near() -> None:
    spec = group({"a": 3}, {"m": "a", "n": "a"})
    spec = in_racks(spec, {"m": "r", "n": "s"}, {"a": ["s", "s", "r"]})
    assert named(assign(spec)) == {"m": {"a": [2]}, "n": {"a": [0, 1]}}


def test_a_chain_of_racks_is_followed_round() -> None:
    owned = {"m": {"a": [0]}, "n": {"a": [1]}, "o": {"a": [2]}}
    spec = group({"a": 3}, dict.fromkeys("mno", "a"), owned)
    racks = {"m": "r", "n": "s", "o": "t"}
    spec = in_racks(spec, racks, {"a": ["s", "t", "r"]})
    assert quality(spec, assign(spec)).near_share == 1


def test_with_many_different_wishes_those_swap_that_want_the_same() -> None:
    topics = {f"t{number:02}": 2 for number in range(PARTIES_MAX)}
    wanted = {f"{one}{name}": [name] for name in topics for one in "mn"}
    spec = group(topics, wanted)
    racks = {member: "r" if member[0] == "n" else "s" for member in wanted}
    spec = in_racks(spec, racks, {name: ["r", "s"] for name in topics})
    assert quality(spec, uniform.assign(spec)).near_share == 0
    result = assign(spec)
    check(spec, result)
    assert quality(spec, result).near_share == 1
