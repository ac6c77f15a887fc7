"""Internal table group_history: the replay of every group's records; and the gold
tables that are rows of it.

A group is replayed, from its first record on, if it has new records or if the name of
one of its topic IDs became known. The rows of all other groups are kept. A replay is
cheap: about one record in a hundred is a group record, and all records of a group are
in one log partition, in order (K-03).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.groups.rebalances import StormRule
from coterie.pipeline.gold.groups.record import (
    CLASSIC_GROUP,
    GROUP_RECORD_TYPES,
    Record,
)
from coterie.pipeline.gold.groups.replay import (
    KEY_FIELDS,
    NAME_TYPE,
    arrow_of,
    records_of,
    replay_group,
)
from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs, derived
from coterie.pipeline.tables.gold_groups import (
    CURRENT_MEMBERS,
    GROUP_HISTORY,
    MEMBER_SESSIONS,
    PARTITION_OWNERSHIP_HISTORY,
    REBALANCE_TIMELINE,
)
from coterie.pipeline.tables.silver import CLASSIC_MEMBER, CONSUMER_GROUP_RECORDS
from coterie.pipeline.tables.spark import spark_schema
from coterie.pipeline.tables.table import BINARY

GROUP: Final = ("log_partition", "group_id")
SILVER: Final = ("classic_group_records", "consumer_group_records", "tombstones")
_CLASSIC_MEMBER: Final = [
    field.name for field in CLASSIC_MEMBER if field.type != BINARY
]
"""Fields of a classic member without its subscription and assignment bytes."""
_CLASSIC: Final = ("protocol_type", "generation", "protocol", "leader_id")
_CONSUMER: Final = [
    column.name
    for column in CONSUMER_GROUP_RECORDS.columns
    if column.name in Record._fields[len(KEY_FIELDS) :]
]


def group_records(
    classic: DataFrame, consumer: DataFrame, tombstones: DataFrame
) -> DataFrame:
    """Return all group records in one schema, with their values as JSON.

    With JSON, Spark shuffles and sorts a few columns instead of nested structs of all
    record types.
    """
    classic_value = F.struct(
        *_CLASSIC,
        F.unix_micros("state_ts").alias("state_us"),
        F.transform(
            "members",
            lambda member: F.struct(
                *(member[name].alias(name) for name in _CLASSIC_MEMBER)
            ),
        ).alias("members"),
    )
    consumer_value = F.struct(
        *_CONSUMER,
        F.unix_micros("created_ts").alias("created_us"),
        F.col("classic_protocols").isNotNull().alias("is_classic_member"),
    )
    classic_records = classic.withColumn("record_type", F.lit(CLASSIC_GROUP))
    deletions = tombstones.where(F.col("record_type").isin(*GROUP_RECORD_TYPES))
    return (
        _records(classic_records, classic_value, has_value=True)
        .unionByName(_records(consumer, consumer_value, has_value=True))
        .unionByName(_records(deletions, F.struct("member_id"), has_value=False))
    )


def _records(frame: DataFrame, value: Column, *, has_value: bool) -> DataFrame:
    return frame.select(
        *GROUP,
        "log_offset",
        "base_offset",
        F.unix_micros("append_ts").alias("at_us"),
        F.col("record_type").cast("int").alias("record_type"),
        F.lit(has_value).alias("has_value"),
        F.to_json(value).alias("value"),
    )


def with_gaps(records: DataFrame, gaps: DataFrame) -> DataFrame:
    """Add `gap_offset`: the end offset of the newest log gap before each record."""
    gap_end = F.col("until_offset")
    # Gaps become rows among the records, so that one window finds the newest gap before
    # each record; a range join would compare every record with every gap.
    gap_rows = gaps.select(
        "log_partition",
        *_nulls("group_id"),
        gap_end.alias("log_offset"),
        *_nulls("base_offset", "at_us", "record_type", "has_value", "value"),
        gap_end.alias("gap_offset"),
    )
    in_order = Window.partitionBy("log_partition").orderBy(
        "log_offset", F.col("group_id").isNotNull()
    )
    newest = F.last("gap_offset", ignorenulls=True).over(in_order)
    return (
        records.withColumn("gap_offset", F.lit(None).cast("bigint"))
        .unionByName(gap_rows)
        .withColumn("gap_offset", newest)
        .where(F.col("group_id").isNotNull())
    )


def _nulls(*names: str) -> list[Column]:
    return [F.lit(None).alias(name) for name in names]


def topic_name_rows(consumer: DataFrame, names: DataFrame) -> DataFrame:
    """Return the names of each group's topics as rows in the schema of its records, so
    that the replay receives them with the records."""
    partitions = F.concat(
        F.col("assigned"),
        F.coalesce(
            "pending_revocation",
            F.array().cast("array<struct<topic_id:string,topic:string,partition:int>>"),
        ),
    )
    ids = F.array_distinct(F.transform(partitions, lambda one: one["topic_id"]))
    name = F.struct(
        F.col("topic_id").alias("member_id"), F.col("topic").alias("protocol")
    )
    return (
        consumer.select(*GROUP, F.explode(ids).alias("topic_id"))
        .distinct()
        .join(names, "topic_id")
        .select(
            *GROUP,
            F.lit(-1).alias("log_offset"),
            *_nulls("base_offset", "at_us"),
            F.lit(NAME_TYPE).alias("record_type"),
            F.lit(True).alias("has_value"),
            F.to_json(name).alias("value"),
            *_nulls("gap_offset"),
        )
    )


def replayed(records: DataFrame, storms: StormRule) -> DataFrame:
    """Return the rows of group_history, from all records of each group."""

    def replay(key: Any, table: Any) -> Any:
        log_partition, group_id = (value.as_py() for value in key)
        group, names = records_of(table)
        history = replay_group(group_id, group, names, storms)
        return arrow_of(log_partition, group_id, history)

    return records.groupBy(*GROUP).applyInArrow(replay, spark_schema(GROUP_HISTORY))


def changed_groups(
    new: Iterable[DataFrame], before: DataFrame, names: DataFrame
) -> DataFrame:
    """Return the groups to replay: those with new records, and those with a topic ID
    whose name became known."""
    nameless = before.where(F.col("kind") == "group").select(
        *GROUP, F.explode("group.nameless_topic_ids").alias("topic_id")
    )
    keys = nameless.join(names, "topic_id", "left_semi").select(*GROUP)
    for frame in new:
        # Leave out tombstones of offsets. Classic group records have no column of
        # record types.
        has_type = "record_type" in frame.columns
        is_type = F.col("record_type").isin(*GROUP_RECORD_TYPES)
        rows = frame.where(is_type) if has_type else frame
        keys = keys.unionByName(rows.select(*GROUP))
    return keys.distinct()


def _build(inputs: TableInputs) -> DataFrame:
    before, consumer = inputs.before(), inputs.all("consumer_group_records")
    names = inputs.all("topic_names")
    changed = changed_groups([inputs.new(name) for name in SILVER], before, names)

    def of_changed(frame: DataFrame) -> DataFrame:
        return frame.join(changed, list(GROUP), "left_semi")

    records = group_records(*(inputs.all(name) for name in SILVER))
    with_gap_offsets = with_gaps(of_changed(records), inputs.all("log_gaps"))
    name_rows = topic_name_rows(of_changed(consumer), names)
    settings = inputs.settings
    storms = StormRule(
        settings.storm_epochs,
        settings.storm_window_ms * 1000,
        settings.storm_quiet_ms * 1000,
    )
    fresh = replayed(with_gap_offsets.unionByName(name_rows), storms)
    kept = before.join(changed, list(GROUP), "left_anti")
    return kept.unionByName(fresh)


GOLD: Final = GoldTable(GROUP_HISTORY, (*SILVER, "log_gaps", "topic_names"), _build)


# Gold tables with the rows of one kind in group_history.


def rows_of(history: DataFrame, kind: str) -> DataFrame:
    """Return the rows of one kind in group_history, with their fields as columns."""
    return history.where(F.col("kind") == kind).select(
        "log_partition", "group_id", f"{kind}.*"
    )


TABLES_OF_KINDS: Final = tuple(
    derived(table, partial(rows_of, kind=kind), "group_history")
    for table, kind in (
        # Members as in the coordinator's responses: a static member that left
        # temporarily (epoch -2) is listed, with the partitions reserved for it.
        (CURRENT_MEMBERS, "member"),
        (PARTITION_OWNERSHIP_HISTORY, "ownership"),
        (MEMBER_SESSIONS, "session"),
        (REBALANCE_TIMELINE, "rebalance"),
    )
)
