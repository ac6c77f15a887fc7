"""Gold table group_status: verdicts on groups and partitions, by Burrow's rules.

It is made from the internal table group_windows.

There is a row for each partition and one for the whole group, for each minute with a
sample of any of the group's partitions, evaluated at the end of that minute. Any past
minute can be queried, and a rebuild gives the same rows.

`verdict` and `rule` are our own evaluation, `burrow_code` is Burrow's (`verdict.py`).
Spark sends all events of a group to one Python worker, in the order of time; the worker
keeps a window for each partition (`evaluator.py`). The table group_windows has the rows
of the last build, and the state of the windows at a few cuts, where later builds begin
(`cuts.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold import cuts
from coterie.pipeline.gold.evaluator import (
    COMMIT,
    OWNER,
    SAMPLE,
    STATE,
    STATUS,
    WINDOW,
    EvaluationTimes,
    Event,
    status_batches,
)
from coterie.pipeline.gold.partition_events import (
    ORDER,
    PARTITION,
    Carried,
    ends_since,
    events_since,
)
from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs
from coterie.pipeline.tables.gold_groups import GROUP_STATUS, GROUP_WINDOWS
from coterie.pipeline.tables.spark import conform, spark_schema

_PARTITION_OF_TOPIC: Final = ("topic", "partition")


def _windows(inputs: TableInputs) -> DataFrame:
    plan, rules = cuts.plan_of(inputs), inputs.settings.burrow
    old = inputs.before()
    carried = Carried(plan.base, old.where(_is_at(plan.base)))
    ends = ends_since(inputs.since(cuts.SAMPLES, plan.base), carried)
    times = EvaluationTimes(
        None if plan.base is None else _ms(plan.base),
        tuple(_ms(each) for each in plan.cuts),
    )
    # State comes first: its time is 1970.
    evaluated = (
        _event_rows(events_since(ends, inputs, carried))
        .unionByName(_state_rows(carried), allowMissingColumns=True)
        .repartition("group_id")
        .sortWithinPartitions("group_id", *ORDER)
        .select(*Event._fields)
        .mapInArrow(partial(status_batches, rules, times), spark_schema(GROUP_WINDOWS))
    )
    frames = [_headers(inputs, plan), _ends_at(ends, plan.cuts, rules.intervals)]
    kept = old.where(F.col("kind").isin(cuts.END, STATE) & _is_in(plan.kept))
    whole = kept.unionByName(evaluated)
    for frame in frames:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return conform(whole, GROUP_WINDOWS)


def _headers(inputs: TableInputs, plan: cuts.BuildTimes) -> DataFrame:
    at = [(cuts.CUT, each) for each in (*plan.kept, *plan.cuts)]
    return inputs.spark.createDataFrame(
        [(cuts.BASE, plan.base), *at], "kind string, cut_ts timestamp"
    )


def _event_rows(events: DataFrame) -> DataFrame:
    kind = (
        F.when(F.col("commit").isNotNull(), COMMIT)
        .when(F.col("owner").isNotNull(), OWNER)
        .otherwise(SAMPLE)
    )
    columns = {
        **{name: F.col(name) for name in (*PARTITION, "at_ts", "rank", "seq")},
        "kind": kind,
        "at_ms": F.unix_millis("at_ts"),
        "topic_id": F.coalesce("commit.topic_id", "owner.topic_id", "sample.topic_id"),
        "offset": F.col("commit.committed_offset"),
        "commit_ms": F.unix_millis("commit.commit_ts"),
        "is_reset": F.col("commit.is_reset"),
        "member_id": F.col("owner.member_id"),
        "is_lower_bound": F.col("owner.is_lower_bound"),
        "start": F.col("sample.log_start_offset"),
        "end": F.col("sample.high_watermark"),
        "life": F.col("sample.life"),
        "previous_life_ms": F.unix_millis("sample.previous_life_ts"),
        "ends": F.col("sample.ends"),
    }
    # The state has the carried commits already.
    is_event = F.col("commit").isNull() | ~F.col("commit.is_carried")
    return events.where(is_event).select(
        *(column.alias(name) for name, column in columns.items())
    )


def _state_rows(carried: Carried) -> DataFrame:
    return carried.of(STATE).select(
        *PARTITION,
        F.timestamp_seconds(F.lit(0)).alias("at_ts"),
        F.lit(0).alias("rank"),
        F.lit(0).cast("bigint").alias("seq"),
        F.lit(WINDOW).alias("kind"),
        F.lit(0).cast("bigint").alias("at_ms"),
        "state",
    )


def _ends_at(ends: DataFrame, times: Sequence[datetime], count: int) -> DataFrame:
    """Return the rows of kind end at each cut: the last sample before it, with the high
    watermarks of the last `count` samples of its life."""
    in_time = Window.partitionBy(*_PARTITION_OF_TOPIC).orderBy("sample_ts")
    later_ts = F.lead("sample_ts", count).over(in_time)
    at = [_cut_of_tail(each) for each in times] or [F.lit(None).cast("timestamp")]
    values = ("topic_id", "log_start_offset", "high_watermark", "life")
    row = F.struct("sample_ts", *values, "previous_life_ts", "first_ts")
    # The carried sample has the high watermarks of the samples before it.
    known = F.coalesce("ends", F.array("high_watermark")).alias("ends")
    tail = F.sort_array(F.collect_list(F.struct("sample_ts", "life", known)))
    own = F.filter("tail", lambda each: each["life"] == F.col("row.life"))
    all_ends = F.flatten(F.transform(own, lambda each: each["ends"]))
    return (
        ends.withColumn("later_ts", later_ts)
        .withColumn("cut_ts", F.explode(F.array_compact(F.array(*at))))
        .groupBy(*_PARTITION_OF_TOPIC, "cut_ts")
        .agg(F.max_by(row, "sample_ts").alias("row"), tail.alias("tail"))
        .select(
            F.lit(cuts.END).alias("kind"),
            "cut_ts",
            *_PARTITION_OF_TOPIC,
            "row.*",
            F.reverse(F.slice(F.reverse(all_ends), 1, count)).alias("ends"),
        )
    )


def _cut_of_tail(cut: datetime) -> Column:
    """Return the cut for one of the last samples before it, null for others."""
    at, later_ts = cuts.timestamp(cut), F.col("later_ts")
    is_last = later_ts.isNull() | (later_ts >= at)
    return F.when((F.col("sample_ts") < at) & is_last, at)


def _is_at(base: datetime | None) -> Column:
    return F.lit(False) if base is None else F.col("cut_ts") == cuts.timestamp(base)


def _is_in(times: Sequence[datetime]) -> Column:
    return F.col("cut_ts").isin([cuts.timestamp(each) for each in times])


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _statuses(inputs: TableInputs) -> DataFrame:
    base = cuts.base_of(inputs)
    # Minutes are evaluated at their end.
    inputs.rewrite_from(None if base is None else base + cuts.MINUTE)
    rows = inputs.all(cuts.WINDOWS)
    return conform(rows.where(F.col("kind") == STATUS), GROUP_STATUS)


WINDOWS: Final = GoldTable(GROUP_WINDOWS, cuts.INPUTS, _windows)
GOLD: Final = GoldTable(
    GROUP_STATUS, (cuts.WINDOWS,), _statuses, rewrites=GROUP_STATUS.day_of
)
