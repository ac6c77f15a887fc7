"""Records of types 3 to 8 and 16, compared with the bytes that Apache Kafka writes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TypeVar

import pytest

from coterie.broker.coordinator.record_serde import TYPES, decode_record, encode_record
from coterie.broker.coordinator.records import (
    Assignor,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    PartitionMetadata,
    TargetTopicPartitions,
    TopicMetadata,
)
from coterie.broker.coordinator.result import Record
from coterie.errors import LogCorrupt
from coterie.wire.schema import PRIVATE_TAG, Struct

GOLDEN_FILE = Path(__file__).parent / "kafka_4_4_consumer_records.tsv"
GROUP, MEMBER = "grüppe", "member-1"
FIRST_TOPIC, SECOND_TOPIC = bytes(range(1, 17)), bytes(range(17, 33))


def read_golden() -> dict[str, tuple[bytes, bytes | None]]:
    """Return the keys and values that Kafka wrote, by the name of the record."""
    lines = GOLDEN_FILE.read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {
        name: (bytes.fromhex(key), bytes.fromhex(value) if value else None)
        for name, key, value in rows
    }


GOLDEN = read_golden()
EPOCH_KEY = ConsumerGroupMetadataKey(group_id=GROUP)
TOPICS_KEY = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
MEMBER_KEY = ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=MEMBER)
TARGET_EPOCH_KEY = ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP)
TARGET_KEY = ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id=MEMBER)
CURRENT_KEY = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=MEMBER)
REGEX_KEY = ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="o.*")
TOPICS = ConsumerGroupPartitionMetadataValue(
    topics=[
        TopicMetadata(topic_id=FIRST_TOPIC, topic_name="orders", num_partitions=6),
        TopicMetadata(
            topic_id=SECOND_TOPIC,
            topic_name="views",
            num_partitions=1,
            partition_metadata=[PartitionMetadata(partition=0, racks=["a", "b"])],
        ),
    ]
)
FULL_MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id="pod-1",
    rack_id="rack-a",
    client_id="client",
    client_host="/127.0.0.1",
    subscribed_topic_names=["orders", "views"],
    subscribed_topic_regex="o.*",
    rebalance_timeout_ms=300_000,
    server_assignor="uniform",
)
BARE_MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="client",
    client_host="/127.0.0.1",
    subscribed_topic_regex=None,
    server_assignor=None,
)
CLASSIC_MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="client",
    client_host="/127.0.0.1",
    subscribed_topic_names=["orders"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=60_000,
    server_assignor=None,
    classic_member_metadata=ClassicMemberMetadata(
        session_timeout_ms=45_000,
        supported_protocols=[ClassicProtocol(name="range", metadata=b"\0\1\2")],
    ),
)
TARGET = ConsumerGroupTargetAssignmentMemberValue(
    topic_partitions=[
        TargetTopicPartitions(topic_id=FIRST_TOPIC, partitions=[0, 1, 2]),
        TargetTopicPartitions(topic_id=SECOND_TOPIC, partitions=[7]),
    ]
)
CURRENT = ConsumerGroupCurrentMemberAssignmentValue(
    member_epoch=10,
    previous_member_epoch=9,
    state=1,
    assigned_partitions=[
        CurrentTopicPartitions(
            topic_id=FIRST_TOPIC, partitions=[0, 1], assignment_epochs=[8, 9]
        )
    ],
    partitions_pending_revocation=[
        CurrentTopicPartitions(topic_id=SECOND_TOPIC, partitions=[7])
    ],
)
RECORDS = {
    "group-epoch": Record(EPOCH_KEY, ConsumerGroupMetadataValue(epoch=10)),
    "group-epoch-with-hash": Record(
        EPOCH_KEY, ConsumerGroupMetadataValue(epoch=2**31 - 1, metadata_hash=-5)
    ),
    "group-epoch-tombstone": Record(EPOCH_KEY, None),
    "partition-metadata": Record(TOPICS_KEY, TOPICS),
    "partition-metadata-tombstone": Record(TOPICS_KEY, None),
    "member-full": Record(MEMBER_KEY, FULL_MEMBER),
    "member-bare": Record(MEMBER_KEY, BARE_MEMBER),
    "member-classic": Record(MEMBER_KEY, CLASSIC_MEMBER),
    "member-tombstone": Record(MEMBER_KEY, None),
    "target-epoch": Record(
        TARGET_EPOCH_KEY,
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=10),
    ),
    "target-epoch-with-time": Record(
        TARGET_EPOCH_KEY,
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=10, assignment_timestamp=1700000000123
        ),
    ),
    "target-epoch-tombstone": Record(TARGET_EPOCH_KEY, None),
    "target-member": Record(TARGET_KEY, TARGET),
    "target-member-empty": Record(
        TARGET_KEY, ConsumerGroupTargetAssignmentMemberValue()
    ),
    "target-member-tombstone": Record(TARGET_KEY, None),
    "current-member": Record(CURRENT_KEY, CURRENT),
    "current-member-left": Record(
        CURRENT_KEY,
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=-2, previous_member_epoch=10, state=127
        ),
    ),
    "current-member-tombstone": Record(CURRENT_KEY, None),
    "regex": Record(
        REGEX_KEY,
        ConsumerGroupRegularExpressionValue(
            topics=["orders", "outlets"], version=12345, timestamp=1700000000456
        ),
    ),
    "regex-tombstone": Record(REGEX_KEY, None),
}


@pytest.mark.fact(
    "E22-01a",
    "E22-01b",
    "E22-02",
    "E22-03",
    "E2-01",
    "E2-02",
    "E2-02a",
    "E2-03",
    "E2-03a",
    "E2-04",
)
@pytest.mark.parametrize("name", RECORDS)
def test_encoded_records_equal_kafkas_bytes(name: str) -> None:
    assert encode_record(RECORDS[name]) == GOLDEN[name]


@pytest.mark.fact("E22-01a", "E22-01b", "E22-02", "E22-03")
@pytest.mark.parametrize("name", RECORDS)
def test_records_written_by_kafka_are_decoded(name: str) -> None:
    assert decode_record(*GOLDEN[name]) == RECORDS[name]


def test_every_golden_record_is_used() -> None:
    assert GOLDEN.keys() == RECORDS.keys()


def test_every_type_has_a_golden_record() -> None:
    written = {int.from_bytes(key[:2]) for key, _ in GOLDEN.values()}
    assert written == TYPES.keys() - {0, 1, 2, *range(10, 16)}


@pytest.mark.fact("E22-04a")
@pytest.mark.parametrize("record_type", [b"\0\x09", b"\0\x11", b"\xff\xff"])
def test_a_record_of_another_type_is_ignored(record_type: bytes) -> None:
    assert decode_record(record_type + b"whatever", b"\0\0") is None


@pytest.mark.fact("E22-04b")
@pytest.mark.parametrize("name", RECORDS)
def test_a_truncated_record_is_corrupt(name: str) -> None:
    key, value = GOLDEN[name]
    with pytest.raises(LogCorrupt):
        decode_record(key[:-1], value)
    for end in range(len(value or b"")):
        assert value is not None
        with pytest.raises(LogCorrupt):
            decode_record(key, value[:end])


@pytest.mark.fact("E22-04b")
def test_a_value_of_a_later_version_is_corrupt() -> None:
    key, value = GOLDEN["group-epoch"]
    assert value is not None
    with pytest.raises(LogCorrupt, match="type 3"):
        decode_record(key, b"\0\1" + value[2:])


@pytest.mark.parametrize("key", [b"", b"\0"])
def test_a_record_without_a_type_is_corrupt(key: bytes) -> None:
    with pytest.raises(LogCorrupt):
        decode_record(key, b"\0\0")


# Client-side assignment: fields of KIP-848 that Kafka removed.

Value = TypeVar("Value", bound=Struct)


def having(value: Value, **more: object) -> Value:
    """Return a copy of a record's value with more fields."""
    other = copy.copy(value)
    for name, each in more.items():
        setattr(other, name, each)
    return other


