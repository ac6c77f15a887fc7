"""A response from the path of OffsetFetch equals the response of full handling."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from coterie.auth.acl import (
    Operation,
    ResourceType,
)
from coterie.broker.coordinator.offsets.committed import CommittedOffset
from coterie.broker.log.memory import MemoryLog
from coterie.broker.server import offset_fetch_path
from coterie.broker.server.offset_fetch_path import OffsetFetchPath
from coterie.errors import LogCorrupt, LogError
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.framing import RequestHeaderV0, write_request
from tests.broker.runtime.test_quotas import configure
from tests.broker.server import test_heartbeat_memo
from tests.broker.server.fetches import (
    BY_ID,
    GROUPS,
    PARTITIONS,
    TOPICS,
    Compared,
    answers_of,
    compared,
    fetch_of,
)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_the_path_responds_to_first_and_repeated_requests(version: int) -> None:
    def test(world: Compared) -> None:
        world.commit(index=1)
        world.commit(topic="u")
        world.flush()
        ids = [world.broker.catalog.topic_id(name) or b"" for name in ("u", "t")]
        named = {"topics": (), "ids": ids} if version == BY_ID else {"topics": "ut"}
        request = fetch_of("g", "unknown", indexes=(1, 0, 3), **named)
        with answers_of(world, True, True, True):
            first = world.fetch(request, version)
            assert first == world.fetch(request, version)
            world.fetch(fetch_of("g", topics=None), version)
        counted = world.broker.counts.requests[9, version]
        assert counted == 6  # those of the other connection, too

    compared(test)


def test_each_change_of_an_offset_is_in_the_next_response() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        request = fetch_of("g")
        seen = [world.fetch(request)]
        for change in (
            lambda: world.commit(offset=8),
            lambda: world.delete("g", "t", 0),
            lambda: world.commit(offset=9),
        ):
            change()
            world.flush()
            with answers_of(world, True, True):
                seen += {world.fetch(request), world.fetch(request)}
        assert len(seen) == len({*seen}) == 4

    compared(test)


def test_an_offset_is_sent_once_it_is_durable() -> None:
    def test(world: Compared) -> None:
        world.commit(group="other")
        world.flush()
        requests = fetch_of("g"), fetch_of("other")
        for request in requests:
            world.fetch(request)
        world.commit()
        with answers_of(world, False):
            assert not world.world.fast.send(requests[0], 8)
        world.flush()
        world.commit()
        # The offsets of another group of the shard have not changed.
        with answers_of(world, True):
            world.fetch(requests[1])
        with answers_of(world, True):
            world.fetch(requests[0])

    compared(test)


def unwritten(world: Compared, request: m.OffsetFetchRequest) -> list[bool]:
    """Send a request on both connections while the commit of another one is not
    durable; return whether each request was decoded."""
    connection = world.world.fast.connection._connection
    take = connection.waiting_fetch
    assert take is not None
    decoded = []

    def observed(frame: bytes) -> object:
        waiting = take(frame)
        decoded.append(waiting is None)
        return waiting

    connection.waiting_fetch = observed
    world.commit()
    for client in (world.world.slow, world.world.fast):
        assert not client.send(request, 8)
    return decoded


def both_responses(world: Compared) -> tuple[bytes, bytes]:
    for client in (world.world.slow, world.world.fast):
        client.connection._write()
    return world.world.slow.transport.written, world.world.fast.transport.written


def test_a_response_that_waits_for_a_write_is_made_once() -> None:
    def test(world: Compared) -> None:
        request = fetch_of("g", "other", indexes=(0, 1))
        assert unwritten(world, request) == [False]
        world.flush()
        slow, fast = both_responses(world)
        assert slow[8:] == fast[8:]
        assert slow[:4] == fast[:4]
        assert len(fast) == int.from_bytes(fast[:4]) + 4

    compared(test)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_response_waits_for_the_writes_of_each_shard(
    is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(test_heartbeat_memo.SETTINGS, offsets_topic_num_partitions=2)
    monkeypatch.setattr(test_heartbeat_memo, "SETTINGS", settings)

    def test(world: Compared) -> None:
        shard_of = world.broker.shard_of
        other = next(
            name for name in map(str, count()) if shard_of(name) != shard_of("g")
        )
        groups = ("g", other) if is_first else (other, "g")
        assert unwritten(world, fetch_of(*groups)) == [False]
        world.flush()
        slow, fast = both_responses(world)
        assert slow[8:] == fast[8:]

    compared(test)


def test_a_failed_write_is_an_error_of_each_group() -> None:
    def test(world: Compared) -> None:
        def fail() -> None:
            raise LogError("failed")

        assert unwritten(world, fetch_of("g", "other")) == [False]
        assert isinstance(world.broker.log, MemoryLog)
        world.broker.log.before_write = fail
        with contextlib.suppress(LogError):
            world.flush()
        world.broker.log.before_write = None
        slow, fast = both_responses(world)
        assert fast[8:] == slow[8:]
        found, _ = decode(m.OffsetFetchResponse, 8, fast, 9)
        assert [each.error_code for each in found.groups] == [16, 16]

    compared(test)


def test_a_fetch_from_a_shard_that_stops_is_handled_in_full() -> None:
    def test(world: Compared) -> None:
        connection = world.world.fast.connection._connection
        take = connection.waiting_fetch
        assert take is not None

        def stopped(frame: bytes) -> object:
            waiting = take(frame)
            assert waiting is not None
            world.broker.runtime._stop(world.driven)
            return waiting

        connection.waiting_fetch = stopped
        world.commit()
        written = world.world.fast.send(fetch_of("g"), 8)
        found, _ = decode(m.OffsetFetchResponse, 8, written, 9)
        assert [each.error_code for each in found.groups] == [16]

    compared(test)


def test_an_unstable_offset_is_reported_if_required() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        stable, any_offset = fetch_of("g", stable=True), fetch_of("g")
        before = world.fetch(stable)
        assert before == world.fetch(any_offset)
        world.begin("g", "t", 0)
        world.flush()
        with answers_of(world, False, True):
            assert world.fetch(stable) != before
            assert world.fetch(any_offset) == before
        world.end(commit=True)
        world.flush()
        with answers_of(world, True, True):
            assert world.fetch(stable) == world.fetch(any_offset) != before

    compared(test)


def test_a_refusal_is_handled_in_full() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        requests = fetch_of("g", topics="tu"), fetch_of("g", topics=None)
        before = [world.fetch(request) for request in requests]
        for resource in (
            (ResourceType.TOPIC, "t"),
            (ResourceType.GROUP, "g"),
        ):
            world.deny(*resource, remove=False)
            with answers_of(world, False, False):
                assert before != [world.fetch(request) for request in requests]
            refused = world.broker.counts.authorization_refusals
            assert refused[resource[0], Operation.DESCRIBE] == 4
            world.deny(*resource, remove=True)
            with answers_of(world, True, True):
                assert before == [world.fetch(request) for request in requests]

    compared(test)


def test_the_member_and_its_epoch_are_checked() -> None:
    def test(world: Compared) -> None:
        world.commit("c")
        world.world.consumer_join("m", "c")
        right = fetch_of("c", member=("m", 1))
        with answers_of(world, True, True, False, False):
            assert world.fetch(right, 9) == world.fetch(fetch_of("c"), 9)
            world.fetch(fetch_of("c", member=("m", 7)), 9)
            world.fetch(fetch_of("c", member=("n", 1)), 9)
        world.world.consumer_heartbeat("m", -1)  # the member leaves
        with answers_of(world, False):
            world.fetch(right, 9)

    compared(test)


def test_a_topic_that_was_created_again_has_no_offsets() -> None:
    def test(world: Compared) -> None:
        world.commit_by_id("g", "t", 0)
        world.commit()
        world.flush()

        def by_id() -> m.OffsetFetchRequest:
            topic_id = world.broker.catalog.topic_id("t") or b""
            return fetch_of("g", topics=(), ids=[topic_id])

        old = by_id()
        world.fetch(old, BY_ID)
        world.send(m.DeleteTopicsRequest(topic_names=["t"]), 1)
        world.flush()
        with answers_of(world, False):
            world.fetch(old, BY_ID)
        world.create("t")
        with answers_of(world, False, True):
            world.fetch(old, BY_ID)
            world.fetch(by_id(), BY_ID)

    compared(test)


def test_an_offset_of_an_older_topic_is_not_returned_by_id() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        topic_id = world.broker.catalog.topic_id("t") or b""
        request = fetch_of("g", topics=(), ids=[topic_id], indexes=(0, 1))
        with answers_of(world, True):
            before = world.fetch(request, BY_ID)
        older = CommittedOffset(7, -1, "", 0, topic_id=bytes(range(16)))
        world.driven.shard.state.offsets.stored.put("g", "t", 0, older)
        with answers_of(world, False):
            assert world.fetch(request, BY_ID) != before

    compared(test)


def test_equal_bytes_of_two_versions_have_their_own_responses() -> None:
    def test(world: Compared) -> None:
        world.commit()
        world.flush()
        every = fetch_of("g", topics=None)
        with answers_of(world, True, True, True):
            by_name = world.fetch(every, 9)
            assert world.fetch(every, BY_ID) != by_name
            assert world.fetch(every, 9) == by_name

    compared(test)


def test_client_quotas_apply_to_every_fetch() -> None:
    def test(world: Compared) -> None:
        world.fetch(fetch_of("g"))
        quotas = world.broker.catalog.client_quotas
        configure(quotas, {"client-id": "me"}, request_percentage=50.0)
        with answers_of(world, False):
            world.world.fast.send(fetch_of("g"), 8)

    compared(test)


def test_an_unreadable_snapshot_is_reported_by_full_handling() -> None:
    def test(world: Compared) -> None:
        def damaged() -> None:
            raise LogCorrupt("damaged")

        state = world.driven.shard.state
        state.ensure_group("g")
        state.offsets.stored._loaders["g"] = damaged  # type: ignore[assignment]
        with answers_of(world, False):
            world.fetch(fetch_of("g"))

    compared(test)


def test_malformed_and_uncommon_requests_are_handled_in_full() -> None:
    def test(world: Compared) -> None:
        world.commit()
        path = OffsetFetchPath(
            world.broker.nodes[0],
            world.world.fast.connection,
            world.world.fast.connection._connections.fetches,
        )
        request = fetch_of("g", "other", indexes=range(130))
        front = RequestHeaderV0(9, 9, 1)
        frame = write_request(front, "me", encode(request, 9), flexible=True)[4:]
        world.flush()
        assert path.respond(frame)
        for size in range(8, len(frame), 3):
            assert path.respond(frame[:size]) is None
        assert path.respond(frame + b"\0") is None
        dice = random.Random(1)
        for _ in range(400):
            changed = bytearray(frame)
            changed[dice.randrange(len(frame))] = dice.randrange(256)
            path.respond(bytes(changed))  # raises nothing

    compared(test)


def test_the_stored_responses_have_a_limited_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offset_fetch_path, "STORED_BYTES_MAX", 30_000)

    def test(world: Compared) -> None:
        stored = world.world.fast.connection._connections.fetches
        sizes = []
        for index in range(100):
            world.fetch(fetch_of("g", indexes=range(index)))
            sizes.append(len(stored.by_request))
            content = sum(
                1_000 + len(request) + len(each.tail)
                for request, each in stored.by_request.items()
            )
            assert content == stored._bytes <= 30_000
        assert 1 < max(sizes) < 30

    compared(test)


def test_a_large_response_is_not_stored() -> None:
    def test(world: Compared) -> None:
        for index in range(PARTITIONS):
            world.commit(index=index, offset=199)
        world.flush()
        indexes = [*range(PARTITIONS)] * 100
        stored = world.world.fast.connection._connections.fetches
        with answers_of(world, True, True):
            world.fetch(fetch_of("g", indexes=indexes[:8]))
            world.fetch(fetch_of("g", indexes=indexes))
        assert len(stored.by_request) == 1

    compared(test)


def random_request(
    dice: random.Random, world: Compared
) -> tuple[m.OffsetFetchRequest, int]:
    version = dice.choice([*range(1, 11), 8, 9, 9, 10])
    topics = dice.choices(TOPICS, k=dice.randrange(4))
    indexes = dice.choices(range(PARTITIONS + 1), k=dice.randrange(6))
    if version < 8:
        rows = [
            m.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name in topics
        ]
        old = m.OffsetFetchRequest(
            group_id=dice.choice(GROUPS),
            topics=None if version > 1 and dice.random() < 0.2 else rows,
            require_stable=version == 7 and dice.random() < 0.5,
        )
        return old, version
    ids = []
    if version == BY_ID:
        found = (world.broker.catalog.topic_id(name) for name in topics)
        ids = [each or bytes(range(16)) for each in found]
    request = fetch_of(
        *dice.choices(GROUPS, k=dice.randrange(4)),
        topics=None if dice.random() < 0.2 else () if version == BY_ID else topics,
        ids=ids,
        indexes=indexes,
        stable=dice.random() < 0.5,
        member=dice.choice([(None, -1)] * 3 + [("m", 1), ("m", 2)]),
    )
    return request, version


def change(dice: random.Random, world: Compared) -> None:
    """Make a random change."""
    name = dice.choice(GROUPS[:-1]), dice.choice(TOPICS), dice.randrange(PARTITIONS)
    producer = dice.choice([5, 6])
    resource = dice.choice([(ResourceType.GROUP, "g"), (ResourceType.TOPIC, "t")])
    steps: list[tuple[int, Callable[[], None]]] = [
        (12, lambda: world.commit(*name, dice.randrange(1_000))),
        (3, lambda: world.commit_by_id(*name)),
        (4, lambda: world.delete(*name)),
        (6, lambda: world.begin(*name, producer)),
        (5, lambda: world.end(commit=dice.random() < 0.5, producer_id=producer)),
        (2, lambda: world.world.consumer_join("m", "c")),
        (2, lambda: world.deny(*resource, remove=False)),
        (6, lambda: world.deny(*resource, remove=True)),
        (1, lambda: world.send(m.DeleteGroupsRequest(groups_names=[name[0]]), 1)),
        (1, lambda: world.send(m.DeleteTopicsRequest(topic_names=[name[1]]), 1)),
        (3, lambda: world.create(name[1])),
        (1, world.reload),
        (12, world.flush),
    ]
    weights = [weight for weight, _ in steps]
    dice.choices([step for _, step in steps], weights)[0]()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_path_and_full_handling_agree_in_random_runs(seed: int) -> None:
    def test(world: Compared) -> None:
        dice = random.Random(seed)
        requests = [random_request(dice, world) for _ in range(20)]
        for _ in range(250):
            change(dice, world)
            if dice.random() < 0.1:
                requests[dice.randrange(20)] = random_request(dice, world)
            for request, version in dice.choices(requests, k=4):
                world.fetch(request, version)
        assert world.answers.count(True) > 50
        assert world.answers.count(False) > 50

    compared(test)
