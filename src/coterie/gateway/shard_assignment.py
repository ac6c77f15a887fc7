"""The assignment of shards to nodes: even, sticky and deterministic.

Even: the numbers of shards of any two nodes differ by at most one. Sticky: among all
even assignments it moves the fewest shards. A node that takes a shard over has to load
it, and requests for its groups wait meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple


class Claim(NamedTuple):
    """The shards that a node serves, by the assignment of a generation."""

    shards: Collection[int]
    generation: int


NO_CLAIM: Final = Claim(frozenset(), -1)


def assign_shards(
    claims: Mapping[str, Claim], shard_count: int
) -> dict[str, frozenset[int]]:
    """Return the shards of each node, by its name.

    A shard that several nodes claim counts as the newest generation's, as when a node
    was cut off while another one took its shards over.
    """
    owned = _owned(claims, shard_count)
    sizes = _sizes({name: len(shards) for name, shards in owned.items()}, shard_count)
    assigned = {name: set(shards[: sizes[name]]) for name, shards in owned.items()}
    kept = set().union(*assigned.values())
    free = iter([shard for shard in range(shard_count) if shard not in kept])
    for name in sorted(assigned):
        shards = assigned[name]
        while len(shards) < sizes[name]:
            shards.add(next(free))
    return {name: frozenset(shards) for name, shards in assigned.items()}


def owners_of(
    assigned: Mapping[str, Iterable[int]], names: Iterable[str], shard_count: int
) -> tuple[int, ...]:
    """Return the position in `names` of each shard's node; -1 for none."""
    owners = [-1] * shard_count
    for position, name in enumerate(names):
        for shard in assigned.get(name, ()):
            owners[shard] = position
    return tuple(owners)


def _owned(claims: Mapping[str, Claim], shard_count: int) -> dict[str, list[int]]:
    """Return the claimed shards of each node in their order, each shard once."""
    owner: dict[int, str] = {}
    # Later entries replace earlier ones; equal generations are ordered by name.
    for name in sorted(claims, key=lambda each: (claims[each].generation, each)):
        for shard in claims[name].shards:
            if 0 <= shard < shard_count:
                owner[shard] = name
    owned: dict[str, list[int]] = {name: [] for name in claims}
    for shard in sorted(owner):
        owned[owner[shard]].append(shard)
    return owned


def _sizes(owned: Mapping[str, int], shard_count: int) -> dict[str, int]:
    """Return the number of shards of each node. The nodes that own the most get the one
    shard more, as they would have to give it up otherwise."""
    if not owned:
        return {}
    least, extra = divmod(shard_count, len(owned))
    ordered = sorted(owned, key=lambda name: (-owned[name], name))
    return {name: least + (position < extra) for position, name in enumerate(ordered)}
