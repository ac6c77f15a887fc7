"""Internal table topic_names: the name of each topic ID.

Records of consumer groups identify topics by ID only (K-10a). Names come from
everything that has both: committed offsets (since Kafka 4.1), the records of type 4
that Kafka wrote before 4.1, and samples of partition ends. A topic ID never gets
another name, so only new rows are read, and names stay when their offsets expire. The
names of subscriptions are not used: a member's assignment may still have topics of its
earlier subscription.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.groups.record import PARTITION_METADATA
from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs
from coterie.pipeline.tables.gold_offsets import TOPIC_NAMES

_PAIRS: Final = ("offset_commits", "partition_end_samples")
_GROUPS: Final = "consumer_group_records"


def topic_names(consumer: DataFrame, *pairs: DataFrame) -> DataFrame:
    """Return a row for each topic ID with a known name."""
    rows = consumer.where(F.col("record_type") == PARTITION_METADATA).select(
        F.explode("topics_metadata").alias("entry")
    )
    names = rows.select("entry.topic_id", "entry.topic")
    for frame in pairs:
        names = names.unionByName(frame.select("topic_id", "topic"))
    is_known = F.col("topic_id").isNotNull() & F.col("topic").isNotNull()
    return names.where(is_known).groupBy("topic_id").agg(F.min("topic").alias("topic"))


def _build(inputs: TableInputs) -> DataFrame:
    found = topic_names(inputs.new(_GROUPS), *map(inputs.new, _PAIRS))
    return found.join(inputs.before(), "topic_id", "left_anti")


GOLD: Final = GoldTable(TOPIC_NAMES, (_GROUPS, *_PAIRS), _build, appends=True)
