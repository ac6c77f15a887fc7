"""Tests for decoding Apache Kafka's records into rows of silver tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.broker.coordinator.result import Record
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.table import TIME_MS_MAX
from tests.pipeline.codec.golden import GOLDEN
from tests.pipeline.codec.records import KeyValue, batch, batch_of, row_of

COMMITTED_AT = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
KEY, VALUE = GOLDEN["offset-commit-v3"]


def silver(*pairs: KeyValue) -> list[tuple[str, dict[str, Any]]]:
    """Return the decoded rows in log order, with the name of the table of each."""
    return rows_of(decode(batch(*pairs)))


def rows_of(tables: Any) -> list[tuple[str, dict[str, Any]]]:
    rows = [(name, row) for name in tables for row in tables[name].to_pylist()]
    return sorted(rows, key=lambda each: each[1]["log_offset"])


def one(pair: KeyValue) -> tuple[str, dict[str, Any]]:
    (row,) = silver(pair)
    return row


def reason(*pairs: KeyValue) -> list[str]:
    """Return the reasons in quarantine."""
    rows = silver(*pairs)
    assert {table for table, _ in rows} <= {"quarantine"}
    return [row["reason"] for _, row in rows]


def commit(version: int = 3, **fields: Any) -> KeyValue:
    value = OffsetCommitValue(offset=5, **fields)
    return encode_record(Record(OffsetCommitKey(group="g", topic="t"), value, version))


def test_every_table_has_its_declared_schema_even_without_rows() -> None:
    found = decode(batch())
    assert set(found) == {
        *("offset_commits", "classic_group_records", "consumer_group_records"),
        *("tombstones", "quarantine"),
    }
    for name, rows in found.items():
        assert rows.schema.equals(TABLES[name].schema), name


@pytest.mark.fact("K-09a", "K-09b")
@pytest.mark.parametrize("version", range(5))
def test_each_version_of_a_commit_is_decoded_with_all_its_fields(version: int) -> None:
    table, row = one(GOLDEN[f"offset-commit-v{version}"])
    expire = datetime(2023, 11, 14, 22, 14, 59, 999_000, UTC)
    assert table == "offset_commits"
    assert row == {
        "log_partition": 3,
        "log_offset": 0,
        "append_ts": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "base_offset": 0,
        "size_bytes": sum(map(len, GOLDEN[f"offset-commit-v{version}"])),  # type: ignore[arg-type]
        "group_id": "grüppe",
        "topic": "orders",
        "partition": 7,
        "committed_offset": 4611686018427387904,
        "leader_epoch": 12 if version >= 3 else None,
        "metadata": "so fär",
        "commit_ts": COMMITTED_AT,
        "expire_ts": expire if version == 1 else None,
        "topic_id": bytes(range(1, 17)).hex() if version == 4 else None,
        "value_version": version,
        "is_transactional": False,
        "producer_id": None,
    }


@pytest.mark.fact("K-11a", "K-11b")
def test_keys_of_types_0_and_1_are_decoded_in_the_same_way() -> None:
    value = GOLDEN["offset-commit-v2"][1]
    old, new = silver((b"\0\0" + KEY[2:], value), (KEY, value))  # type: ignore[index]
    assert old[1] | {"log_offset": 1, "append_ts": new[1]["append_ts"]} == new[1]
    assert old[0] == new[0] == "offset_commits"
    deleted = silver((b"\0\0" + KEY[2:], None), (KEY, None))  # type: ignore[index]
    assert [row["record_type"] for _, row in deleted] == [0, 1]
    assert (commit()[0] or b"").startswith(b"\0\1")


@pytest.mark.fact("K-01b")
def test_record_types_of_other_coordinators_go_to_quarantine() -> None:
    types = [*range(9, 16), *range(17, 40), -1, 32767]
    others = [(each.to_bytes(2, "big", signed=True) + b"?", b"\0\0") for each in types]
    *rest, last = silver(*others, GOLDEN["offset-commit-v3"])
    assert [row["reason"] for _, row in rest] == ["unknown_type"] * len(types)
    assert [row["record_type"] for _, row in rest] == types
    assert [(row["key"], row["value"]) for _, row in rest] == others
    assert last[0] == "offset_commits"


def test_each_unreadable_record_has_its_reason() -> None:
    assert (
        reason(
            (None, VALUE),
            (b"", VALUE),
            (b"\0", VALUE),
            (b"\0\1\0\7grup", VALUE),
            (b"\0\1\0\1\xff\0\1t\0\0\0\1", VALUE),
            (KEY, b""),
            (KEY, b"\0"),
            (KEY, VALUE[:-1]),  # type: ignore[index]
            (KEY, b"\0\5" + VALUE[2:]),  # type: ignore[index]
            (KEY, b"\xff\xff" + VALUE[2:]),  # type: ignore[index]
            (b"\0\3\0\1g", b"\0\1"),
            (b"\0\3\0\1g", b"\0\0"),
        )
        == [
            *("no_key", "bad_key", "bad_key", "bad_key", "bad_key"),
            *("bad_value", "bad_value", "bad_value"),
            *("unknown_version", "unknown_version", "unknown_version", "bad_value"),
        ]
    )


def test_markers_and_aborted_records_are_left_out() -> None:
    def row(offset: int, **more: Any) -> Any:
        return row_of(offset, KEY, VALUE, producer_id=9, is_transactional=True, **more)

    rows = [
        row(0, outcome="aborted"),
        row(1, outcome="committed"),
        row(2, is_control=True),
        row_of(3, KEY, VALUE, producer_id=9),
    ]
    found = decode(batch_of(rows))["offset_commits"].to_pylist()
    producers = [
        (each["log_offset"], each["is_transactional"], each["producer_id"])
        for each in found
    ]
    assert producers == [(1, True, 9), (3, False, None)]


def test_times_out_of_range_are_null() -> None:
    times = [-1, 0, TIME_MS_MAX, TIME_MS_MAX + 1, 2**63 - 1, -(2**63)]
    rows = silver(*(commit(commit_timestamp=each) for each in times))
    times = [row["commit_ts"] for _, row in rows]
    assert times == [
        None,
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9998, 12, 31, 23, 59, 59, 999_000, UTC),
        *(None, None, None),
    ]


def test_an_expiration_time_out_of_range_is_the_nearest_one() -> None:
    times = [-1, TIME_MS_MAX + 1, 2**63 - 1, -2, -(2**63)]
    rows = silver(*(commit(1, expire_timestamp=each) for each in times))
    last = datetime(9998, 12, 31, 23, 59, 59, 999_000, UTC)
    first = datetime(1970, 1, 1, tzinfo=UTC)
    assert [row["expire_ts"] for _, row in rows] == [None, last, last, first, first]


def test_the_zero_topic_id_is_null() -> None:
    rows = silver(commit(4), commit(4, topic_id=b"\1" * 16))
    assert [row["topic_id"] for _, row in rows] == [None, "01" * 16]


def test_bytes_after_the_last_field_are_ignored_as_in_kafka() -> None:
    (_, row), (_, longer) = silver(commit(), tuple(b + b"!" for b in commit()))  # type: ignore[operator, arg-type]
    assert longer["committed_offset"] == row["committed_offset"] == 5


ID = bytes(range(1, 17))
MEMBER = b"\0\1g\0\1m"
EARLY_ACCESS = {
    # instance, rack, client id and host, topics, regex, timeout, assignor, assignors
    "member": (b"\0\5" + MEMBER, "0000 00 00 0263 0268 020274 00 00007530 00 01 00"),
    # error, topics, metadata version and bytes
    "target": (b"\0\7" + MEMBER, f"0000 00 02{ID.hex()}020000000000 0000 01 00"),
    # epoch, previous, target; assigned, pending revocation and assignment; error, ...
    "current": (
        b"\0\x08" + MEMBER,
        f"0000 00000005 00000004 00000005 02{ID.hex()}020000000000"
        " 01 01 0000 0000 01 00",
    ),
}


@pytest.mark.fact("K-10b")
@pytest.mark.parametrize("name", EARLY_ACCESS)
def test_records_of_the_3_7_early_access_go_to_quarantine(name: str) -> None:
    """Their values have another layout with the same version."""
    key, value = EARLY_ACCESS[name]
    assert reason((key, bytes.fromhex(value))) == ["bad_value"]


@pytest.mark.fact("K-10a")
def test_records_of_4_0_and_of_4_1_are_both_decoded() -> None:
    names = ("partition-metadata", "group-epoch", "group-epoch-with-hash", "regex")
    rows = [row for _, row in silver(*(GOLDEN[name] for name in names))]
    topics, old, new, regex = rows
    assert topics["record_type"] == 4
    assert topics["topics_metadata"][0] == {
        "topic_id": ID.hex(),
        "topic": "orders",
        "partitions": 6,
    }
    assert (old["group_epoch"], old["metadata_hash"]) == (10, 0)
    assert new["metadata_hash"] == -5
    assert regex["record_type"] == 16
    assert (regex["regex"], regex["regex_topics"]) == ("o.*", ["orders", "outlets"])
    assert regex["regex_version"] == 12345


@pytest.mark.fact("E22-03")
def test_unknown_tagged_fields_are_ignored() -> None:
    key, value = GOLDEN["group-epoch"]
    assert value is not None
    newer = value[:-1] + b"\1\x09\3abc"
    (_, row), (_, again) = silver((key, value), (key, newer))
    assert again["group_epoch"] == row["group_epoch"] == 10


@pytest.mark.fact("K-01a", "E22-02")
def test_each_record_type_has_its_table_and_tombstone_table() -> None:
    tables = {
        "offset": "offset_commits",
        "group-metadata": "classic_group_records",
    }
    rows = silver(*GOLDEN.values())
    for name, (table, row) in zip(GOLDEN, rows, strict=True):
        expected = next(
            (each for start, each in tables.items() if name.startswith(start)),
            "consumer_group_records",
        )
        assert table == ("tombstones" if name.endswith("tombstone") else expected), name
        assert row["group_id"] == "grüppe"
    deleted = [row["record_type"] for table, row in rows if table == "tombstones"]
    assert sorted(deleted) == [1, 2, 3, 4, 5, 6, 7, 8, 16]


def test_subscription_and_assignment_of_classic_consumers_are_decoded() -> None:
    subscription = "0001 00000001 0001 74 ffffffff 00000000"
    newer = "0009 00000001 0001 74 ffffffff 00000000 00000007 ffff"
    assignment = "0001 00000001 0001 74 00000002 00000000 00000003 ffffffff"
    value = GroupMetadataValue(
        protocol_type="consumer",
        members=[
            MemberMetadata(
                member_id="a",
                subscription=bytes.fromhex(subscription),
                assignment=bytes.fromhex(assignment),
            ),
            MemberMetadata(member_id="b", subscription=bytes.fromhex(newer)),
            MemberMetadata(member_id="c", subscription=b"?", assignment=b"\xff\xff?"),
        ],
    )
    key = GroupMetadataKey(group="g")
    _, row = one(encode_record(Record(key, value, 3)))
    first, second, third = row["members"]
    assert first["subscribed_topics"] == second["subscribed_topics"] == ["t"]
    assert first["assigned"] == [
        {"topic_id": None, "topic": "t", "partition": 0},
        {"topic_id": None, "topic": "t", "partition": 3},
    ]
    assert second["assigned"] == []
    assert (third["subscribed_topics"], third["assigned"]) == (None, None)
    value.protocol_type = "connect"
    _, other = one(encode_record(Record(key, value, 3)))
    assert other["members"][0]["subscribed_topics"] is None
    assert other["members"][0]["subscription"] == bytes.fromhex(subscription)
