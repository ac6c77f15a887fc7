"""Records of types 10 to 15, compared with the bytes that Apache Kafka writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.broker.coordinator.record_serde import TYPES, decode_record, encode_record
from coterie.broker.coordinator.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopicInfo,
    ShareTopicPartitionsInfo,
    TargetTopicPartitions,
)
from coterie.broker.coordinator.result import Record
from coterie.errors import LogCorrupt
from tests.broker.coordinator.test_record_serde_consumer import (
    FIRST_TOPIC,
    GROUP,
    MEMBER,
    SECOND_TOPIC,
)

GOLDEN_FILE = Path(__file__).parent / "kafka_4_4_share_records.tsv"


def read_golden() -> dict[str, tuple[bytes, bytes | None]]:
    """Return the keys and values that Kafka wrote, by the name of the record."""
    lines = GOLDEN_FILE.read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {
        name: (bytes.fromhex(key), bytes.fromhex(value) if value else None)
        for name, key, value in rows
    }


GOLDEN = read_golden()
MEMBER_KEY = ShareGroupMemberMetadataKey(group_id=GROUP, member_id=MEMBER)
EPOCH_KEY = ShareGroupMetadataKey(group_id=GROUP)
TARGET_EPOCH_KEY = ShareGroupTargetAssignmentMetadataKey(group_id=GROUP)
TARGET_KEY = ShareGroupTargetAssignmentMemberKey(group_id=GROUP, member_id=MEMBER)
CURRENT_KEY = ShareGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=MEMBER)
STATE_KEY = ShareGroupStatePartitionMetadataKey(group_id=GROUP)
RECORDS = {
    "share-member": Record(
        MEMBER_KEY,
        ShareGroupMemberMetadataValue(
            rack_id="rack-a",
            client_id="client",
            client_host="/127.0.0.1",
            subscribed_topic_names=["orders", "views"],
        ),
    ),
    "share-member-bare": Record(
        MEMBER_KEY,
        ShareGroupMemberMetadataValue(
            rack_id=None, client_id="client", client_host="/127.0.0.1"
        ),
    ),
    "share-member-tombstone": Record(MEMBER_KEY, None),
    "share-epoch": Record(
        EPOCH_KEY, ShareGroupMetadataValue(epoch=2**31 - 1, metadata_hash=-5)
    ),
    "share-epoch-tombstone": Record(EPOCH_KEY, None),
    "share-target-epoch": Record(
        TARGET_EPOCH_KEY, ShareGroupTargetAssignmentMetadataValue(assignment_epoch=10)
    ),
    "share-target-epoch-with-time": Record(
        TARGET_EPOCH_KEY,
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=10, assignment_timestamp=1700000000123
        ),
    ),
    "share-target-epoch-tombstone": Record(TARGET_EPOCH_KEY, None),
    "share-target": Record(
        TARGET_KEY,
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TargetTopicPartitions(topic_id=FIRST_TOPIC, partitions=[0, 1, 2])
            ]
        ),
    ),
    "share-target-tombstone": Record(TARGET_KEY, None),
    "share-current": Record(
        CURRENT_KEY,
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=10,
            previous_member_epoch=9,
            state=0,
            assigned_partitions=[
                TargetTopicPartitions(topic_id=SECOND_TOPIC, partitions=[7])
            ],
        ),
    ),
    "share-current-tombstone": Record(CURRENT_KEY, None),
    "share-state": Record(
        STATE_KEY,
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=[
                ShareTopicPartitionsInfo(
                    topic_id=FIRST_TOPIC, topic_name="orders", partitions=[0, 1]
                )
            ],
            initialized_topics=[
                ShareTopicPartitionsInfo(
                    topic_id=SECOND_TOPIC, topic_name="views", partitions=[7]
                )
            ],
            deleting_topics=[ShareTopicInfo(topic_id=FIRST_TOPIC, topic_name="orders")],
        ),
    ),
    "share-state-tombstone": Record(STATE_KEY, None),
}


@pytest.mark.parametrize("name", RECORDS)
def test_encoded_records_equal_kafkas_bytes(name: str) -> None:
    assert encode_record(RECORDS[name]) == GOLDEN[name]


@pytest.mark.parametrize("name", RECORDS)
def test_records_written_by_kafka_are_decoded(name: str) -> None:
    assert decode_record(*GOLDEN[name]) == RECORDS[name]


def test_every_golden_record_is_used() -> None:
    assert GOLDEN.keys() == RECORDS.keys()


def test_every_type_of_share_groups_has_a_golden_record() -> None:
    written = {int.from_bytes(key[:2]) for key, _ in GOLDEN.values()}
    assert written == TYPES.keys() & {*range(9, 16)}


@pytest.mark.parametrize("name", RECORDS)
def test_a_truncated_record_is_corrupt(name: str) -> None:
    key, value = GOLDEN[name]
    with pytest.raises(LogCorrupt):
        decode_record(key[:-1], value)
    for end in range(len(value or b"")):
        assert value is not None
        with pytest.raises(LogCorrupt):
            decode_record(key, value[:end])
