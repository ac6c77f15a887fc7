"""Samples of the start and end offsets of topic partitions: lag is measured against
them, as the coordinator's log has committed offsets only. Topic names of topic ids come
from samples, too.

A source that can sample has a method `sample_ends`. For a cluster it returns the
current ends; for Coterie's store, the ends at each minute, from the store's batches.
Samples can also be read from a file of JSON lines, like `truth/ends.jsonl` of a
generated log:

    {"topic": "t", "topic_id": "6f..", "partition": 0, "at_ms": 1700000000000,
     "log_start_offset": 0, "end_offset": 42}

`topic_id` (32 hex digits) may be null or left out; so may `last_stable_offset`,
`leader_id`, `leader_epoch` and `partition_count`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from coterie.errors import SettingError
from coterie.pipeline.sources.source import Source
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES

_INT32_MAX: Final = 2**31 - 1
_TIME_MS_MAX: Final = 253_402_300_800_000
"""The year 10,000: Python and Spark have no later times."""


def sample_partition_ends(source: Source, after_ts: datetime | None = None) -> Any:
    """Return samples of the partitions' ends, as rows of `partition_end_samples`; no
    rows for sources that have only the coordinator's log.

    `after_ts` is the time of the latest existing sample. Raises ClientError or
    LogError.
    """
    sample_ends = getattr(source, "sample_ends", None)
    if sample_ends is None:
        return PARTITION_END_SAMPLES.schema.empty_table()
    return sample_ends(after_ts)


class _SampleLine(msgspec.Struct):
    topic: str
    partition: int
    at_ms: int
    log_start_offset: int
    end_offset: int
    topic_id: str | None = None
    last_stable_offset: int | None = None
    leader_id: int | None = None
    leader_epoch: int | None = None
    partition_count: int | None = None

    def check(self) -> None:
        if not 0 <= self.partition <= _INT32_MAX:
            raise ValueError(f"{self.partition} is no partition number")
        if not 0 <= self.at_ms < _TIME_MS_MAX:
            raise ValueError(f"at_ms {self.at_ms} is no time in ms since 1970")
        if not 0 <= self.log_start_offset <= self.end_offset:
            raise ValueError(
                f"impossible offsets: a log from {self.log_start_offset} to"
                f" {self.end_offset}"
            )


def check_samples(file: Path) -> None:
    """Check that a file of samples can be read. Raises SettingError."""
    try:
        file.open("rb").close()
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> SettingError:
    return SettingError(f"{file} cannot be read: {error.strerror}")


def read_samples(file: Path) -> Any:
    """Parse the samples in a file; return rows of `partition_end_samples`.

    Raises SettingError with the number of the invalid line.
    """
    lines: list[_SampleLine] = []
    number = 0
    try:
        with file.open("rb") as opened:
            for text in opened:
                number += 1
                if not text.strip():
                    continue
                line = msgspec.json.decode(text, type=_SampleLine)
                line.check()
                lines.append(line)
    except OSError as error:
        raise _unreadable(file, error) from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise SettingError(
            f"{file} line {number} is no sample of a partition: {error}"
        ) from error
    columns = {
        "topic": [each.topic for each in lines],
        "topic_id": [each.topic_id for each in lines],
        "partition": [each.partition for each in lines],
        "sample_ts": [each.at_ms * 1_000 for each in lines],
        "log_start_offset": [each.log_start_offset for each in lines],
        "high_watermark": [each.end_offset for each in lines],
        "last_stable_offset": [each.last_stable_offset for each in lines],
        "leader_id": [each.leader_id for each in lines],
        "leader_epoch": [each.leader_epoch for each in lines],
        "partition_count": [each.partition_count for each in lines],
        "round_trip_ms": [None] * len(lines),
    }
    return pa.table(columns, schema=PARTITION_END_SAMPLES.schema)
