"""Samples of the start and end offsets of topic partitions, in a file of JSON lines
like `truth/ends.jsonl` of a generated log:

    {"topic": "t", "topic_id": "6f..", "partition": 0, "at_ms": 1700000000000,
     "log_start_offset": 0, "end_offset": 42}

`topic_id` (32 hex digits) may be null or left out; so may `last_stable_offset`,
`leader_id`, `leader_epoch` and `partition_count`.

Lag is measured against samples, as the coordinator's log has committed offsets only.
Topic names of topic ids come from samples, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa

from coterie.errors import SettingError
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES
from coterie.pipeline.tables.table import TIME_MS_MAX

_BLOCK_LINES: Final = 100_000


_Int32 = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_StableOffset = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class _SampleLine(msgspec.Struct):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)]
    log_start_offset: _Int64
    end_offset: _Int64
    topic_id: str | None = None
    last_stable_offset: _StableOffset | None = None
    leader_id: _Int32 | None = None
    leader_epoch: _Int32 | None = None
    partition_count: _Int32 | None = None

    def __post_init__(self) -> None:
        if self.log_start_offset > self.end_offset:
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


def read_samples(file: Path, block_lines: int = _BLOCK_LINES) -> Iterator[Any]:
    """Parse the samples in a file; yield rows of `partition_end_samples`, block by
    block, in order.

    Raises SettingError with the number of the invalid line.
    """
    try:
        with file.open("rb") as opened:
            lines = enumerate(opened, 1)
            while block := list(islice(lines, block_lines)):
                samples = [
                    _parse(file, number, text) for number, text in block if text.strip()
                ]
                if samples:
                    yield _rows_of(samples)
    except OSError as error:
        raise _unreadable(file, error) from error


def _parse(file: Path, number: int, text: bytes) -> _SampleLine:
    try:
        return msgspec.json.decode(text, type=_SampleLine)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingError(
            f"{file} line {number} is no sample of a partition: {error}"
        ) from error


def _rows_of(samples: Sequence[_SampleLine]) -> Any:
    columns: dict[str, list[Any]] = {
        name: [getattr(each, name) for each in samples]
        for name in _SampleLine.__struct_fields__
    }
    columns["sample_ts"] = [at_ms * 1_000 for at_ms in columns["at_ms"]]
    columns["high_watermark"] = columns["end_offset"]
    columns["round_trip_ms"] = [None] * len(samples)
    schema = PARTITION_END_SAMPLES.schema
    arrays = [pa.array(columns[each.name], each.type) for each in schema]
    return pa.table(arrays, schema=schema)
