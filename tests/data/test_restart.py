"""What a partition knows of its producers after a restart, and what that costs."""

from __future__ import annotations

import pytest

from coterie.runtime import partitions
from coterie.runtime.partitions import PRODUCERS_SPACE
from coterie.server.apis import produce
from coterie.wire.record_batch import Producer
from tests.data.world import World, batch_of, produce_request

BATCHES = 25


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(partitions, "KEPT_EVERY_BATCHES", 10)
    made = World()
    made.create("a")
    for sequence in range(BATCHES):
        assert send(made, sequence) == sequence
    return made


def send(world: World, sequence: int) -> int:
    batch = batch_of(b"x", producer=Producer(7, 0, sequence))
    response = world.call(produce, produce_request(batch), 12)
    [part] = response.responses[0].partition_responses
    assert part.error_code == 0
    offset: int = part.base_offset
    return offset


def test_only_the_batches_since_the_snapshot_are_read_again(world: World) -> None:
    world.restart()
    partition = world.data.partition("a", 0)
    assert partition is not None
    read: list[int] = []
    infos = world.log.infos

    def counted(where: object, offset: int = 0) -> object:
        read.append(offset)
        return infos(where, offset)  # type: ignore[arg-type]

    world.log.infos = counted  # type: ignore[method-assign,assignment]
    assert send(world, BATCHES - 1) == BATCHES - 1
    assert send(world, BATCHES) == BATCHES
    assert read == [20]


def test_a_snapshot_goes_with_its_topic(world: World) -> None:
    assert len(list(world.log.items(PRODUCERS_SPACE))) == 1
    world.data.stage([world.catalog.delete_topic("a")])
    world.log.flush()
    assert list(world.log.items(PRODUCERS_SPACE)) == []
