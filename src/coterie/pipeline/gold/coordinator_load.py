"""What each log partition has to do, and which group makes most of it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.tables.coordinator_load import COORDINATOR_LOAD

_LOG_TOPIC: Final = "__consumer_offsets"
_BY: Final = "log_partition"


def load(
    commits: DataFrame, records: DataFrame, quality: DataFrame, groups: DataFrame
) -> DataFrame:
    """A row for each log partition of `quality` (data_quality): its commits and bytes,
    and the groups that live there (current_groups)."""
    return (
        quality.select(_BY, "records", "commits", _seconds().alias("seconds"))
        .join(_bytes(records), on=_BY, how="left")
        .join(_busiest(commits), on=_BY, how="left")
        .join(_living(groups), on=_BY, how="left")
        .fillna(0, ["bytes", "groups", "members"])
        .withColumns(
            {
                "commits_per_s": F.col("commits") / F.col("seconds"),
                "top_group_id": F.col("top.group_id"),
                "top_group_share": F.col("top.commits") / F.col("commits"),
            }
        )
    )


def leaders(samples: DataFrame) -> DataFrame:
    """The broker that led each log partition at the last look at it."""
    of_log = samples.where(F.col("topic") == _LOG_TOPIC)
    return of_log.groupBy(F.col("partition").alias(_BY)).agg(
        F.max_by("leader_id", "sample_ts").alias("broker_id")
    )


def _seconds() -> Column:
    """The time that the log covers; less than a second counts as one."""
    span_ms = F.unix_millis("last_ts") - F.unix_millis("first_ts")
    return F.greatest(F.coalesce(span_ms, F.lit(0)) / 1000, F.lit(1.0))


def _bytes(records: DataFrame) -> DataFrame:
    return records.groupBy(_BY).agg(F.sum("size_bytes").alias("bytes"))


def _busiest(commits: DataFrame) -> DataFrame:
    """Of groups with as many commits the last by its name, so that it is always one."""
    of_groups = commits.groupBy(_BY, "group_id").agg(F.count("*").alias("commits"))
    return of_groups.groupBy(_BY).agg(
        F.max(F.struct("commits", "group_id")).alias("top")
    )


def _living(groups: DataFrame) -> DataFrame:
    return groups.groupBy(_BY).agg(
        F.count("*").alias("groups"), F.sum("member_count").alias("members")
    )


def build(look: Look) -> DataFrame:
    """The table, from all there is."""
    rows = load(
        look.all("offset_commits"),
        look.all("records"),
        look.all("data_quality"),
        look.all("current_groups"),
    )
    led = leaders(look.all("partition_end_samples"))
    return conform(rows.join(led, on=_BY, how="left"), COORDINATOR_LOAD)


GOLD: Final = Gold(
    COORDINATOR_LOAD,
    (
        "offset_commits",
        "records",
        "data_quality",
        "current_groups",
        "partition_end_samples",
    ),
    build,
)
