"""When topics are compacted, and what that does to what is fetched."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.runtime.housekeeping import Housekeeping
from coterie.server.apis import fetch, produce
from coterie.wire.record_batch import (
    LogRecord,
    decode_records,
    encode_batch,
    split_batches,
)
from tests.data.test_fetch import parts_of, request_of
from tests.data.test_transactions import Client
from tests.data.world import World, produce_request

INTERVAL_MS = 1_000


def new_world(**configs: str) -> World:
    return compacted_topic(
        World(log_retention_check_interval_ms=INTERVAL_MS), **configs
    )


def compacted_topic(world: World, **configs: str) -> World:
    policy = {"cleanup.policy": "compact"}
    named = {name.replace("_", "."): value for name, value in configs.items()}
    world.create("a", configs=policy | named)
    return world


def send(world: World, *pairs: tuple[str, str | None]) -> None:
    records = [
        LogRecord(
            at, world.clock(), key.encode(), None if value is None else value.encode()
        )
        for at, (key, value) in enumerate(pairs)
    ]
    response = world.call(produce, produce_request(encode_batch(records)), 12)
    assert response.responses[0].partition_responses[0].error_code == 0


def content(world: World, offset: int = 0) -> list[tuple[int, str, str | None]]:
    part: Any = parts_of(world.call(fetch, request_of(offset), 12))[0]
    return [
        (
            record.offset,
            (record.key or b"").decode(),
            None if record.value is None else record.value.decode(),
        )
        for header, batch in split_batches(part.records)
        if not header.is_control
        for record in decode_records(batch)
    ]


def compact(world: World, before: int | None = None) -> None:
    housekeeping = Housekeeping(world.data, world.transactions, lambda _: before)
    housekeeping.start()
    world.scheduler.advance(INTERVAL_MS / 1_000)
    housekeeping.stop()


def test_only_the_last_record_of_a_key_stays() -> None:
    world = new_world()
    send(world, ("k", "1"), ("l", "1"))
    send(world, ("k", "2"))
    send(world, ("last", "1"))
    compact(world)
    assert content(world) == [(1, "l", "1"), (2, "k", "2"), (3, "last", "1")]


def test_log_cleaner_enable_switches_it_off() -> None:
    world = compacted_topic(
        World(log_retention_check_interval_ms=INTERVAL_MS, log_cleaner_enable=False)
    )
    for value in ("1", "2", "3"):
        send(world, ("k", value))
    compact(world)
    assert len(content(world)) == 3


def test_more_batches_than_one_look_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.runtime.compactor.INFOS_PER_STEP", 2)
    world = new_world()
    for value in "1234567":
        send(world, ("k", value))
    compact(world)
    assert content(world) == [(5, "k", "6"), (6, "k", "7")]


def test_what_others_wrote_is_learnt_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coterie.runtime.partitions.LEARNT_PER_STEP", 2)
    world = new_world()
    client = Client(world)
    client.init()
    client.add(0)
    send(world, ("k", "1"))
    client.send(b"k")
    for value in "2345":
        send(world, ("k", value))
    world.restart()
    partition = world.data.partition("a", 0)
    assert partition is not None
    assert len(list(partition.catch_up())) == 3
    assert list(partition.catch_up()) == []
    assert partition.last_stable_offset() == 1


def test_what_must_stay_from_an_offset_on_stays() -> None:
    world = new_world()
    for value in "12345":
        send(world, ("k", value))
    compact(world, before=3)
    assert [offset for offset, *_ in content(world)] == [2, 3, 4]


def test_the_last_batch_is_spared() -> None:
    world = new_world()
    send(world, ("k", "1"))
    send(world, ("k", "2"))
    send(world, ("k", "3"))
    compact(world)
    assert content(world) == [(1, "k", "2"), (2, "k", "3")]


def test_a_reader_in_a_gap_gets_what_comes_after_it() -> None:
    world = new_world()
    send(world, ("k", "1"))
    send(world, ("k", "2"))
    send(world, ("k", "3"))
    compact(world)
    assert content(world, 0)[0][0] == 1


def test_a_tombstone_stays_for_a_while() -> None:
    world = new_world(delete_retention_ms="10000")
    send(world, ("k", "1"))
    send(world, ("k", None))
    send(world, ("x", "1"))
    compact(world)
    assert content(world) == [(1, "k", None), (2, "x", "1")]
    world.scheduler.advance(10)
    send(world, ("x", "2"))
    send(world, ("x", "3"))
    compact(world)
    assert content(world) == [(3, "x", "2"), (4, "x", "3")]


def test_young_records_are_left_alone() -> None:
    world = new_world(min_compaction_lag_ms="60000")
    send(world, ("k", "1"))
    send(world, ("k", "2"))
    send(world, ("x", "1"))
    compact(world)
    assert len(content(world)) == 3
    world.scheduler.advance(60)
    compact(world)
    assert len(content(world)) == 2


@pytest.mark.parametrize(("lag", "left"), [("9223372036854775807", 103), ("1", 102)])
def test_little_that_is_new_waits_unless_it_is_old(lag: str, left: int) -> None:
    world = new_world(max_compaction_lag_ms=lag)
    for at in range(100):
        send(world, (f"k{at}", "1"))
    send(world, ("x", "1"))
    compact(world)
    send(world, ("k1", "2"))
    send(world, ("x", "2"))
    compact(world)
    assert len(content(world)) == left


def test_an_open_transaction_is_left_alone() -> None:
    world = new_world()
    client = Client(world)
    client.init()
    client.add(0)
    send(world, ("k", "1"))
    client.send(b"k")
    send(world, ("k", "2"))
    send(world, ("x", "1"))
    compact(world)
    assert [offset for offset, *_ in content(world)] == [0, 1, 2, 3]
    client.end(committed=False)
    send(world, ("y", "1"))
    compact(world)
    assert [offset for offset, *_ in content(world)] == [2, 3, 5]


def test_a_failed_flush_ends_the_round_and_the_next_does_the_work() -> None:
    world = new_world()
    send(world, ("k", "1"))
    send(world, ("k", "2"))
    send(world, ("x", "1"))
    world.fail_next_write()
    compact(world)
    assert len(content(world)) == 3
    compact(world)
    assert len(content(world)) == 2


def test_it_goes_on_after_a_restart_where_it_was() -> None:
    world = new_world()
    send(world, ("k", "1"))
    send(world, ("k", "2"))
    send(world, ("x", "1"))
    compact(world)
    world.restart()
    send(world, ("k", "3"))
    send(world, ("x", "2"))
    send(world, ("x", "3"))
    compact(world)
    assert content(world) == [(3, "k", "3"), (4, "x", "2"), (5, "x", "3")]


def test_a_topic_deleted_meanwhile_ends_its_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coterie.runtime.housekeeping.STEPS_PER_TURN", 1)
    world = new_world()
    for _ in range(4):
        send(world, ("k", "1"))
    housekeeping = Housekeeping(world.data, world.transactions)
    housekeeping.start()
    world.loop.holds = True
    world.scheduler.advance(INTERVAL_MS / 1_000)
    world.data.stage([world.catalog.delete_topic("a")])
    world.loop.holds = False
    world.loop.release()
    world.scheduler.advance(INTERVAL_MS / 1_000)
    assert list(world.log.partitions()) == []
