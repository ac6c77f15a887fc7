"""Internal: the replay of group records, for all tables made from it.

Only groups with new records are replayed anew, and those whose topics got a name since;
the rows of all others are as they were. Group records are a hundredth of a log, and a
group's records all stand in one log partition, in order (K-03).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.groups.arrow import NAME_TYPE, history_of, records_of
from coterie.pipeline.gold.groups.fold import fold
from coterie.pipeline.gold.groups.record import (
    CLASSIC_GROUP,
    GROUP_TYPES,
    PARTITION_METADATA,
)
from coterie.pipeline.gold.groups.storms import StormRule
from coterie.pipeline.gold.look import Gold, Look, conform, spark_schema
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.group_history import GROUP_HISTORY

GROUP: Final = ("log_partition", "group_id")
SILVER: Final = ("classic_group_records", "consumer_group_records", "tombstones")
_MEMBER: Final = (
    "member_id",
    "instance_id",
    "client_id",
    "client_host",
    "rebalance_timeout_ms",
    "session_timeout_ms",
    "subscribed_topics",
    "assigned",
)
"""What the replay needs of a classic member: not its bytes."""
_CLASSIC: Final = ("protocol_type", "generation", "protocol", "leader_id")
_CONSUMER: Final = (
    "member_id",
    "group_epoch",
    "metadata_hash",
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "subscribed_topics",
    "subscribed_regex",
    "rebalance_timeout_ms",
    "server_assignor",
    "session_timeout_ms",
    "assignment_epoch",
    "assigned",
    "pending_revocation",
    "member_epoch",
    "previous_member_epoch",
    "member_state",
)


def group_records(
    classic: DataFrame, consumer: DataFrame, tombstones: DataFrame
) -> DataFrame:
    """All records of groups, their values in JSON: Spark sorts and joins a few columns,
    whatever the values look like."""
    generation = F.struct(
        *_CLASSIC,
        F.unix_micros("state_ts").alias("state_us"),
        F.transform("members", _slim).alias("members"),
    )
    of_epoch = F.struct(
        *_CONSUMER,
        F.unix_micros("created_ts").alias("created_us"),
        F.col("classic_protocols").isNotNull().alias("is_classic_member"),
    )
    ends = tombstones.where(F.col("record_type").isin(*GROUP_TYPES))
    return (
        _records(
            classic.withColumn("record_type", F.lit(CLASSIC_GROUP)), generation, True
        )
        .unionByName(_records(consumer, of_epoch, True))
        .unionByName(_records(ends, F.struct("member_id"), False))
    )


def _slim(member: Column) -> Column:
    return F.struct(*(member[name].alias(name) for name in _MEMBER))


def _records(frame: DataFrame, value: Column, has_value: bool) -> DataFrame:
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
    """`gap_offset`: where the newest gap of the log before each record ends."""
    ends = F.col("until_offset")
    gap = gaps.select(
        "log_partition",
        *_nulls("group_id"),
        ends.alias("log_offset"),
        *_nulls("base_offset", "at_us", "record_type", "has_value", "value"),
        ends.alias("gap_offset"),
    )
    in_order = Window.partitionBy("log_partition").orderBy(
        "log_offset", F.col("group_id").isNotNull()
    )
    newest = F.last("gap_offset", ignorenulls=True).over(in_order)
    return (
        records.withColumn("gap_offset", F.lit(None).cast("bigint"))
        .unionByName(gap)
        .withColumn("gap_offset", newest)
        .where(F.col("group_id").isNotNull())
    )


def _nulls(*names: str) -> list[Column]:
    return [F.lit(None).alias(name) for name in names]


def topic_names(consumer: DataFrame, samples: DataFrame) -> DataFrame:
    """What is known of topic ids: from samples, and from what Kafka before 4.1 wrote
    into the log (record type 4)."""
    told = consumer.where(F.col("record_type") == PARTITION_METADATA).select(
        F.explode("topics_metadata").alias("each")
    )
    return (
        told.select("each.topic_id", "each.topic")
        .unionByName(samples.select("topic_id", "topic"))
        .where(F.col("topic_id").isNotNull() & F.col("topic").isNotNull())
        .distinct()
    )


def names_of_groups(consumer: DataFrame, names: DataFrame) -> DataFrame:
    """The names of each group's topics, as if they were records."""
    parts = F.concat(
        F.col("assigned"),
        F.coalesce(
            "pending_revocation",
            F.array().cast("array<struct<topic_id:string,topic:string,partition:int>>"),
        ),
    )
    ids = F.array_distinct(F.transform(parts, lambda part: part["topic_id"]))
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
    """The replay of each group, from all its records."""
    return records.groupBy(*GROUP).applyInArrow(
        _replay(storms), spark_schema(GROUP_HISTORY)
    )


def _replay(storms: StormRule) -> Callable[[Any, Any], Any]:
    def replay(key: Any, table: Any) -> Any:
        log_partition, group_id = (value.as_py() for value in key)
        records, names = records_of(table)
        told = fold(group_id, records, names, storms)
        return history_of(log_partition, group_id, told)

    return replay


def touched(
    news: Iterable[DataFrame], before: DataFrame, names: DataFrame
) -> DataFrame:
    """Groups to be replayed: those with new records, and with new names of topics."""
    nameless = before.where(F.col("kind") == "group").select(
        *GROUP, F.explode("group.nameless_topic_ids").alias("topic_id")
    )
    frames = [nameless.join(names, "topic_id", "left_semi"), *news]
    keys = [frame.where(_is_of_group(frame)).select(*GROUP) for frame in frames]
    return reduce(DataFrame.unionByName, keys).distinct()


def _is_of_group(frame: DataFrame) -> Column:
    if "record_type" not in frame.columns:
        return F.lit(True)
    return F.col("record_type").isin(*GROUP_TYPES)


def storm_rule(settings: GoldSettings) -> StormRule:
    """The settings, as the replay takes them."""
    return StormRule(
        settings.storm_epochs,
        settings.storm_window_ms * 1000,
        settings.storm_quiet_ms * 1000,
    )


def _build(look: Look) -> DataFrame:
    before, consumer = look.before(), look.all("consumer_group_records")
    names = topic_names(consumer, look.all("partition_end_samples"))
    again = touched([look.new(name) for name in SILVER], before, names)

    def of_those(frame: DataFrame) -> DataFrame:
        return frame.join(again, list(GROUP), "left_semi")

    records = group_records(*(look.all(name) for name in SILVER))
    whole = with_gaps(of_those(records), look.all("log_gaps"))
    named = names_of_groups(of_those(consumer), names)
    fresh = replayed(whole.unionByName(named), storm_rule(look.settings))
    kept = before.join(again, list(GROUP), "left_anti")
    return conform(kept.unionByName(fresh), GROUP_HISTORY)


GOLD: Final = Gold(
    GROUP_HISTORY, (*SILVER, "log_gaps", "partition_end_samples"), _build
)
