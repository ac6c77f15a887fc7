"""Measure the conversion of a log segment to Arrow rows.

The other side is aiokafka's parser in C, whose records are collected in lists and
converted to Arrow arrays of five of the twelve columns. Both verify every checksum.
Measured is the CPU time; the sides alternate. The records have the size of offset
commits.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from aiokafka.record import MemoryRecords

from benchmarks.harness.figures import Figure, Rounds, alternate, median_ratio
from coterie.pipeline.segments.records import read_segment
from coterie.wire.compression import Codec
from coterie.wire.record_batch import LogRecord, encode_batch

SHAPES = ((500, Codec.NONE), (500, Codec.LZ4), (20, Codec.NONE), (1, Codec.NONE))
RECORDS = 100_000
BAR = 3.0


def segment(a_batch: int, codec: Codec) -> bytes:
    """Return batches of records of the size of offset commits."""
    return b"".join(
        encode_batch(
            [
                LogRecord(
                    at,
                    1_700_000_000_000 + at,
                    b"\0\1\0\x08group-%02d\0\x06orders" % (at % 90)
                    + at.to_bytes(4, "big"),
                    b"\0\3" + at.to_bytes(8, "big") + bytes(6) + at.to_bytes(8, "big"),
                )
                for at in range(first, first + a_batch)
            ],
            codec=codec,
        )
        for first in range(0, RECORDS, a_batch)
    )


def ours(path: Path) -> int:
    """Convert a segment with Coterie; return the number of rows."""
    return sum(len(chunk.rows) for chunk in read_segment(path))


def theirs(path: Path) -> int:
    """Convert a segment with aiokafka's parser; return the number of rows."""
    records: Any = MemoryRecords(path.read_bytes())
    columns: tuple[list[Any], ...] = ([], [], [], [], [])
    offsets, times, kinds, keys, values = columns
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            offsets.append(record.offset)
            times.append(record.timestamp)
            kinds.append(record.timestamp_type)
            keys.append(record.key)
            values.append(record.value)
    arrays = [
        pa.array(column, kind)
        for column, kind in zip(
            columns,
            (pa.int64(), pa.int64(), pa.int8(), pa.binary(), pa.binary()),
            strict=True,
        )
    ]
    return len(
        pa.record_batch(arrays, names=["offset", "time", "kind", "key", "value"])
    )


def seconds(work: Callable[[], int]) -> float:
    """Return the CPU time of one call, the shortest of three."""
    took = []
    for _ in range(3):
        start = time.process_time()
        assert work() == RECORDS
        took.append(time.process_time() - start)
    return min(took)


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Return the speed relative to aiokafka for each batch size and codec."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "00000000000000000000.log")
        for a_batch, codec in SHAPES:
            path.write_bytes(segment(a_batch, codec))
            pairs = alternate(
                rounds,
                partial(seconds, partial(ours, path)),
                partial(seconds, partial(theirs, path)),
            )
            us, them = pairs[-1]
            yield Figure(
                name=f"{a_batch} records a batch, {codec.name.lower()}: speed "
                "relative to aiokafka's C parser",
                value=median_ratio([(them, us) for us, them in pairs]),
                bar=BAR if a_batch == 500 else None,
                detail=f"M records a CPU second: us {RECORDS / us / 1e6:.1f} | "
                f"{RECORDS / them / 1e6:.1f}",
            )
