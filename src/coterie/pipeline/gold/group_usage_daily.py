"""Gold table group_usage_daily: the activity of each group on each topic and day, and
its share of the day's commit bytes.

Only days with new rows are counted again; other days keep their rows. Days are days in
UTC by the coordinator's clock, whatever the time zone of Spark.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.table_inputs import (
    GoldTable,
    Plan,
    PlanInputs,
    TableInputs,
)
from coterie.pipeline.tables.gold_offsets import GROUP_USAGE_DAILY

_DAY_S: Final = 86_400
_EPOCH: Final = date(1970, 1, 1)
_KEY: Final = ("day", "group_id", "topic")
_LONG_MAX: Final = 2**63 - 1
_SUMS: Final = (
    "offsets_consumed",
    "offsets_rewound",
    "tombstones",
    "log_bytes_written",
    "commits",
)


def usage(history: DataFrame, commits: DataFrame) -> DataFrame:
    """Return the counts, from rows of offset_commit_history and offset_commits."""
    is_tombstone = F.col("direction") == "tombstone"
    delta = F.coalesce("delta", F.lit(0))
    # Negating the smallest bigint would overflow.
    negated = -F.greatest(delta, F.lit(-_LONG_MAX))
    changes = history.select(
        *_minute_key(),
        F.greatest(delta, F.lit(0)).alias("offsets_consumed"),
        F.greatest(negated, F.lit(0)).alias("offsets_rewound"),
        (~is_tombstone).cast("bigint").alias("commits"),
        is_tombstone.cast("bigint").alias("tombstones"),
    )
    sizes = commits.select(
        *_minute_key(), F.col("size_bytes").cast("bigint").alias("log_bytes_written")
    )
    minutes = (
        changes.unionByName(sizes, allowMissingColumns=True)
        .where(F.col("day").isNotNull())
        .groupBy(*_KEY, "minute")
        .agg(*map(_sum, _SUMS))
    )
    return minutes.groupBy(*_KEY).agg(
        (F.max("commits") / 60).alias("commits_per_s_max"),
        F.count(F.when(F.col("commits") > 0, 1)).alias("active_minutes"),
        *map(_sum, _SUMS),
    )


def with_shares(rows: DataFrame) -> DataFrame:
    """Add `cost_share`: each row's share of its day's commit bytes."""
    day_bytes = F.sum("log_bytes_written").over(Window.partitionBy("day"))
    share = F.when(day_bytes > 0, F.col("log_bytes_written") / day_bytes)
    return rows.withColumn("cost_share", F.coalesce(share, F.lit(0.0)))


def members_max(sessions: DataFrame, as_of_ts: datetime | None) -> DataFrame:
    """Return `members_max` for each group and each day on which it had members. An open
    session lasts until `as_of_ts`."""
    now = F.lit(as_of_ts).cast("timestamp")
    # A time after the newest records is one of a wrong clock.
    left_ts = F.when(F.col("left_ts").isNotNull(), F.least("left_ts", now))
    end_ts = F.greatest("joined_ts", F.coalesce(left_ts, now, "joined_ts"))
    days = F.explode(F.sequence(_day_number("joined_ts"), _day_number(end_ts)))
    session_days = sessions.withColumn("end_ts", end_ts).select(
        "*", days.alias("day_number")
    )
    day_number = F.col("day_number")
    # A member whose session began on an earlier day counts from the start of this day:
    # its time is null, which sorts first.
    joined_at = F.when(_day_number("joined_ts") == day_number, F.col("joined_ts"))
    joins = session_days.select(
        "group_id", "day_number", F.lit(1).alias("change"), joined_at.alias("at")
    )
    left = F.col("left_ts").isNotNull() & (_day_number("end_ts") == day_number)
    leaves = session_days.where(left).select(
        "group_id", "day_number", F.lit(-1).alias("change"), F.col("end_ts").alias("at")
    )
    # At equal times members that leave sort first: a replaced member was never in the
    # group together with its replacement.
    in_order = Window.partitionBy("group_id", "day_number").orderBy(
        F.col("at").asc_nulls_first(), "change"
    )
    return (
        joins.unionByName(leaves)
        .withColumn("members", F.sum("change").over(in_order))
        .groupBy("group_id", F.date_from_unix_date("day_number").alias("day"))
        .agg(F.max("members").alias("members_max"))
    )


def _minute_key() -> list[Column]:
    minute = F.floor(F.unix_seconds(_time()) / 60)
    return [
        _day().alias("day"),
        F.col("group_id"),
        F.col("topic"),
        minute.alias("minute"),
    ]


def _time() -> Column:
    return F.coalesce("append_ts", "commit_ts")


def _day() -> Column:
    return F.date_from_unix_date(_day_number(_time()))


def _day_number(time: Column | str) -> Column:
    """Return the number of days since 1970 in UTC. Spark's date functions would use the
    time zone of the session.
    """
    return F.floor(F.unix_seconds(time) / _DAY_S).cast("int")


def _sum(name: str) -> Column:
    # Clients may commit any offset: a sum beyond a bigint becomes the largest bigint.
    largest = F.when(F.count(name) > 0, F.lit(_LONG_MAX)).otherwise(0)
    return F.coalesce(F.try_sum(name), largest).alias(name)


def _plan(inputs: PlanInputs) -> Plan:
    numbers: set[int] = set()
    for times in inputs.new_times("offset_commit_history", "append_ts", "commit_ts"):
        at_us = times.drop_null().cast(pa.int64()).to_numpy()
        numbers.update(np.unique(at_us // (_DAY_S * 1_000_000)).tolist())
    return Plan(days=tuple(_EPOCH + timedelta(days=each) for each in sorted(numbers)))


def _build(inputs: TableInputs) -> DataFrame:
    is_of_days = F.col("day").isin(list(inputs.plan.days))
    history, commits = (
        inputs.of_days(name).withColumn("day", _day()).where(is_of_days)
        for name in ("offset_commit_history", "offset_commits")
    )
    counted = with_shares(usage(history, commits))
    kept = inputs.before().drop("members_max").where(~is_of_days)
    members = members_max(inputs.all("member_sessions"), inputs.settings.as_of_ts)
    return kept.unionByName(counted).join(members, on=["day", "group_id"], how="left")


GOLD: Final = GoldTable(
    GROUP_USAGE_DAILY,
    ("offset_commit_history", "offset_commits", "member_sessions"),
    _build,
    _plan,
)
