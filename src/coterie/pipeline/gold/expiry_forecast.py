"""Gold table expiry_forecast: the expiration time of each committed offset.

The rules are those of Kafka's OffsetExpirationCondition (E17-18a to E17-18h), applied to the
current groups; the first rule that matches applies:

| group | basis | the retention time begins with |
|---|---|---|
| never had members (K-07a) | simple_commit | the commit |
| consumer (KIP-848), topic not subscribed; an empty group subscribes to none | consumer_commit | the commit |
| classic, Empty | empty_since | the time the last member left; the commit when that is unknown |
| classic of protocol type consumer, Stable, topic not subscribed | commit_not_subscribed | the commit |
| any other | never | |

A commit with an explicit expiration time (value version 1) expires then, if it can
expire at all: basis explicit. The coordinator checks at an interval, so an offset
expires at the first check after `expires_ts`, and later while a transaction for it is
open.

`is_trap` marks an offset of a consumer group that is older than the retention time, as
on a partition without new records: it expires at the first check after the last member
leaves. In a classic group its retention time would begin only then.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.newest_partition_ends import newest_of_partitions
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs
from coterie.pipeline.tables.gold_offsets import EXPIRY_FORECAST
from coterie.pipeline.tables.table import TIME_MS_MAX

INPUTS: Final = (
    "current_offsets",
    "current_groups",
    "current_members",
    "consumer_group_records",
    "tombstones",
    "newest_partition_ends",
)
_REGEX_TYPE: Final = 16
_NOTES: Final = {
    "explicit": "the commit has an explicit expiration time",
    "simple_commit": "no member ever joined: counts from the commit, even while a"
    " client is running",
    "consumer_commit": "topic not subscribed: counts from the commit, not from the time"
    " the last member left",
    "empty_since": "counts from the time the last member left",
    "commit_not_subscribed": "no member subscribes to the topic",
    "never": "members may be reading the topic",
}
_TRAP_NOTE: Final = (
    "older than the retention time: expires at the first check after the last member"
    " leaves"
)


def expiry_forecast(
    tables: Mapping[str, DataFrame], settings: GoldSettings
) -> DataFrame:
    """Return the rows from the tables of INPUTS."""
    offsets, groups = tables["current_offsets"], tables["current_groups"]
    ends = newest_of_partitions(
        tables["newest_partition_ends"],
        "topic_id",
        "log_start_offset",
        "high_watermark",
    ).withColumnRenamed("topic_id", "sampled_id")
    subscribed = _subscriptions(
        tables["current_members"],
        tables["consumer_group_records"],
        tables["tombstones"],
    )
    now_ms = F.unix_millis(F.lit(settings.as_of_ts).cast("timestamp"))
    retention = F.lit(settings.retention_ms).cast("bigint")
    is_explicit, basis = F.col("basis") == "explicit", F.col("basis")
    commit_expires_ms = F.unix_millis("commit_ts") + retention
    # A commit time is any number of a client: the sum may be too late for Python and
    # Spark.
    expires_ms = F.unix_millis("base_ts") + F.col("retention_ms")
    is_trap = (
        (F.col("group_type") == "consumer")
        & F.col("is_subscribed")
        & (commit_expires_ms <= now_ms)
    )
    notes = F.create_map(*(F.lit(text) for item in _NOTES.items() for text in item))
    note = F.when(F.col("is_trap"), _TRAP_NOTE).otherwise(notes[basis])
    return (
        _with_subscribed(offsets, groups, subscribed)
        .withColumn("basis", _basis())
        .withColumn("base_ts", _base_ts())
        .withColumn(
            "retention_ms", F.when(~is_explicit & (basis != "never"), retention)
        )
        .withColumn(
            "expires_ts",
            F.when(is_explicit, F.col("expire_ts")).otherwise(
                F.timestamp_millis(
                    F.when(expires_ms > TIME_MS_MAX, TIME_MS_MAX).otherwise(expires_ms)
                )
            ),
        )
        .withColumn("remaining_ms", F.unix_millis("expires_ts") - now_ms)
        .withColumn("is_trap", F.coalesce(is_trap, F.lit(False)))
        .withColumn("note", note)
        .join(ends, ["topic", "partition"], "left")
        .withColumn("at_risk_messages", _lag())
    )


def _with_subscribed(
    offsets: DataFrame, groups: DataFrame, subscribed: DataFrame
) -> DataFrame:
    """Add columns of the group, and `is_subscribed`, to each offset. A simple group may
    have no row in current_groups."""
    any_topic = subscribed.where(F.col("topic").isNull()).select(
        "group_id", F.lit(True).alias("any")
    )
    this_topic = subscribed.where(F.col("topic").isNotNull()).withColumn(
        "this", F.lit(True)
    )
    group_columns = groups.select(
        "group_id", "group_type", "protocol_type", "state", "empty_since_ts"
    )
    may_be_any = F.when(F.col("group_type") == "classic", F.col("any"))
    return (
        offsets.join(group_columns, "group_id", "left")
        .join(this_topic, ["group_id", "topic"], "left")
        .join(any_topic, "group_id", "left")
        .withColumn("is_subscribed", F.coalesce("this", may_be_any, F.lit(False)))
    )


def _basis() -> Column:
    kind, protocol = F.col("group_type"), F.col("protocol_type")
    is_simple = kind.isNull() | (kind == "simple") | protocol.isNull()
    is_empty = F.col("state") == "Empty"
    is_subscribed = F.col("is_subscribed")
    rule = (
        F.when(is_simple, "simple_commit")
        .when(kind == "consumer", F.when(~is_subscribed, "consumer_commit"))
        .when(is_empty, "empty_since")
        .when((protocol == "consumer") & ~is_subscribed, "commit_not_subscribed")
    )
    # Kafka checks whether an offset can expire at all before its explicit time.
    is_explicit = F.col("expire_ts").isNotNull()
    return F.when(rule.isNull(), "never").otherwise(
        F.when(is_explicit, "explicit").otherwise(rule)
    )


def _base_ts() -> Column:
    empty_since = F.coalesce("empty_since_ts", "commit_ts")
    return (
        F.when(F.col("basis") == "empty_since", empty_since)
        .when(F.col("basis") != "never", F.col("commit_ts"))
        .otherwise(F.lit(None).cast("timestamp"))
    )


def _lag() -> Column:
    """Return the number of records after the committed offset at the newest sample. It
    is null if the topic with this name is not the one that the commit was for."""
    next_offset = F.greatest("committed_offset", "log_start_offset")
    is_other_topic = F.col("topic_id") != F.col("sampled_id")
    is_known = (
        F.col("high_watermark").isNotNull() & F.col("committed_offset").isNotNull()
    )
    return F.when(
        is_known & ~F.coalesce(is_other_topic, F.lit(False)),
        F.greatest(F.col("high_watermark") - next_offset, F.lit(0)),
    )


def _subscriptions(
    members: DataFrame, group_records: DataFrame, tombstones: DataFrame
) -> DataFrame:
    """Return the distinct `group_id` and `topic` pairs to which members subscribe.

    The inputs are current_members, consumer_group_records and tombstones. The topics of
    a regular expression are those in its resolution by the coordinator (record type
    16). A null topic means any topic: the subscription of a classic member could not be
    decoded, and the coordinator then takes all topics to be subscribed (D-53).
    """
    by_name = members.select(
        "group_id", F.explode_outer("subscribed_topics").alias("topic")
    ).where(F.col("topic").isNotNull())
    unknown = members.where(
        (F.col("protocol") == "classic") & F.col("subscribed_topics").isNull()
    ).select("group_id", F.lit(None).cast("string").alias("topic"))
    is_regex = F.col("record_type") == _REGEX_TYPE
    key = ("group_id", "regex")
    resolved = group_records.where(is_regex).select(*key, "log_offset", "regex_topics")
    deleted = tombstones.where(is_regex).select(*key, "log_offset")
    by_regex = (
        resolved.unionByName(deleted, allowMissingColumns=True)
        .groupBy(*key)
        .agg(F.max_by("regex_topics", "log_offset").alias("regex_topics"))
        .select("group_id", F.explode("regex_topics").alias("topic"))
    )
    return by_name.union(unknown).union(by_regex).distinct()


def _build(inputs: TableInputs) -> DataFrame:
    tables = {name: inputs.all(name) for name in INPUTS}
    return expiry_forecast(tables, inputs.settings)


GOLD: Final = GoldTable(EXPIRY_FORECAST, INPUTS, _build)
