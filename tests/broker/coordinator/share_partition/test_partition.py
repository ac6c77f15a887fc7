"""Histories of a share partition, compared with a reference of one entry an offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from coterie.broker.coordinator.share_partition.acknowledge import Acknowledgement
from coterie.broker.coordinator.share_partition.partition import ShareLimits
from tests.broker.coordinator.share_partition.world import LOCK_MS, World

SMALL = ShareLimits(LOCK_MS, 2, 3, can_renew=True)


def acknowledgement(
    member: str, first: int, last: int, kind: int
) -> Callable[[World], object]:
    batch = Acknowledgement(first, last, [kind])
    return lambda world: world.acknowledge(member, batch)


def small_operations() -> Iterator[Callable[[World], object]]:
    """Yield everything that two members can do to two record batches."""
    yield lambda world: world.fetch("a", 1, exact=True)
    yield lambda world: world.fetch("b", 2, exact=False)
    for member in ("a", "b"):
        for first, last in ((0, 0), (0, 1), (1, 2)):
            for kind in (1, 2):
                yield acknowledgement(member, first, last, kind)
    yield lambda world: world.pass_time(LOCK_MS)
    yield lambda world: world.close_session("a")
    yield World.flush
    yield World.restart
    yield lambda world: world.delete_records(1)


def walk(depth: int) -> int:
    """Do every sequence of operations, but each state once; return their number."""
    operations = list(small_operations())
    worlds: dict[tuple[object, ...], World] = {(): World([1, 2], SMALL)}
    seen: set[tuple[object, ...]] = set()
    for _ in range(depth):
        following: dict[tuple[object, ...], World] = {}
        for world in worlds.values():
            for operation in operations:
                new = world.copy()
                operation(new)
                new.check()
                key = new.key()
                if key not in seen:
                    seen.add(key)
                    following[key] = new
        worlds = following
    return len(seen)


def test_every_short_history_keeps_the_rules() -> None:
    assert walk(3) > 50


@pytest.mark.slow
def test_every_history_of_six_operations_keeps_the_rules() -> None:
    assert walk(6) > 2_000


def play(chance: Random, steps: int) -> World:
    limits = ShareLimits(
        LOCK_MS, chance.randint(2, 6), chance.choice([5, 20, 200]), can_renew=True
    )
    world = World([chance.randint(1, 9) for _ in range(25)], limits)
    for _ in range(steps):
        member = chance.choice("abc")
        start = world.partition.start_offset
        match chance.randrange(12):
            case 0 | 1 | 2 | 3:
                world.fetch(
                    member,
                    chance.randint(1, 20),
                    batch_size=chance.randint(1, 20),
                    exact=chance.random() < 0.5,
                )
            case 4 | 5 | 6 | 7:
                held = [
                    at
                    for at, known in world.reference.items()
                    if known.member == member
                ]
                first = chance.choice(held or [max(0, start - 1)])
                if held and chance.random() < 0.5:
                    first = min(held)
                last = first + chance.randint(0, 6)
                size = chance.choice([1, last - first + 1])
                types = [chance.choice([0, 1, 1, 2, 3, 4]) for _ in range(size)]
                world.acknowledge(member, Acknowledgement(first, last, types))
            case 8:
                world.pass_time(chance.randint(1, LOCK_MS))
            case 9:
                world.close_session(member)
            case 10:
                world.flush()
            case _:
                if chance.random() < 0.3:
                    world.restart()
                elif chance.random() < 0.2:
                    world.delete_records(min(start + chance.randint(0, 4), world.end))
        world.check()
    return world


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_keep_the_rules(seed: int) -> None:
    play(Random(seed), 60)


@pytest.mark.slow
def test_long_random_histories_keep_the_rules() -> None:
    for seed in range(1_000, 1_150):
        play(Random(seed), 200)


def test_histories_finish_records() -> None:
    worlds = [play(Random(seed), 60) for seed in range(10)]
    assert any(world.partition.start_offset > 5 for world in worlds)
