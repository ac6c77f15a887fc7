"""Records of types 0 to 2, compared with the bytes that Apache Kafka writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.record_serde import decode_record, encode_record
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.broker.coordinator.result import Record
from coterie.errors import LogCorrupt
from coterie.wire.codec import encode

GOLDEN_FILE = Path(__file__).parent / "kafka_4_4_records.tsv"
OFFSET_KEY = OffsetCommitKey(group="grüppe", topic="orders", partition=7)
GROUP_KEY = GroupMetadataKey(group="grüppe")


def read_golden() -> dict[str, tuple[bytes, bytes | None]]:
    """Return the keys and values that Kafka wrote, by the name of the record."""
    lines = GOLDEN_FILE.read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {
        name: (bytes.fromhex(key), bytes.fromhex(value) if value else None)
        for name, key, value in rows
    }


GOLDEN = read_golden()


def offset_record(version: int) -> Record:
    """Return the commit of the golden file with the fields of its version."""
    value = OffsetCommitValue(
        offset=4611686018427387904, metadata="so fär", commit_timestamp=1700000000123
    )
    if version >= 3:
        value.leader_epoch = 12
    if version == 1:
        value.expire_timestamp = 1700000099999
    if version == 4:
        value.topic_id = bytes(range(1, 17))
    return Record(OFFSET_KEY, value, version)


def group_record(version: int) -> Record:
    """Return the group of the golden file with the fields of its version."""
    first = MemberMetadata(
        member_id="consumer-1-abc",
        group_instance_id="pod-1" if version >= 3 else None,
        client_id="consumer-1",
        client_host="/127.0.0.1",
        rebalance_timeout=300_000 if version >= 1 else -1,
        session_timeout=45_000,
        subscription=b"\0\1\2",
        assignment=b"\3\4",
    )
    second = MemberMetadata(
        member_id="consumer-2-def",
        client_id="consumer-2",
        client_host="/127.0.0.2",
        rebalance_timeout=60_000 if version >= 1 else -1,
        session_timeout=10_000,
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=42,
        protocol="range",
        leader="consumer-1-abc",
        current_state_timestamp=1700000000456 if version >= 2 else -1,
        members=[first, second],
    )
    return Record(GROUP_KEY, value, version)


EMPTY_GROUP = GroupMetadataValue(
    protocol_type="",
    generation=0,
    protocol=None,
    leader=None,
    current_state_timestamp=1700000000456,
)
RECORDS = {
    **{f"offset-commit-v{version}": offset_record(version) for version in range(5)},
    "offset-commit-tombstone": Record(OFFSET_KEY, None),
    "offset-commit-v4-no-topic-id": Record(
        OFFSET_KEY,
        OffsetCommitValue(offset=5, commit_timestamp=1700000000123),
        4,
    ),
    **{f"group-metadata-v{version}": group_record(version) for version in range(5)},
    "group-metadata-empty": Record(GROUP_KEY, EMPTY_GROUP, 3),
    "group-metadata-tombstone": Record(GROUP_KEY, None),
}


@pytest.mark.fact("E22-01a", "E22-01b", "E22-02")
@pytest.mark.parametrize("name", RECORDS)
def test_encoded_records_equal_kafkas_bytes(name: str) -> None:
    assert encode_record(RECORDS[name]) == GOLDEN[name]


@pytest.mark.fact("E22-01a", "E22-01b", "E22-02")
@pytest.mark.parametrize("name", RECORDS)
def test_records_written_by_kafka_are_decoded(name: str) -> None:
    assert decode_record(*GOLDEN[name]) == RECORDS[name]


def test_every_golden_record_is_used() -> None:
    assert GOLDEN.keys() - RECORDS.keys() == {"offset-commit-type-0"}


def test_an_offset_key_of_type_0_is_decoded_like_type_1() -> None:
    record = decode_record(*GOLDEN["offset-commit-type-0"])
    assert record is not None
    assert record.key == OFFSET_KEY
    assert encode_record(record)[0] == GOLDEN["offset-commit-tombstone"][0]


@pytest.mark.parametrize("record_type", [b"\0\x09", b"\0\x7f", b"\xff\xff"])
def test_a_record_of_an_unknown_type_is_ignored(record_type: bytes) -> None:
    assert decode_record(record_type + b"whatever", b"\0\0") is None


@pytest.mark.fact("E22-04b")
@pytest.mark.parametrize("name", RECORDS)
def test_a_truncated_record_is_corrupt(name: str) -> None:
    key, value = GOLDEN[name]
    with pytest.raises(LogCorrupt):
        decode_record(key[:-1], value)
    if value is not None:
        for end in range(len(value)):
            with pytest.raises(LogCorrupt):
                decode_record(key, value[:end])


@pytest.mark.parametrize("version", [b"\0\5", b"\xff\xff"])
def test_a_value_of_an_unknown_version_is_corrupt(version: bytes) -> None:
    key, value = GOLDEN["offset-commit-v3"]
    assert value is not None
    with pytest.raises(LogCorrupt, match="type 1"):
        decode_record(key, version + value[2:])


offset_values = st.builds(
    OffsetCommitValue,
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=200),
    commit_timestamp=st.integers(0, 2**63 - 1),
)


@settings(max_examples=50)
@given(st.text(max_size=20), st.integers(0, 2**31 - 1), offset_values)
def test_the_fast_path_for_commits_encodes_the_same_bytes_as_the_codec(
    name: str, partition: int, value: OffsetCommitValue
) -> None:
    key = OffsetCommitKey(group=name, topic=name[::-1], partition=partition)
    for _ in range(2):  # the second call uses the cached key
        assert encode_record(Record(key, value, 3)) == (
            b"\0\1" + encode(key, 0),
            b"\0\3" + encode(value, 3),
        )


@pytest.mark.parametrize("key", [None, b"", b"\0"])
def test_a_record_without_a_key_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(LogCorrupt):
        decode_record(key, b"\0\0")
