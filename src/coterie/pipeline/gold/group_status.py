"""Gold: Was the group in trouble at that time, by Burrow's rules?

A row for each partition and one for the whole group, for each minute in which the end
of any of the group's partitions was looked at, judged as of the end of that minute. So
any past minute can be asked about, and asking again gives the same answer: nothing is
kept in memory between runs.

`verdict` and `rule` are ours, `burrow_code` is what Burrow would have said
(`verdict.py`). All events of a group come to one Python worker, in the order of time
(`judging.py`, `watching.py`); what is remembered of a partition is a window.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.judging import COMMIT, OWNER, SAMPLE, Event, judged
from coterie.pipeline.gold.look import Gold, Look, spark_schema
from coterie.pipeline.gold.partition_end_samples import of_minutes, with_lives
from coterie.pipeline.gold.partition_events import ORDER, PLACE, events
from coterie.pipeline.gold.verdict import Rules
from coterie.pipeline.tables.group_status import GROUP_STATUS


def group_status(
    samples: DataFrame, history: DataFrame, ownership: DataFrame, rules: Rules
) -> DataFrame:
    """From `partition_end_samples`, `offset_commit_history` and
    `partition_ownership_history`."""
    ends = with_lives(of_minutes(samples))
    return (
        events(ends, history, ownership)
        .repartition("group_id")
        .sortWithinPartitions("group_id", *ORDER)
        .select(*_flat())
        .mapInArrow(partial(judged, rules), spark_schema(GROUP_STATUS))
    )


def _flat() -> list[Column]:
    kind = (
        F.when(F.col("commit").isNotNull(), COMMIT)
        .when(F.col("owner").isNotNull(), OWNER)
        .otherwise(SAMPLE)
    )
    columns = {
        **{name: F.col(name) for name in PLACE},
        "kind": kind,
        "at_ms": F.unix_millis("at_ts"),
        "topic_id": F.coalesce("commit.topic_id", "owner.topic_id", "sample.topic_id"),
        "offset": F.col("commit.committed_offset"),
        "is_reset": F.col("commit.is_reset"),
        "member_id": F.col("owner.member_id"),
        "start": F.col("sample.log_start_offset"),
        "end": F.col("sample.high_watermark"),
        "life": F.col("sample.life"),
        "previous_life_ms": F.unix_millis("sample.previous_life_ts"),
    }
    return [columns[name].alias(name) for name in Event._fields]


def _build(look: Look) -> DataFrame:
    return group_status(
        look.all("partition_end_samples"),
        look.all("offset_commit_history"),
        look.all("partition_ownership_history"),
        look.settings.burrow,
    )


GOLD: Final = Gold(
    GROUP_STATUS,
    (
        "partition_end_samples",
        "offset_commit_history",
        "partition_ownership_history",
    ),
    _build,
)
