"""What each group did each day on each topic, and its share of what that cost.

Only days that new rows are of are counted again; what stands in the table of the others
is kept. A day is one of UTC, by the coordinator's clock, whatever zone Spark is in.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.tables.group_usage_daily import GROUP_USAGE_DAILY

_DAY_S: Final = 86_400
_OF: Final = ("day", "group_id", "topic")
_MOST: Final = 2**63 - 1


def days_of(rows: DataFrame) -> DataFrame:
    """The days that commits and tombstones are of."""
    return rows.select(_day().alias("day")).distinct().where(F.col("day").isNotNull())


def usage(history: DataFrame, commits: DataFrame) -> DataFrame:
    """Counted anew, from rows of offset_commit_history and offset_commits."""
    rows = _changes(history).unionByName(_sizes(commits), allowMissingColumns=True)
    minutes = (
        rows.where(F.col("day").isNotNull())
        .groupBy(*_OF, "minute")
        .agg(*(_sum(each) for each in (*_SUMS, "commits")))
    )
    is_active = F.when(F.col("commits") > 0, 1)
    return minutes.groupBy(*_OF).agg(
        (F.max("commits") / 60).alias("commits_per_s_max"),
        F.count(is_active).alias("active_minutes"),
        *(_sum(each) for each in (*_SUMS, "commits")),
    )


def with_shares(rows: DataFrame) -> DataFrame:
    """Each group's part of its day's bytes."""
    of_day = F.sum("log_bytes_written").over(Window.partitionBy("day"))
    share = F.when(of_day > 0, F.col("log_bytes_written") / of_day)
    return rows.withColumn("cost_share", F.coalesce(share, F.lit(0.0)))


def members_max(sessions: DataFrame, as_of_ts: datetime | None) -> DataFrame:
    """The most members that each group had at a time, for each day that it had any.
    Who is still there is there until `as_of_ts`."""
    now = F.lit(as_of_ts).cast("timestamp")
    end = F.greatest("joined_ts", F.coalesce("left_ts", now, "joined_ts"))
    days = F.explode(F.sequence(_number("joined_ts"), _number(end)))
    each_day = sessions.withColumn("end_ts", end).select("*", days.alias("number"))
    began = F.when(_number("joined_ts") == F.col("number"), F.col("joined_ts"))
    comes = each_day.select(
        "group_id", "number", F.lit(1).alias("change"), began.alias("at")
    )
    is_gone = F.col("left_ts").isNotNull() & (_number("end_ts") == F.col("number"))
    goes = each_day.where(is_gone).select(
        "group_id", "number", F.lit(-1).alias("change"), F.col("end_ts").alias("at")
    )
    # Who goes and comes at once was never there twice; who was there at midnight is
    # there before all else.
    in_order = Window.partitionBy("group_id", "number").orderBy(
        F.col("at").asc_nulls_first(), "change"
    )
    together = F.sum("change").over(in_order)
    return (
        comes.unionByName(goes)
        .withColumn("together", together)
        .groupBy("group_id", F.date_from_unix_date("number").alias("day"))
        .agg(F.max("together").alias("members_max"))
    )


def _changes(history: DataFrame) -> DataFrame:
    is_tombstone = F.col("direction") == "tombstone"
    delta = F.coalesce("delta", F.lit(0))
    return history.select(
        *_place(),
        F.greatest(delta, F.lit(0)).alias("offsets_consumed"),
        # The least of all numbers has no opposite.
        F.greatest(-F.greatest(delta, F.lit(-_MOST)), F.lit(0)).alias(
            "offsets_rewound"
        ),
        (~is_tombstone).cast("bigint").alias("commits"),
        is_tombstone.cast("bigint").alias("tombstones"),
    )


def _sizes(commits: DataFrame) -> DataFrame:
    size = F.col("size_bytes").cast("bigint")
    return commits.select(*_place(), size.alias("log_bytes_written"))


def _place() -> list[Column]:
    minute = F.floor(F.unix_seconds(_time()) / 60)
    return [
        _day().alias("day"),
        F.col("group_id"),
        F.col("topic"),
        minute.alias("minute"),
    ]


def _time() -> Column:
    return F.coalesce("commit_ts", "append_ts")


def _day() -> Column:
    return F.date_from_unix_date(_number(_time()))


def _number(time: Column | str) -> Column:
    """Days since 1970 in UTC."""
    return F.floor(F.unix_seconds(time) / _DAY_S).cast("int")


_SUMS: Final = (
    "offsets_consumed",
    "offsets_rewound",
    "tombstones",
    "log_bytes_written",
)


def _sum(name: str) -> Column:
    """Offsets are anybody's to choose: a sum that is too large is the largest."""
    most = F.when(F.count(name) > 0, F.lit(_MOST)).otherwise(0)
    return F.coalesce(F.try_sum(name), most).alias(name)


def build(look: Look) -> DataFrame:
    """The table: days that rows came for, and the others as they were."""
    days = F.broadcast(days_of(look.new("offset_commit_history")))
    history, commits = (
        look.all(name).withColumn("day", _day()).join(days, on="day", how="left_semi")
        for name in ("offset_commit_history", "offset_commits")
    )
    again = with_shares(usage(history, commits))
    kept = look.before().drop("members_max").join(days, on="day", how="left_anti")
    members = members_max(look.all("member_sessions"), look.settings.as_of_ts)
    rows = kept.unionByName(again).join(members, on=["day", "group_id"], how="left")
    return conform(rows, GROUP_USAGE_DAILY)


GOLD: Final = Gold(
    GROUP_USAGE_DAILY,
    ("offset_commit_history", "offset_commits", "member_sessions"),
    build,
)
