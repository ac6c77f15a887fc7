"""Fetch: topics that are deleted and created again in a session, and edge answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

BY_NAME: Final = 12
BY_ID: Final = 13
TIMEOUT_MS: Final = 60_000
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, UNKNOWN_ID, INCONSISTENT_ID = 1, 3, 100, 103


def create(wire: WireClient, name: str) -> bytes:
    """Create a topic of one partition, wait for its leader and return its id."""
    wanted = m.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = m.CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
    (created,) = wire.call(request, 7).topics
    assert created.error_code == 0
    eventually(lambda: is_led(wire, name), expected=f"a leader of {name}")
    topic_id: bytes = created.topic_id
    return topic_id


def is_led(wire: WireClient, name: str) -> bool:
    request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)])
    (topic,) = wire.call(request, 4).topics
    # The node may still be about to become the leader that it announces.
    return topic.error_code == 0 and rows(wire.call(fetch_of(name), BY_NAME))[0][0] == 0


def delete(wire: WireClient, name: str) -> None:
    topics = [m.DeleteTopicState(name=name)]
    request = m.DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    assert wire.call(request, 6).responses[0].error_code == 0


def fetch_of(
    topic: str | bytes | None,
    offset: int = 0,
    *,
    partition: int = 0,
    last_fetched_epoch: int = -1,
    **fields: Any,
) -> m.FetchRequest:
    """Return a request of one partition of a topic, by name or id, or of none."""
    wanted = m.FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        last_fetched_epoch=last_fetched_epoch,
    )
    topics = []
    if isinstance(topic, bytes):
        topics = [m.FetchTopic(topic_id=topic, partitions=[wanted])]
    elif topic is not None:
        topics = [m.FetchTopic(topic=topic, partitions=[wanted])]
    defaults = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1}
    return m.FetchRequest(topics=topics, **{**defaults, **fields})


def rows(response: Any) -> list[tuple[int, bool]]:
    """Return of each partition its error, and whether aborted transactions are null."""
    return [
        (part.error_code, part.aborted_transactions is None)
        for topic in response.responses
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID, 18])
def test_a_session_knows_a_deleted_topic_by_its_name(
    wire: WireClient, name: str, version: int
) -> None:
    topic_id = create(wire, name)
    topic = name if version == BY_NAME else topic_id
    opened = wire.call(fetch_of(topic, session_epoch=0), version)
    epochs = itertools.count(1)

    def in_session() -> list[tuple[int, bool]]:
        session: dict[str, int] = {"session_id": opened.session_id}
        request = fetch_of(None, session_epoch=next(epochs), **session)
        return rows(wire.call(request, version))

    def becomes(wanted: list[tuple[int, bool]]) -> None:
        eventually(lambda: in_session() == wanted, expected=str(wanted))

    assert rows(opened) == [(0, True)]
    delete(wire, name)
    becomes([(UNKNOWN_TOPIC, False)])
    create(wire, name)
    if version == BY_NAME:
        assert in_session() in ([], [(0, True)])
        return
    becomes([(INCONSISTENT_ID, True)])
    assert rows(wire.call(fetch_of(topic_id), version)) == [(UNKNOWN_ID, False)]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID, 18])
def test_a_waiting_fetch_ends_when_its_topic_is_deleted(
    wire: WireClient, connect: Callable[[], WireClient], name: str, version: int
) -> None:
    topic_id = create(wire, name)
    topic = name if version == BY_NAME else topic_id
    waiting = connect()
    waiting.send(fetch_of(topic, max_wait_ms=TIMEOUT_MS), version)
    delete(wire, name)
    # Kafka may handle the deletion first.
    unknown = UNKNOWN_TOPIC if version == BY_NAME else UNKNOWN_ID
    assert rows(waiting.receive()) in ([(UNKNOWN_TOPIC, True)], [(unknown, False)])


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_unknown_partitions_are_last_and_end_no_wait(
    wire: WireClient, name: str, version: int
) -> None:
    topic_id = create(wire, name)
    topic = name if version == BY_NAME else topic_id
    request = fetch_of(topic, partition=9)
    request.topics += fetch_of(topic).topics
    assert rows(wire.call(request, version)) == [(0, True), (UNKNOWN_TOPIC, False)]
    request.max_wait_ms = TIMEOUT_MS
    request.topics += fetch_of(topic, offset=5).topics  # the last one counts
    errors = [(OFFSET_OUT_OF_RANGE, True), (UNKNOWN_TOPIC, False)]
    assert rows(wire.call(request, version)) == errors
    request.topics = request.topics[:1]
    assert rows(wire.call(request, version)) == errors[1:]


@pytest.mark.parametrize("level", [-1, 2])
@pytest.mark.parametrize(
    ("version", "code", "errors"), [(4, 0, [-1]), (12, -1, [-1]), (13, -1, [])]
)
def test_an_unknown_isolation_level_fails(
    wire: WireClient, name: str, level: int, version: int, code: int, errors: list[int]
) -> None:
    topic_id = create(wire, name)
    topic = name if version < BY_ID else topic_id
    response = wire.call(fetch_of(topic, isolation_level=level), version)
    assert response.error_code == code
    assert rows(response) == [(error, False) for error in errors]


def test_a_last_fetched_epoch_that_never_was_is_out_of_range(
    wire: WireClient, name: str
) -> None:
    create(wire, name)
    for epoch in (1, 5):
        request = fetch_of(name, last_fetched_epoch=epoch)
        assert rows(wire.call(request, BY_NAME)) == [(OFFSET_OUT_OF_RANGE, True)]
    request = fetch_of(name, 1, last_fetched_epoch=0)
    (topic,) = wire.call(request, BY_NAME).responses
    (part,) = topic.partitions
    diverging = part.diverging_epoch
    assert (part.error_code, diverging.epoch, diverging.end_offset) == (0, 0, 0)
    assert (part.high_watermark, part.last_stable_offset) == (0, 0)
