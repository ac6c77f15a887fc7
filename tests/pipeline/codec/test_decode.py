"""Bronze rows to silver rows, held to the bytes that Apache Kafka writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from coterie.coordinator.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.coordinator.records.serde import encode_record
from coterie.coordinator.result import Record
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.codec.golden import GOLDEN
from tests.pipeline.codec.records import KeyValue, batch, batch_of, row_of

COMMITTED_AT = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
KEY, VALUE = GOLDEN["offset-commit-v3"]


def silver(*pairs: KeyValue) -> list[tuple[str, dict[str, Any]]]:
    """The rows that records became, in log order, each with its table."""
    return rows_of(decode(batch(*pairs)))


def rows_of(tables: Any) -> list[tuple[str, dict[str, Any]]]:
    rows = [(name, row) for name in tables for row in tables[name].to_pylist()]
    return sorted(rows, key=lambda each: each[1]["log_offset"])


def one(pair: KeyValue) -> tuple[str, dict[str, Any]]:
    (row,) = silver(pair)
    return row


def reason(*pairs: KeyValue) -> list[str]:
    """Why records are in quarantine."""
    rows = silver(*pairs)
    assert {table for table, _ in rows} <= {"quarantine"}
    return [row["reason"] for _, row in rows]


def commit(version: int = 3, **fields: Any) -> KeyValue:
    value = OffsetCommitValue(offset=5, **fields)
    return encode_record(Record(OffsetCommitKey(group="g", topic="t"), value, version))


@pytest.mark.fact("K-01")
def test_every_table_has_its_declared_schema_even_without_rows() -> None:
    found = decode(batch())
    assert set(found) == {
        *("offset_commits", "classic_group_records", "consumer_group_records"),
        *("tombstones", "quarantine"),
    }
    for name, rows in found.items():
        assert rows.schema.equals(TABLES[name].schema), name


@pytest.mark.fact("K-09")
@pytest.mark.parametrize("version", range(5))
def test_each_version_of_a_commit_has_what_it_tells(version: int) -> None:
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


@pytest.mark.fact("K-11")
def test_a_key_of_type_0_is_read_like_one_of_type_1() -> None:
    value = GOLDEN["offset-commit-v2"][1]
    old, new = silver((b"\0\0" + KEY[2:], value), (KEY, value))  # type: ignore[index]
    assert old[1] | {"log_offset": 1, "append_ts": new[1]["append_ts"]} == new[1]
    assert old[0] == new[0] == "offset_commits"
    deleted = silver((b"\0\0" + KEY[2:], None), (KEY, None))  # type: ignore[index]
    assert [row["record_type"] for _, row in deleted] == [0, 1]


@pytest.mark.fact("K-01")
def test_types_of_other_coordinators_are_set_apart_and_the_next_is_read() -> None:
    types = [*range(9, 16), *range(17, 40), -1, 32767]
    others = [(each.to_bytes(2, "big", signed=True) + b"?", b"\0\0") for each in types]
    *rest, last = silver(*others, GOLDEN["offset-commit-v3"])
    assert [row["reason"] for _, row in rest] == ["unknown_type"] * len(types)
    assert [row["record_type"] for _, row in rest] == types
    assert [(row["key"], row["value"]) for _, row in rest] == others
    assert last[0] == "offset_commits"


def test_what_does_not_read_has_its_reason() -> None:
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


def test_markers_and_what_was_aborted_are_left_out() -> None:
    def row(offset: int, **more: Any) -> Any:
        return row_of(offset, KEY, VALUE, producer_id=9, is_transactional=True, **more)

    rows = [
        row(0, outcome="aborted"),
        row(1, outcome="committed"),
        row(2, is_control=True),
        row_of(3, KEY, VALUE, producer_id=9),
    ]
    found = decode(batch_of(rows))["offset_commits"].to_pylist()
    told = [
        (each["log_offset"], each["is_transactional"], each["producer_id"])
        for each in found
    ]
    assert told == [(1, True, 9), (3, False, None)]


def test_impossible_times_are_no_times() -> None:
    times = [-1, 0, 253_402_300_799_999, 253_402_300_800_000, 2**63 - 1, -(2**63)]
    rows = silver(*(commit(commit_timestamp=each) for each in times))
    told = [row["commit_ts"] for _, row in rows]
    assert told == [
        None,
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC),
        *(None, None, None),
    ]


def test_a_topic_id_of_zeros_is_none() -> None:
    rows = silver(commit(4), commit(4, topic_id=b"\1" * 16))
    assert [row["topic_id"] for _, row in rows] == [None, "01" * 16]


def test_bytes_after_the_end_are_ignored_as_by_kafka() -> None:
    (_, row), (_, longer) = silver(commit(), tuple(b + b"!" for b in commit()))  # type: ignore[operator, arg-type]
    assert longer["committed_offset"] == row["committed_offset"] == 5