WITH_OFFERS = having(
    FULL_MEMBER,
    assignors=[
        Assignor(
            name="mine",
            minimum_version=1,
            maximum_version=3,
            reason=1,
            version=2,
            metadata=b"load",
        )
    ],
)
WITH_DETAIL = having(TARGET, error=1, metadata_version=2, metadata_bytes=b"hello")


@pytest.mark.fact("E13-42", "I-12")
@pytest.mark.parametrize(
    ("golden", "record"),
    [
        ("member-full", Record(MEMBER_KEY, WITH_OFFERS)),
        ("target-member", Record(TARGET_KEY, WITH_DETAIL)),
    ],
)
def test_fields_of_the_kip_are_tagged_fields_after_kafkas_fields(
    golden: str, record: Record
) -> None:
    key, value = encode_record(record)
    kafkas_key, kafkas_value = GOLDEN[golden]
    assert key == kafkas_key
    assert value is not None
    assert kafkas_value is not None
    untagged = kafkas_value.removesuffix(b"\0")  # no tagged fields
    assert value.startswith(untagged)
    assert len(value) > len(kafkas_value)
    assert value[len(untagged)] in {1, 3}
    # The first tag is an unsigned varint above Kafka's tags.
    first_tag = bytes([PRIVATE_TAG & 0x7F | 0x80, PRIVATE_TAG >> 7])
    assert value[len(untagged) + 1 :].startswith(first_tag)
    assert decode_record(key, value) == record


def test_a_tagged_field_with_an_explicit_null_is_decoded() -> None:
    """Decode a consumer protocol member as Apache Kafka 4.3.1 writes it."""
    key = bytes.fromhex("0005000167") + b"\0\x16zcZ+nwKeRcGDvHO1+enxvw"
    value = bytes.fromhex(
        "00000000077265616465720b2f3132372e302e302e3102027401000493e00001000100"
    )
    record = decode_record(key, value)
    assert record is not None
    assert isinstance(record.value, ConsumerGroupMemberMetadataValue)
    assert record.value.client_id == "reader"
    assert record.value.classic_member_metadata is None
