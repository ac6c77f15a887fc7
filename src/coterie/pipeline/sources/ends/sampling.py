"""Samples of the ends of partitions, from the source of a run or from a file.

sample(source)                 # what a source can tell; nothing of bare segments
read_samples(Path("ends.jsonl"))
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from coterie.pipeline.sources.source import Source
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES


def sample(source: Source, after_ts: datetime | None = None) -> Any:
    """What the source knows of partitions' ends, as an Arrow table of the schema of
    PARTITION_END_SAMPLES.

    `after_ts`: samples up to then were taken before. A cluster is asked how it is now,
    and a store tells of each minute in which a partition grew. Sources that are the
    coordinator's log alone give no rows. Raises ClientError or LogError.
    """
    take = getattr(source, "sample_ends", None)
    if take is None:
        return PARTITION_END_SAMPLES.schema.empty_table()
    return take(after_ts)
