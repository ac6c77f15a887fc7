"""Samples from a file of JSON lines, as the generator's truth/ends.jsonl:

    {"topic": "t", "topic_id": "6f..", "partition": 0, "at_ms": 1700000000000,
     "log_start_offset": 0, "end_offset": 42}

`topic_id` (32 hex digits) may be null or left out; so may `last_stable_offset`,
`leader_id`, `leader_epoch` and `partition_count`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from coterie.errors import SettingError
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES

_INT32_MAX: Final = 2**31 - 1
_TIME_MS_MAX: Final = 253_402_300_800_000
"""The year 10,000: what comes after is no time of a sample."""


class _Line(msgspec.Struct):
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
        """Raise ValueError for what cannot be."""
        if not 0 <= self.partition <= _INT32_MAX:
            raise ValueError(f"there is no partition {self.partition}")
        if not 0 <= self.at_ms < _TIME_MS_MAX:
            raise ValueError(f"at_ms {self.at_ms} is no time in ms since 1970")
        if not 0 <= self.log_start_offset <= self.end_offset:
            raise ValueError(
                f"a log from {self.log_start_offset} to {self.end_offset} cannot be"
            )


def read_samples(file: Path) -> Any:
    """The samples of a file. Raises SettingError, which names the line."""
    lines = []
    try:
        with file.open("rb") as opened:
            for number, text in enumerate(opened, 1):
                if text.strip():
                    lines.append(_read(text, f"{file} line {number}"))
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error
    return _table(lines)


def _read(text: bytes, where: str) -> _Line:
    try:
        line = msgspec.json.decode(text, type=_Line)
        line.check()
    except (msgspec.MsgspecError, ValueError) as error:
        raise SettingError(f"{where} is no sample of a partition: {error}") from error
    return line


def _table(lines: list[_Line]) -> Any:
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
