"""Events on partitions in the order of time: samples, commits and changes of owner.

Runs append samples to the table partition_end_samples, as many as their source has.
`of_minutes` reduces them to one a minute for each partition, which is enough for lag. A
topic may be deleted and created again: `with_lives` numbers its lives.

A build that begins at a cut (`cuts.py`) continues from the last sample, commit and owner
of each partition before it, which group_windows has: they are events before the cut.

`events` returns rows of one schema for all kinds of events, so that one window finds
the commit and the owner at each sample; a range join would cost far more.

| column | meaning |
|---|---|
| group_id, topic, partition | the partition, for one group |
| at_ts, rank, seq | the order. At equal times samples come last: they include everything written at that moment |
| commit | of a commit or tombstone: at_ts, log_offset, topic_id, committed_offset (null for a tombstone or a negative offset), commit_ts, is_reset |
| owner | of a change of owner: at_ts, topic_id, member_id (null for no owner), is_lower_bound |
| sample | of a sample: its row from `with_lives` |

Times of commits never decrease: the committed offset at a time is that of the last
commit in the log, when all records up to it were written (K-03).
"""  # noqa: E501

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold import cuts
from coterie.pipeline.gold.evaluator import STATE

if TYPE_CHECKING:
    from coterie.pipeline.gold.table_inputs import TableInputs

PARTITION: Final = ("group_id", "topic", "partition")
ORDER: Final = ("at_ts", "rank", "seq")
_CHANGE_RANK: Final = 1
_SAMPLE_RANK: Final = 2
_SAMPLE: Final = ("topic_id", "sample_ts", "log_start_offset", "high_watermark")
_KNOWN: Final = {
    "base_life": "int",
    "base_previous_ts": "timestamp",
    "base_first_ts": "timestamp",
}


class Carried(NamedTuple):
    """The rows of group_windows at the base of a build; none at first."""

    base: datetime | None
    rows: DataFrame

    def of(self, kind: str) -> DataFrame:
        return self.rows.where(F.col("kind") == kind)


def of_minutes(samples: DataFrame) -> DataFrame:
    """Return the last sample of each minute, for each partition."""
    in_time = Window.partitionBy("topic", "partition").orderBy(
        "sample_ts", "high_watermark"
    )
    minute = F.date_trunc("minute", "sample_ts")
    next_minute = F.lead(minute).over(in_time)
    is_last = next_minute.isNull() | (next_minute != minute)
    return samples.withColumn("is_last", is_last).where("is_last").drop("is_last")


def with_lives(samples: DataFrame) -> DataFrame:
    """Add `life`, the number of times the topic has been created again so far,
    `previous_life_ts`, the time of the last sample in the previous life (null in the
    first life), and `first_ts`, the time of the first sample in this one.

    Rows with `base_life`, `base_previous_ts` and `base_first_ts`, the first ones of
    their partitions, have these values already.
    """
    known = [each for each in samples.columns if each.startswith("base_")]
    for name, kind in _KNOWN.items():
        if name not in known:
            samples = samples.withColumn(name, F.lit(None).cast(kind))
    in_time = Window.partitionBy("topic", "partition").orderBy("sample_ts")
    until_now = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    id_before = F.lag("topic_id").over(in_time)
    # Without topic IDs, only a lower end offset shows that the topic was created again.
    are_ids_known = id_before.isNotNull() & F.col("topic_id").isNotNull()
    went_back = F.col("high_watermark") < F.lag("high_watermark").over(in_time)
    is_new_life = F.coalesce(
        F.when(are_ids_known, F.col("topic_id") != id_before).otherwise(went_back),
        F.lit(False),
    )
    before_ts = F.lag("sample_ts").over(in_time)
    lives = F.sum(F.col("is_new_life").cast("int")).over(until_now)
    is_first = F.col("is_new_life") | before_ts.isNull()
    first_ts = F.coalesce("base_first_ts", F.when(is_first, F.col("sample_ts")))
    ended_ts = F.coalesce(F.col("base_previous_ts"), F.col("ended_ts"))
    base_life = F.last("base_life", ignorenulls=True).over(until_now)
    return (
        samples.withColumn("is_new_life", is_new_life)
        .withColumn("ended_ts", F.when(is_new_life, before_ts))
        .withColumn("life", (lives + F.coalesce(base_life, F.lit(0))).cast("int"))
        .withColumn(
            "previous_life_ts", F.last(ended_ts, ignorenulls=True).over(until_now)
        )
        .withColumn("first_ts", F.last(first_ts, ignorenulls=True).over(until_now))
        .drop("is_new_life", "ended_ts", *_KNOWN)
    )


def ends_since(samples: DataFrame, carried: Carried) -> DataFrame:
    """Return the samples of minutes from the base on, with lives, and the last sample
    of each partition before it, which has `ends`."""
    names = ("topic", "partition", *_SAMPLE)
    before = carried.of(cuts.END).select(
        *names,
        "ends",
        F.col("life").alias("base_life"),
        F.col("previous_life_ts").alias("base_previous_ts"),
        F.col("first_ts").alias("base_first_ts"),
    )
    recent = of_minutes(cuts.since(samples, carried.base, "sample_ts").select(*names))
    return with_lives(before.unionByName(recent, allowMissingColumns=True))


