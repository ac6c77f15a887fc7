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

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, open_json

from coterie.errors import SettingError
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES
from coterie.pipeline.tables.table import TIME_MS_MAX

_BLOCK_BYTES: Final = 32 * 1024 * 1024
"""The size of a block of a file of samples; about 200,000 lines."""
_INT32_MAX: Final = 2**31 - 1


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
        """Raise ValueError if a value is impossible."""
        if not 0 <= self.partition <= _INT32_MAX:
            raise ValueError(f"{self.partition} is no partition number")
        if not 0 <= self.at_ms <= TIME_MS_MAX:
            raise ValueError(f"at_ms {self.at_ms} is no time in ms since 1970")
        if not 0 <= self.log_start_offset <= self.end_offset:
            raise ValueError(
                f"impossible offsets: a log from {self.log_start_offset} to"
                f" {self.end_offset}"
            )


_TEXTS: Final = ("topic", "topic_id")
_LINES: Final = pa.schema(
    [
        (name, pa.string() if name in _TEXTS else pa.int64())
        for name in _SampleLine.__struct_fields__
    ]
)
"""The columns of a block of lines."""


def check_samples(file: Path) -> None:
    """Check that a file of samples can be read. Raises SettingError."""
    try:
        file.open("rb").close()
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> SettingError:
    return SettingError(f"{file} cannot be read: {error.strerror}")


def read_samples(file: Path, block_bytes: int = _BLOCK_BYTES) -> Iterator[Any]:
    """Parse the samples in a file; yield rows of `partition_end_samples`, block by
    block, in order.

    Raises SettingError with the number of the invalid line.
    """
    options = {
        "read_options": ReadOptions(block_size=block_bytes),
        "parse_options": ParseOptions(
            explicit_schema=_LINES, unexpected_field_behavior="ignore"
        ),
    }
    try:
        with open_json(file, **options) as reader:
            for batch in reader:
                yield _rows_of(pa.Table.from_batches([batch]))
    except OSError as error:
        raise _unreadable(file, error) from error
    except pa.ArrowInvalid as error:
        if _check_lines(file):
            raise SettingError(f"{file} cannot be read: {error}") from error


def _rows_of(lines: Any) -> Any:
    """Return lines as rows of `partition_end_samples`. Raises ArrowInvalid."""
    at_ms, start, end = (
        lines[name] for name in ("at_ms", "log_start_offset", "end_offset")
    )
    in_order = pc.and_(pc.less_equal(0, start), pc.less_equal(start, end))
    is_time = pc.and_(pc.less_equal(0, at_ms), pc.less_equal(at_ms, TIME_MS_MAX))
    is_partition = pc.less_equal(0, lines["partition"])
    is_valid = pc.and_(pc.and_(in_order, is_time), is_partition)
    if lines["topic"].null_count or not pc.all(is_valid, skip_nulls=False).as_py():
        raise pa.ArrowInvalid("impossible values")
    columns = {name: lines[name] for name in lines.schema.names}
    columns["sample_ts"] = pc.multiply(at_ms, 1_000).cast(pa.timestamp("us", "UTC"))
    columns["high_watermark"] = end
    columns["round_trip_ms"] = pa.nulls(len(lines), pa.int64())
    schema = PARTITION_END_SAMPLES.schema
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _check_lines(file: Path) -> bool:
    """Return whether a file has lines. Raises SettingError for the first invalid one,
    which the reader of blocks does not name.
    """
    has_lines = False
    with file.open("rb") as opened:
        for number, text in enumerate(opened, 1):
            if text.strip():
                has_lines = True
                try:
                    msgspec.json.decode(text, type=_SampleLine).check()
                except (msgspec.MsgspecError, ValueError) as error:
                    raise SettingError(
                        f"{file} line {number} is no sample of a partition: {error}"
                    ) from error
    return has_lines
