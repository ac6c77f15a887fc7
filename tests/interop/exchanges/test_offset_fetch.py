"""OffsetFetch: its layout in every version, and where errors are placed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from coterie.wire import messages as m
from coterie.wire.codec import encode
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import (
    Partition,
    commit,
    join_classic,
    join_consumer,
    topic_id,
)
from .producers import add_offsets, end_txn, new_producer, txn_commit

UNKNOWN_MEMBER_ID = 25
ILLEGAL_GENERATION = 22
UNSTABLE_OFFSET_COMMIT = 88
UNKNOWN_TOPIC_ID = 100
STALE_MEMBER_EPOCH = 113
BY_NAME = range(1, 10)

NewTopic: TypeAlias = Callable[[str, int], str]
Found: TypeAlias = dict[Partition, tuple[int, int]]
"""The offset and error code of each partition."""


def request_of(
    groups: Mapping[str, Mapping[str, Sequence[int]] | None],
    version: int,
    *,
    require_stable: bool = False,
    member_id: str | None = None,
    epoch: int = -1,
) -> m.OffsetFetchRequest:
    """Return a request by topic names, in the shape of the version."""
    if version < 8:
        [(group, topics)] = groups.items()
        old = topics and [
            m.OffsetFetchRequestTopic(name=name, partition_indexes=list(indexes))
            for name, indexes in topics.items()
        ]
        return m.OffsetFetchRequest(
            group_id=group,
            topics=None if topics is None else old or [],
            require_stable=require_stable,
        )
    return m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequestGroup(
                group_id=group,
                member_id=member_id,
                member_epoch=epoch,
                topics=None if topics is None else named(topics),
            )
            for group, topics in groups.items()
        ],
        require_stable=require_stable,
    )


def named(topics: Mapping[str, Sequence[int]]) -> list[m.OffsetFetchRequestTopics]:
    return [
        m.OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes))
        for name, indexes in topics.items()
    ]


def content(response: Any) -> list[tuple[int, Found]]:
    """Return the error and partitions of each group, of any version by name."""
    return [
        (
            each.error_code,
            {
                (topic.name, found.partition_index): (
                    found.committed_offset,
                    found.error_code,
                )
                for topic in each.topics
                for found in topic.partitions
            },
        )
        for each in response.groups or [response]
    ]


def fetch(
    wire: WireClient,
    group: str,
    topics: Mapping[str, Sequence[int]] | None,
    version: int = 9,
    **fields: Any,
) -> tuple[int, Found]:
    """Fetch offsets of one group; return its error and partitions."""
    request = request_of({group: topics}, version, **fields)
    [found] = content(wire.call(request, version))
    return found


@pytest.mark.fact("A-10", "A-11", "A-13", "A-14a", "A-14c", "A-14e", "A-40")
@pytest.mark.parametrize("version", BY_NAME)
def test_requested_partitions_are_answered_in_every_version(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    commit(wire, group, {(topic, 1): 7}, metadata="note", leader_epoch=0)
    asked = request_of({group: {topic: [1, 0]}}, version)
    response = wire.call(asked, version)
    assert response.throttle_time_ms == 0
    [(error, found)] = content(response)
    assert (error, found) == (0, {(topic, 1): (7, 0), (topic, 0): (-1, 0)})
    [first, second] = (response.groups or [response])[0].topics[0].partitions
    assert (first.metadata, second.metadata) == ("note", "")
    assert first.partition_index == 1


@pytest.mark.fact("A-14b", "A-40")
@pytest.mark.parametrize("version", BY_NAME)
def test_the_leader_epoch_is_fetched_from_version_5_on(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    commit(wire, group, {(topic, 0): 7}, leader_epoch=0)
    response = wire.call(request_of({group: {topic: [0, 1]}}, version), version)
    partitions = (response.groups or [response])[0].topics[0].partitions
    epochs = [each.committed_leader_epoch for each in partitions]
    assert epochs == ([0, -1] if version >= 5 else [-1, -1])


@pytest.mark.fact("A-12", "A-20", "A-14d")
@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize("require_stable", [False, True])
def test_null_topics_are_all_partitions_with_an_offset(
    wire: WireClient, group: str, topic: str, version: int, *, require_stable: bool
) -> None:
    commit(wire, group, {(topic, 1): 7})
    stable = require_stable and version >= 7
    found = fetch(wire, group, None, version, require_stable=stable)
    assert found == (0, {(topic, 1): (7, 0)})


@pytest.mark.fact("A-21")
@pytest.mark.parametrize("version", BY_NAME)
def test_no_topics_are_no_partitions(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    commit(wire, group, {(topic, 1): 7})
    assert fetch(wire, group, {}, version) == (0, {})


@pytest.mark.fact("A-25")
def test_null_topics_are_malformed_in_version_1(wire: WireClient, group: str) -> None:
    nullable = request_of({group: None}, 2)
    body = encode(nullable, 2)
    assert body[-4:] == b"\xff\xff\xff\xff"
    frame, _ = wire.frame(request_of({group: {}}, 1), 1)
    wire.socket.sendall(frame[: -len(body)] + body)
    assert wire.is_closed()


@pytest.mark.fact("A-43a")
def test_offsets_of_the_empty_group_id_are_fetched(wire: WireClient) -> None:
    assert fetch(wire, "", {"no-topic": [0]}) == (0, {("no-topic", 0): (-1, 0)})


@pytest.mark.fact("A-22", "A-30", "A-32", "A-45a", "A-45b", "A-14f")
@pytest.mark.parametrize("asks", ["all", "none", "one"])
def test_an_error_of_a_group_is_its_own_and_has_no_topics(
    wire: WireClient, group: str, topic: str, asks: str
) -> None:
    topics = {"all": None, "none": {}, "one": {topic: [0]}}[asks]
    member = join_consumer(wire, group, topic)
    commit(wire, group, {(topic, 0): 7}, member_id=member.id, epoch=member.epoch)

    def code(member_id: str | None, epoch: int) -> int:
        error, found = fetch(wire, group, topics, member_id=member_id, epoch=epoch)
        assert not error or not found
        return error

    assert code(member.id, member.epoch) == 0
    assert code("unknown", member.epoch) == UNKNOWN_MEMBER_ID
    assert code("", -1) == UNKNOWN_MEMBER_ID
    for wrong in (-1, member.epoch - 1, member.epoch + 1):
        assert code(member.id, wrong) == STALE_MEMBER_EPOCH
    other = f"{group}-other"
    request = request_of(
        {group: topics, other: topics}, 9, member_id="unknown", epoch=1
    )
    answered = wire.call(request, 9)
    assert [each.error_code for each in answered.groups] == [UNKNOWN_MEMBER_ID, 0]


@pytest.mark.fact("A-46a")
def test_a_classic_group_ignores_the_member(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_classic(wire, group, topic)
    commit(wire, group, {(topic, 0): 7}, member_id=member.id, epoch=member.generation)
    found = fetch(wire, group, None, member_id="unknown", epoch=99)
    assert found == (0, {(topic, 0): (7, 0)})


@pytest.mark.fact("A-46b")
def test_a_classic_member_of_a_consumer_group_needs_its_generation(
    wire: WireClient, group: str, topic: str
) -> None:
    classic = join_classic(wire, group, topic)
    join_consumer(wire, group, topic, topic_partitions=[])
    wrong = classic.generation + 99
    found = fetch(wire, group, None, member_id=classic.id, epoch=wrong)
    assert found == (ILLEGAL_GENERATION, {})


@pytest.mark.fact("A-51", "A-14e", "A-32")
def test_repeated_groups_are_answered_one_by_one_in_order(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 7, (topic, 1): 8})
    groups = [
        m.OffsetFetchRequestGroup(group_id=group, topics=named({topic: [1]})),
        m.OffsetFetchRequestGroup(group_id=f"{group}-other", topics=None),
        m.OffsetFetchRequestGroup(group_id=group, topics=named({topic: [0]})),
    ]
    response = wire.call(m.OffsetFetchRequest(groups=groups), 9)
    assert isinstance(response, m.OffsetFetchResponse)
    assert [each.group_id for each in response.groups] == [
        group,
        f"{group}-other",
        group,
    ]
    assert content(response) == [
        (0, {(topic, 1): (8, 0)}),
        (0, {}),
        (0, {(topic, 0): (7, 0)}),
    ]


@pytest.mark.fact("A-52a")
def test_a_deleted_offset_is_absent_or_minus_one(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 7, (topic, 1): 8})
    partitions = [m.OffsetDeleteRequestPartition(partition_index=0)]
    deleted = m.OffsetDeleteRequestTopic(name=topic, partitions=partitions)
    assert wire.call(m.OffsetDeleteRequest(group_id=group, topics=[deleted]), 0)
    assert fetch(wire, group, None) == (0, {(topic, 1): (8, 0)})
    assert fetch(wire, group, {topic: [0]}) == (0, {(topic, 0): (-1, 0)})


@pytest.mark.fact("A-15a", "A-15b", "A-14g")
def test_version_10_has_topic_ids(wire: WireClient, group: str, topic: str) -> None:
    commit(wire, group, {(topic, 0): 7})
    known, unknown = topic_id(wire, topic), bytes(range(16))

    def fetched(topics: list[m.OffsetFetchRequestTopics] | None) -> object:
        each = m.OffsetFetchRequestGroup(group_id=group, topics=topics)
        [answered] = wire.call(m.OffsetFetchRequest(groups=[each]), 10).groups
        assert answered.error_code == 0
        return [
            (
                found.name,
                found.topic_id,
                [
                    (part.partition_index, part.committed_offset, part.error_code)
                    for part in found.partitions
                ],
            )
            for found in answered.topics
        ]

    asked = [
        m.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0])
        for each in (known, unknown)
    ]
    assert fetched(asked) == [
        ("", known, [(0, 7, 0)]),
        ("", unknown, [(0, -1, UNKNOWN_TOPIC_ID)]),
    ]
    assert fetched(None) == [("", known, [(0, 7, 0)])]


@pytest.mark.fact("A-48a", "A-48b", "A-48c", "A-48d", "A-14d")
@pytest.mark.parametrize("version", [7, 8, 9])
def test_a_stable_fetch_reports_partitions_of_open_transactions(
    wire: WireClient, group: str, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic("three", 3)
    commit(wire, group, {(topic, 0): 7, (topic, 1): 8})
    producer = new_producer(wire, f"tx-{group}", version=4)
    assert add_offsets(wire, producer, group, version=3) == 0
    pending = [(topic, {0: 17, 2: 19})]
    committed = txn_commit(wire, producer, group, pending, version=3)
    assert committed == [(topic, [(0, 0), (2, 0)])]
    unstable = (-1, UNSTABLE_OFFSET_COMMIT)

    def stable(topics: Mapping[str, Sequence[int]] | None) -> Found:
        error, found = fetch(wire, group, topics, version, require_stable=True)
        assert error == 0
        return found

    assert stable({topic: [0, 1, 2]}) == {
        (topic, 0): unstable,
        (topic, 1): (8, 0),
        (topic, 2): unstable,
    }
    assert stable(None) == {(topic, 0): unstable, (topic, 1): (8, 0)}
    _, found = fetch(wire, group, {topic: [0, 1, 2]}, version)
    assert found == {(topic, 0): (7, 0), (topic, 1): (8, 0), (topic, 2): (-1, 0)}
    assert end_txn(wire, producer, commit=True, version=3).error_code == 0
    ended = {(topic, 0): (17, 0), (topic, 1): (8, 0), (topic, 2): (19, 0)}
    eventually(lambda: stable(None) == ended, expected=str(ended))
