"""The records of `__consumer_offsets` as a client reads them, and their partitions.

A gateway has them in its own topic, between barriers.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from coterie.broker.coordinator.record_serde import decode_record, is_barrier
from coterie.broker.coordinator.records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from tests.real_clients.confluent_admin import ANSWER_S, admin_client, alter_offsets
from tests.real_clients.confluent_members import ConfluentGroup
from tests.real_clients.conftest import OFFSETS_TOPIC as OFFSETS_TOPIC_VARIABLE
from tests.support.waiting import eventually

OFFSETS_TOPIC = os.environ.get(OFFSETS_TOPIC_VARIABLE, "__consumer_offsets")
OFFSET_COMMIT, GROUP_METADATA = 1, 2


class Entry(NamedTuple):
    """A record: the type and content of its key, and whether it is a tombstone."""

    kind: int
    group: str
    topic: str | None
    offset: int | None
    deleted: bool


def java_partition(group: str, partitions: int) -> int:
    """Return the partition of a group, by String.hashCode over UTF-16 units."""
    units = group.encode("utf-16-be")
    hashed = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def parse(key: bytes, value: bytes | None) -> Entry:
    """Decode a record's key; keys of types 0 to 2 are never flexible."""
    (kind,) = struct.unpack_from(">h", key)
    (size,) = struct.unpack_from(">h", key, 2)
    group, rest = key[4 : 4 + size].decode(), key[4 + size :]
    topic, offset = None, None
    if kind in (0, OFFSET_COMMIT):
        (size,) = struct.unpack_from(">h", rest)
        topic = rest[2 : 2 + size].decode()
        if value is not None:
            (offset,) = struct.unpack_from(">q", value, 2)
    return Entry(kind, group, topic, offset, value is None)


def entries(bootstrap: str, group: str) -> list[Entry]:
    """Return the entries of a group's records, in order."""
    found = [parse(key, value) for key, value in neighbours(bootstrap, group)]
    return [entry for entry in found if entry.group == group]


def neighbours(bootstrap: str, group: str) -> list[tuple[bytes, bytes | None]]:
    """Return all records of the group's partition."""
    topics = admin_client(bootstrap).list_topics(OFFSETS_TOPIC, timeout=ANSWER_S).topics
    partition = java_partition(group, len(topics[OFFSETS_TOPIC].partitions))
    config = {"bootstrap.servers": bootstrap, "group.id": "unused"}
    consumer = Consumer({**config, "enable.partition.eof": True})
    consumer.assign([TopicPartition(OFFSETS_TOPIC, partition, 0)])
    found: list[tuple[bytes, bytes | None]] = []

    def at_the_end() -> bool:
        for message in consumer.consume(500, timeout=0.5):
            if (error := message.error()) is not None:
                return bool(error.code() == KafkaError._PARTITION_EOF)
            key = bytes(message.key() or b"")
            if not is_barrier(key):
                found.append((key, message.value()))
        return False

    try:
        eventually(at_the_end, expected="the end of the partition")
    finally:
        consumer.close()
    return found


@pytest.mark.fact("B-16a", "E22-01a", "E22-01b")
@pytest.mark.parametrize("suffix", ["plain", "ärger", "日本", "🦀🦀", "a" * 200])
def test_a_group_is_in_the_offsets_partition_that_java_computes(
    bootstrap: str, group: str, topic: str, suffix: str
) -> None:
    # Only the end of the group id is unique.
    name = f"{group[-8:]}-{suffix}"
    alter_offsets(bootstrap, name, {(topic, 0): 42})
    assert Entry(OFFSET_COMMIT, name, topic, 42, deleted=False) in entries(
        bootstrap, name
    )


@pytest.mark.fact("D-12", "D-15a", "E22-02")
def test_a_deleted_group_leaves_tombstones(
    bootstrap: str, group: str, topic: str
) -> None:
    members = ConfluentGroup(bootstrap, group, topic)
    members.join()
    members.poll_until_assigned(4)
    members.close()
    alter_offsets(bootstrap, group, {(topic, 0): 1, (topic, 1): 2})
    admin = admin_client(bootstrap)
    admin.delete_consumer_groups([group])[group].result(ANSWER_S)
    gone = [(e.kind, e.topic) for e in entries(bootstrap, group) if e.deleted]
    offset = (OFFSET_COMMIT, topic)
    assert sorted(gone[-3:], key=str) == [offset, offset, (GROUP_METADATA, None)]
    assert gone[-1] == (GROUP_METADATA, None)


@pytest.mark.fact("E22-32a")
def test_a_completed_rebalance_writes_group_metadata(
    bootstrap: str, group: str, topic: str
) -> None:
    members = ConfluentGroup(bootstrap, group, topic)
    members.join()
    members.poll_until_assigned(4)
    members.close()
    kinds = [entry.kind for entry in entries(bootstrap, group)]
    assert kinds.count(GROUP_METADATA) >= 2  # the first generation, and the empty group


@pytest.mark.fact("E25-05")
def test_max_poll_interval_is_the_rebalance_timeout(
    bootstrap: str, group: str, topic: str
) -> None:
    members = ConfluentGroup(bootstrap, group, topic, group_protocol="consumer")
    members.join(max_poll_interval_ms=123_456)
    members.poll_until_assigned(4)
    members.close()
    records = [decode_record(*pair) for pair in neighbours(bootstrap, group)]
    timeouts = [
        record.value.rebalance_timeout_ms
        for record in records
        if record is not None
        and isinstance(record.key, ConsumerGroupMemberMetadataKey)
        and isinstance(record.value, ConsumerGroupMemberMetadataValue)
        and record.key.group_id == group
    ]
    assert timeouts == [123_456]
