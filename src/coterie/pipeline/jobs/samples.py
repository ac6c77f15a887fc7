"""Append samples of partition ends to the lake: those of the source, or of a file.

Only the samples that the lake does not have are appended. They are compared with those
of the same time only, so a run reads about as much as it brings.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.jobs.ingest import commit_rows
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.sources.partition_ends import read_samples
from coterie.pipeline.sources.source import Source
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES

_SAMPLES: Final = PARTITION_END_SAMPLES.name
_KEY: Final = list(PARTITION_END_SAMPLES.key)
_TIME: Final = "sample_ts"
_DAY: Final = timedelta(days=1)


class TakenSamples(NamedTuple):
    """The number of samples that were appended, and of those that were left out since
    their time is more than a day ahead of this computer's clock."""

    added: int
    ahead: int = 0


def take_samples(lake: Lake, source: Source, file: Path | None) -> TakenSamples:
    """Append the samples in a file, or of the source.

    Raises SettingError, LogError or ClientError.
    """
    if file is None:
        sample_ends = getattr(source, "sample_ends", None)
        if sample_ends is None:  # it has only the coordinator's log
            return TakenSamples(0)
        return TakenSamples(add_samples(lake, sample_ends(lake.version.as_of_ts)))
    added = ahead = 0
    latest = pa.scalar(datetime.now(UTC) + _DAY, pa.timestamp("us", "UTC"))
    for block in read_samples(file):
        kept = block.filter(pc.less_equal(block[_TIME], latest))
        ahead += len(block) - len(kept)
        # Each block is committed, so that the next one is compared with it.
        added += add_samples(lake, kept)
    return TakenSamples(added, ahead)


def add_samples(lake: Lake, samples: Any) -> int:
    """Append samples of partition ends, an Arrow table, and commit.

    Returns the number of samples that the lake did not have.
    """
    rows = _new_rows(lake, samples)
    if not len(rows):
        return 0
    step = lake.next_step()
    writer = TableWriter(lake.storage, PARTITION_END_SAMPLES, step)
    writer.add(rows)
    commit_rows(lake, {_SAMPLES: writer.close()}, step)
    return len(rows)


def _new_rows(lake: Lake, samples: Any) -> Any:
    """Return the rows whose key the lake does not have; the first one of each key."""
    if not len(samples):
        return samples
    oldest, newest = pc.min_max(samples[_TIME]).values()
    at = pc.field(_TIME)
    known = lake.read(_SAMPLES, _KEY, (at >= oldest) & (at <= newest))
    numbered = samples.select(_KEY).append_column(
        "#", pa.array(np.arange(len(samples)))
    )
    first = numbered.group_by(_KEY).aggregate([("#", "min")])
    new = first.join(known, _KEY, join_type="left anti")
    return samples.take(new["#_min"].combine_chunks().sort())