def events_since(ends: DataFrame, inputs: TableInputs, carried: Carried) -> DataFrame:
    """Return the events from the base on, and the last ones before it.

    `ends` are from `ends_since`.
    """
    base = carried.base
    windows = carried.of(STATE).where(F.col("topic").isNotNull())
    history = cuts.commits_since(inputs, base)
    owners = inputs.all(cuts.OWNERSHIP)
    if base is not None:
        is_open = F.col("valid_to").isNull() | (
            F.col("valid_to") >= cuts.timestamp(base)
        )
        owners = owners.where(is_open)
    return events(ends, history, owners, windows).where(
        _is_needed(base) if base is not None else F.lit(True)
    )


def _is_needed(base: datetime) -> Column:
    """Return whether an event is at the base or later, or carried."""
    is_recent = F.col("at_ts") >= cuts.timestamp(base)
    return is_recent | F.col("commit").isNull() | F.col("commit.is_carried")


def events(
    ends: DataFrame, history: DataFrame, ownership: DataFrame, windows: DataFrame
) -> DataFrame:
    """Return all events on partitions that a group committed for or owned.

    The inputs are `ends_since` samples, offset_commit_history,
    partition_ownership_history, and the rows of group_windows at the base.
    """
    owned = ownership.where(F.col("topic").isNotNull())
    partitions = (
        history.select(*PARTITION)
        .union(owned.select(*PARTITION))
        .union(windows.select(*PARTITION))
        .distinct()
    )
    return (
        _commits(history, windows)
        .unionByName(_owners(owned), allowMissingColumns=True)
        .unionByName(_carried_owners(windows), allowMissingColumns=True)
        .unionByName(_samples(ends, partitions), allowMissingColumns=True)
    )


def latest(name: str) -> Column:
    """Return the last non-null `commit` or `owner` up to each event."""
    until_now = (
        Window.partitionBy(*PARTITION)
        .orderBy(*ORDER)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return F.last(name, ignorenulls=True).over(until_now)


def is_of_same_life(name: str) -> Column:
    """Return whether the `commit` or `owner` belongs to the sample's topic, not to an
    earlier topic with the same name.
    """
    own_id, sampled_id = F.col(f"{name}.topic_id"), F.col("sample.topic_id")
    before_ts = F.col("sample.previous_life_ts")
    is_same = F.when(own_id.isNotNull() & sampled_id.isNotNull(), own_id == sampled_id)
    is_later = before_ts.isNull() | (F.col(f"{name}.at_ts") > before_ts)
    return F.coalesce(is_same, is_later)


def _commits(history: DataFrame, windows: DataFrame) -> DataFrame:
    in_log = (
        Window.partitionBy(*PARTITION)
        .orderBy("log_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    read = history.select(
        *PARTITION,
        "log_offset",
        F.coalesce("append_ts", "commit_ts").alias("at_ts"),
        "commit_ts",
        "committed_offset",
        "topic_id",
        F.coalesce(F.col("actor") == "admin", F.lit(False)).alias("is_reset"),
        F.lit(False).alias("is_carried"),
    )
    carried = (
        windows.select(*PARTITION, F.explode(F.array("last", "sampled")).alias("row"))
        .where(F.col("row").isNotNull())
        .select(*PARTITION, "row.*", F.lit(True).alias("is_carried"))
    )
    at_ts = F.max("at_ts").over(in_log)
    return (
        read.unionByName(carried)
        .withColumn("at_ts", at_ts)
        .select(
            *PARTITION,
            *_order(F.col("at_ts"), _CHANGE_RANK, F.col("log_offset") * 2),
            F.struct(
                "at_ts",
                "log_offset",
                "topic_id",
                "committed_offset",
                F.coalesce("commit_ts", "at_ts").alias("commit_ts"),
                "is_reset",
                "is_carried",
            ).alias("commit"),
        )
    )


def _owners(ownership: DataFrame) -> DataFrame:
    """Return two events for each interval: its start and its end. If one record ends an
    interval and starts the next, the end sorts first.
    """

    def changes(rows: DataFrame, at_ts: str, seq: Column, *values: Column) -> DataFrame:
        owner = F.struct(F.col(at_ts).alias("at_ts"), "topic_id", *values)
        order = _order(F.col(at_ts), _CHANGE_RANK, seq)
        return rows.select(*PARTITION, *order, owner.alias("owner"))

    begins = F.col("from_log_offset") * 2 + 1
    ends = F.col("to_log_offset") * 2
    member = F.col("member_id"), F.col("is_lower_bound")
    no_member = (
        F.lit(None).cast("string").alias("member_id"),
        F.lit(False).alias("is_lower_bound"),
    )
    ended = ownership.where(F.col("valid_to").isNotNull())
    return changes(ownership, "valid_from", begins, *member).unionByName(
        changes(ended, "valid_to", ends, *no_member)
    )


def _carried_owners(windows: DataFrame) -> DataFrame:
    order = _order(F.col("owner.at_ts"), _CHANGE_RANK, F.col("owner.seq"))
    owner = F.struct(
        "owner.at_ts", "owner.topic_id", "owner.member_id", "owner.is_lower_bound"
    )
    owned = windows.where(F.col("owner").isNotNull())
    return owned.select(*PARTITION, *order, owner.alias("owner"))


def _samples(ends: DataFrame, partitions: DataFrame) -> DataFrame:
    columns = [name for name in ends.columns if name not in PARTITION]
    samples = ends.select("topic", "partition", F.struct(*columns).alias("sample"))
    return partitions.join(samples, ["topic", "partition"]).select(
        *PARTITION, *_order(F.col("sample.sample_ts"), _SAMPLE_RANK, F.lit(0)), "sample"
    )


def _order(at_ts: Column, rank: int, seq: Column) -> list[Column]:
    return [
        at_ts.alias("at_ts"),
        F.lit(rank).alias("rank"),
        seq.cast("bigint").alias("seq"),
    ]
