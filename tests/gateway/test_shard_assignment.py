"""The assignment of shards is even, sticky, deterministic and complete."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from coterie.gateway.shard_assignment import Claim, assign_shards, owners_of

SHARDS = 12
names = st.sampled_from("abcdefg")
claims_of_nodes = st.dictionaries(
    names,
    st.builds(
        Claim,
        st.sets(st.integers(-1, SHARDS + 1)).map(frozenset),
        st.integers(-1, 3),
    ),
    min_size=1,
)


def kept(claims: dict[str, Claim], assigned: dict[str, frozenset[int]]) -> int:
    return sum(len(assigned[name] & set(claims[name].shards)) for name in claims)


@given(claims_of_nodes)
def test_every_shard_has_one_node_and_the_numbers_are_even(
    claims: dict[str, Claim],
) -> None:
    assigned = assign_shards(claims, SHARDS)
    assert assigned.keys() == claims.keys()
    every = [shard for shards in assigned.values() for shard in shards]
    assert sorted(every) == list(range(SHARDS))
    sizes = {len(shards) for shards in assigned.values()}
    assert max(sizes) - min(sizes) <= 1


@given(claims_of_nodes)
def test_an_assignment_is_stable(claims: dict[str, Claim]) -> None:
    assigned = assign_shards(claims, SHARDS)
    again = {name: Claim(shards, 9) for name, shards in assigned.items()}
    assert assign_shards(again, SHARDS) == assigned
    reverse = dict(reversed(claims.items()))
    assert assign_shards(reverse, SHARDS) == assigned


@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=5, max_size=5),
)
def test_no_even_assignment_moves_fewer_shards(owners: list[str | None]) -> None:
    count = len(owners)
    claims = {
        name: Claim([i for i, owner in enumerate(owners) if owner == name], 1)
        for name in "abc"
    }
    best = max(
        sum(one == other for one, other in zip(choice, owners, strict=True))
        for choice in product("abc", repeat=count)
        if max(map(choice.count, "abc")) - min(map(choice.count, "abc")) <= 1
    )
    assert kept(claims, assign_shards(claims, count)) == best


def test_the_newest_claim_of_a_shard_counts() -> None:
    claims = {"a": Claim([0, 1], 4), "b": Claim([0, 1], 3), "c": Claim([2, 3], 4)}
    assert assign_shards(claims, 4) == {
        "a": frozenset({0, 1}),
        "b": frozenset({3}),
        "c": frozenset({2}),
    }


def test_a_dead_node_s_shards_move_and_no_others() -> None:
    before = assign_shards(dict.fromkeys("abc", Claim((), -1)), 9)
    alive = {name: Claim(before[name], 1) for name in "ac"}
    after = assign_shards(alive, 9)
    assert after["a"] >= before["a"]
    assert after["c"] >= before["c"]


def test_no_node_means_no_owner() -> None:
    assert assign_shards({}, 3) == {}
    assert owners_of({}, [], 3) == (-1, -1, -1)


def test_owners_are_positions_of_nodes() -> None:
    assert owners_of({"a": [1], "b": [0, 2]}, ["a", "b"], 4) == (1, 0, 1, -1)
