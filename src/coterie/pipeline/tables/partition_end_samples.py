"""Gold: Where did each partition begin and end, at some times?"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import PARTITION, TOPIC, TOPIC_ID
from coterie.pipeline.tables.table import (
    INT,
    LONG,
    TIME,
    Column,
    Layer,
    Table,
    never_null,
)

PARTITION_END_SAMPLES: Final = Table(
    "partition_end_samples",
    Layer.GOLD,
    "Where did each partition begin and end, at some times?",
    key=("topic", "partition", "sample_ts"),
    columns=(
        TOPIC,
        TOPIC_ID,
        PARTITION,
        never_null("sample_ts", TIME, "when it was looked at"),
        never_null("log_start_offset", LONG, "the first offset that is there"),
        never_null("high_watermark", LONG, "the next offset to be written"),
        Column("last_stable_offset", LONG, "where readers of committed records end"),
        Column("leader_id", INT, "the broker that leads it"),
        Column("leader_epoch", INT, "its epoch"),
        Column("partition_count", INT, "how many partitions the topic had"),
        Column("round_trip_ms", LONG, "how long the broker took to answer"),
    ),
)
