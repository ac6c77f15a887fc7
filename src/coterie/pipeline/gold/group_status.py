"""Gold table group_status: verdicts on groups and partitions, by Burrow's rules.

There is a row for each partition and one for the whole group, for each minute with a
sample of any of the group's partitions, evaluated at the end of that minute. Any past
minute can be queried, and a rebuild gives the same rows: the table has no state besides
its inputs.

`verdict` and `rule` are our own evaluation, `burrow_code` is Burrow's (`verdict.py`).
Spark sends all events of a group to one Python worker, in the order of time; the worker
keeps a window for each partition (`evaluator.py`).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.evaluator import COMMIT, OWNER, SAMPLE, Event, status_batches
from coterie.pipeline.gold.partition_events import (
    ORDER,
    PARTITION,
    events,
    of_minutes,
    with_lives,
)
from coterie.pipeline.gold.settings import BurrowRules
from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs
from coterie.pipeline.tables.gold_groups import GROUP_STATUS
from coterie.pipeline.tables.spark import spark_schema


def group_status(
    samples: DataFrame, history: DataFrame, ownership: DataFrame, rules: BurrowRules
) -> DataFrame:
    """Return the rows from partition_end_samples, offset_commit_history and
    partition_ownership_history."""
    ends = with_lives(of_minutes(samples))
    return (
        events(ends, history, ownership)
        .repartition("group_id")
        .sortWithinPartitions("group_id", *ORDER)
        .select(*_event_columns())
        .mapInArrow(partial(status_batches, rules), spark_schema(GROUP_STATUS))
    )


def _event_columns() -> list[Column]:
    kind = (
        F.when(F.col("commit").isNotNull(), COMMIT)
        .when(F.col("owner").isNotNull(), OWNER)
        .otherwise(SAMPLE)
    )
    columns = {
        **{name: F.col(name) for name in PARTITION},
        "kind": kind,
        "at_ms": F.unix_millis("at_ts"),
        "topic_id": F.coalesce("commit.topic_id", "owner.topic_id", "sample.topic_id"),
        "offset": F.col("commit.committed_offset"),
        "is_reset": F.col("commit.is_reset"),
        "member_id": F.col("owner.member_id"),
        "is_lower_bound": F.col("owner.is_lower_bound"),
        "start": F.col("sample.log_start_offset"),
        "end": F.col("sample.high_watermark"),
        "life": F.col("sample.life"),
        "previous_life_ms": F.unix_millis("sample.previous_life_ts"),
    }
    return [columns[name].alias(name) for name in Event._fields]


_INPUTS: Final = (
    "partition_end_samples",
    "offset_commit_history",
    "partition_ownership_history",
)


def _build(inputs: TableInputs) -> DataFrame:
    samples, history, ownership = map(inputs.all, _INPUTS)
    return group_status(samples, history, ownership, inputs.settings.burrow)


GOLD: Final = GoldTable(GROUP_STATUS, _INPUTS, _build)
