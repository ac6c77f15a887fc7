"""Transactions: their producers, and the offsets committed in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .log_records import end_of_log
from .members import join_consumer, topic_id
from .producers import (
    Producer,
    add_offsets,
    end_txn,
    init_producer_id,
    new_producer,
    txn_commit,
)
from .test_offsets import committed

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REQUEST = 42
GROUP_ID_NOT_FOUND = 69
UNKNOWN_TOPIC_ID = 100
STALE_MEMBER_EPOCH = 113
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
PRODUCER_FENCED = 90

UNKNOWN_PARTITION = 9


def listed(wire: WireClient, group: str) -> list[tuple[str, str]]:
    """Return state and type of the group; nothing if it is not listed."""
    groups = wire.call(m.ListGroupsRequest(), 5).groups
    return [
        (each.group_state, each.group_type) for each in groups if each.group_id == group
    ]


@pytest.mark.parametrize(
    "topics",
    [{"unknown": {0: 1}}, {"topic": {UNKNOWN_PARTITION: 1}}, {"topic": {}}, {}],
)
def test_a_commit_without_partitions_that_exist_begins_no_transaction(
    wire: WireClient, group: str, topic: str, topics: Mapping[str, Mapping[int, int]]
) -> None:
    producer = new_producer(wire, group)
    names = {"topic": topic, "unknown": f"{topic}-unknown"}
    offsets = [(names[each], of_topic) for each, of_topic in topics.items()]
    errors = [
        (name, [(index, UNKNOWN_TOPIC_OR_PARTITION) for index in of_topic])
        for name, of_topic in offsets
        if of_topic
    ]
    assert txn_commit(wire, producer, group, offsets) == errors
    assert end_txn(wire, producer, commit=True).error_code == INVALID_TXN_STATE
    aborted = end_txn(wire, producer, commit=False)
    assert aborted.error_code == 0
    assert (aborted.producer_id, aborted.producer_epoch) == (
        producer.id,
        producer.epoch + 1,
    )


def test_topics_without_partitions_are_not_answered(
    wire: WireClient, group: str, topic: str
) -> None:
    producer = new_producer(wire, group)
    topics = [(topic, {}), (f"{topic}-unknown", {}), (topic, {1: 5})]
    assert txn_commit(wire, producer, group, topics) == [
        (f"{topic}-unknown", []),
        (topic, [(1, 0)]),
    ]


@pytest.mark.fact("E17-15d")
def test_the_group_of_an_aborted_commit_stays_empty(
    wire: WireClient, group: str, topic: str
) -> None:
    producer = new_producer(wire, group)
    assert txn_commit(wire, producer, group, [(topic, {0: 5})]) == [(topic, [(0, 0)])]
    assert listed(wire, group) == [("Empty", "classic")]
    assert end_txn(wire, producer, commit=False).error_code == 0
    producer = new_producer(wire, group)  # once the abort is complete
    assert listed(wire, group) == [("Empty", "classic")]


def test_records_of_transactional_commits_have_the_topics_id(
    wire: WireClient, group: str, topic: str
) -> None:
    since = end_of_log(wire, group)
    producer = new_producer(wire, group)
    txn_commit(wire, producer, group, [(topic, {0: 5})])
    [(record_version, value)] = committed(wire, group, since)
    found = topic_id(wire, topic)
    assert (record_version, value.offset, value.topic_id) == (4, 5, found)
    assert end_txn(wire, producer, commit=True).error_code == 0


def commit_by_id(
    wire: WireClient,
    producer: Producer,
    group: str,
    topics: Mapping[bytes, int],
    **fields: Any,
) -> list[tuple[bytes, int]]:
    """Commit offset 5 of a partition of each topic; return ids and error codes."""
    request = m.TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group,
        topics=[
            m.TxnOffsetCommitRequestTopic(
                topic_id=each,
                partitions=[
                    m.TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=5,
                        committed_metadata="",
                    )
                ],
            )
            for each, index in topics.items()
        ],
        **fields,
    )
    return [
        (topic.topic_id, row.error_code)
        for topic in wire.call(request, 6).topics
        for row in topic.partitions
    ]


@pytest.mark.fact("E17-15e")
def test_topics_of_a_transactional_commit_may_have_ids(
    wire: WireClient, group: str, topic: str
) -> None:
    producer = new_producer(wire, group)
    known, unknown, zero = topic_id(wire, topic), uuid4().bytes, bytes(16)
    found = commit_by_id(wire, producer, group, {zero: 0, known: 0, unknown: 1})
    codes = {known: 0, unknown: UNKNOWN_TOPIC_ID, zero: UNKNOWN_TOPIC_ID}
    assert dict(found) == codes
    assert end_txn(wire, producer, commit=True).error_code == 0
    missing = commit_by_id(
        wire, new_producer(wire, group), group, {known: UNKNOWN_PARTITION}
    )
    assert missing == [(known, UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.fact("E17-15f")
def test_a_transactional_commit_by_id_has_the_errors_of_members(
    wire: WireClient, group: str, topic: str
) -> None:
    known = topic_id(wire, topic)
    producer = new_producer(wire, group)
    as_member = {"member_id": "m", "generation_id_or_member_epoch": 3}
    absent = commit_by_id(wire, producer, group, {known: 0}, **as_member)
    assert absent == [(known, GROUP_ID_NOT_FOUND)]
    member = join_consumer(wire, group, topic)
    stale = {
        "member_id": member.id,
        "generation_id_or_member_epoch": member.epoch + 5,
    }
    found = commit_by_id(wire, producer, group, {known: 0}, **stale)
    assert found == [(known, STALE_MEMBER_EPOCH)]


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id_aborts_the_transaction(
    wire: WireClient, group: str, version: int
) -> None:
    producer = new_producer(wire, group, version=version)
    assert add_offsets(wire, producer, group) == 0
    found = init_producer_id(wire, group, version=version)
    assert (found.error_code, found.producer_id) == (0, producer.id)
    # One epoch fences the producer, which is unknown; the other is for the new one.
    assert found.producer_epoch == producer.epoch + 2


@pytest.mark.parametrize("version", range(3, 6))
def test_a_producer_aborts_its_own_transaction_with_one_more_epoch(
    wire: WireClient, group: str, version: int
) -> None:
    producer = new_producer(wire, group)
    assert add_offsets(wire, producer, group) == 0
    claim = (producer.id, producer.epoch)
    for _ in range(2):  # the second request is a retry
        found = init_producer_id(wire, group, *claim, version=version)
        assert found.error_code == 0
        assert (found.producer_id, found.producer_epoch) == (
            producer.id,
            producer.epoch + 1,
        )
    found = init_producer_id(
        wire, group, producer.id, producer.epoch + 1, version=version
    )
    assert (found.error_code, found.producer_epoch) == (0, producer.epoch + 2)
    found = init_producer_id(wire, group, *claim, version=version)
    fenced = INVALID_PRODUCER_EPOCH if version < 4 else PRODUCER_FENCED
    assert found.error_code == fenced


@pytest.mark.parametrize("version", range(3, 6))
@pytest.mark.parametrize(
    ("claim", "code"),
    [
        ((-1, -1), 0),
        ((5, 0), 0),
        ((5, -1), INVALID_REQUEST),
        ((-1, 0), INVALID_REQUEST),
    ],
)
def test_an_idempotent_producer_names_both_id_and_epoch_or_neither(
    wire: WireClient, version: int, claim: tuple[int, int], code: int
) -> None:
    found = init_producer_id(wire, None, *claim, version=version)
    assert found.error_code == code
    assert found.producer_epoch == (-1 if code else 0)


@pytest.mark.parametrize("version", range(3, 6))
def test_a_fenced_producer_aborts_the_transaction_of_its_successor(
    wire: WireClient, group: str, version: int
) -> None:
    old = new_producer(wire, group)
    new = new_producer(wire, group)
    assert add_offsets(wire, new, group) == 0
    found = init_producer_id(wire, group, old.id, old.epoch, version=version)
    fenced = INVALID_PRODUCER_EPOCH if version < 4 else PRODUCER_FENCED
    assert (found.error_code, found.producer_epoch) == (fenced, -1)
    assert end_txn(wire, new, commit=True).error_code == INVALID_TXN_STATE
    assert add_offsets(wire, new, group) == PRODUCER_FENCED
    found = init_producer_id(wire, group, new.id, new.epoch, version=version)
    assert (found.error_code, found.producer_epoch) == (0, new.epoch + 1)
