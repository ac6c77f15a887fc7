"""Tests for names of topic IDs that only the coordinator's log has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.gold.groups.record import (
    CURRENT_MEMBER,
    GROUP_EPOCH,
    PARTITION_METADATA,
)
from coterie.pipeline.tables.ingested import (
    CONSUMER_GROUP_RECORDS,
    OFFSET_COMMITS,
    PARTITION_END_SAMPLES,
    TOMBSTONES,
)
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

GOLDS = (
    "topic_names",
    "group_history",
    "group_activity",
    "partition_ownership_history",
    "current_offsets",
    "current_groups",
)
ORDERS = "0d" * 16
AUDIT = "a0" * 16


def owned(group_id: str, log_offset: int, *topic_ids: str) -> Any:
    """Return the records of a group whose member owns partition 0 of each topic."""
    assigned = [{"topic_id": each, "topic": None, "partition": 0} for each in topic_ids]
    place = {"log_partition": 1, "group_id": group_id, "append_ts": at(log_offset)}
    rows: list[dict[str, Any]] = [
        {"record_type": GROUP_EPOCH, "group_epoch": 1},
        {
            "record_type": CURRENT_MEMBER,
            "member_id": "m",
            "member_epoch": 1,
            "previous_member_epoch": 0,
            "member_state": 0,
            "assigned": assigned,
            "pending_revocation": [],
        },
    ]
    return arrow(
        CONSUMER_GROUP_RECORDS,
        (
            {
                "log_offset": log_offset + index,
                "base_offset": log_offset,
                **place,
                **each,
            }
            for index, each in enumerate(rows)
        ),
    )


def commit(group_id: str, log_offset: int) -> Any:
    place = {"log_partition": 1, "log_offset": log_offset, "group_id": group_id}
    topic = {"topic": "orders", "topic_id": ORDERS, "partition": 0}
    row = {**place, **topic, "append_ts": at(log_offset), "committed_offset": 7}
    return arrow(OFFSET_COMMITS, [row])


def topics_of(lake: MemoryLake) -> dict[str, str | None]:
    rows = lake.tables["partition_ownership_history"].to_pylist()
    return {f"{row['group_id']}-{row['topic_id'][:2]}": row["topic"] for row in rows}


def test_committed_offsets_name_the_topics_of_a_group(spark: SparkSession) -> None:
    log = {"consumer_group_records": owned("g", 0, ORDERS)}
    once = MemoryLake(spark, GOLDS).run({**log, "offset_commits": commit("g", 5)})
    assert topics_of(once) == {"g-0d": "orders"}
    [group] = once.tables["current_groups"].to_pylist()
    assert (group["topic_count"], group["partition_count"]) == (1, 1)
    twice = MemoryLake(spark, GOLDS).run(log)
    assert topics_of(twice) == {"g-0d": None}
    twice.run({"offset_commits": commit("g", 5)})
    assert once.tables == twice.tables


def test_a_name_stays_known_when_its_offsets_expire(spark: SparkSession) -> None:
    tombstone = {"log_partition": 1, "log_offset": 6, "group_id": "g"}
    tombstones = arrow(
        TOMBSTONES, [{**tombstone, "topic": "orders", "partition": 0, "record_type": 1}]
    )
    lake = MemoryLake(spark, GOLDS)
    lake.run({"offset_commits": commit("g", 5)}).run({"tombstones": tombstones})
    assert not lake.tables["current_offsets"].num_rows
    lake.run({"consumer_group_records": owned("h", 10, ORDERS, AUDIT)})
    assert topics_of(lake) == {"h-0d": "orders", "h-a0": None}


def test_samples_and_records_of_metadata_name_topics(spark: SparkSession) -> None:
    entry = {"topic_id": ORDERS, "topic": "orders", "num_partitions": 1}
    place = {"log_partition": 0, "group_id": "g", "record_type": PARTITION_METADATA}
    metadata = arrow(CONSUMER_GROUP_RECORDS, [{**place, "topics_metadata": [entry]}])
    sample = {"topic": "audit", "topic_id": AUDIT, "sample_ts": at(1)}
    lake = MemoryLake(spark, ["topic_names"])
    lake.run({"consumer_group_records": metadata})
    lake.run({"partition_end_samples": arrow(PARTITION_END_SAMPLES, [sample] * 2)})
    lake.run({"partition_end_samples": arrow(PARTITION_END_SAMPLES, [sample])})
    names = lake.tables["topic_names"].to_pylist()
    assert {row["topic_id"]: row["topic"] for row in names} == {
        ORDERS: "orders",
        AUDIT: "audit",
    }
    assert len(names) == 2
