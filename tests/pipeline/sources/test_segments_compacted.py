"""Tests for a compacted log: removed records are gaps (K-02)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from coterie.pipeline.codec.decode import decode
from coterie.pipeline.sources.segments import open_segments
from coterie.pipeline.tables.ingested import RECORDS
from coterie.testing.log_generator.generate import (
    GeneratorOptions,
    generate,
    write_compacted,
)
from tests.pipeline.sources.logs import Read, read_all

Place = tuple[int, int]


def places(rows: list[dict[str, int]]) -> set[Place]:
    return {(each["log_partition"], each["log_offset"]) for each in rows}


def deletions(read: Read) -> set[Place]:
    batch = pa.RecordBatch.from_pylist(read.records, RECORDS.schema)
    return places(decode(batch)["tombstones"].to_pylist())


@pytest.mark.fact("K-02")
@pytest.mark.slow
def test_each_record_that_compaction_removed_is_in_a_gap(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "log"
    order = GeneratorOptions(
        folder=folder, groups=20, commits=1_500, days=12, partitions=2
    )
    write_compacted(generate(order), folder / "compacted")
    full, left = (
        read_all(open_segments(str(each))) for each in (folder, folder / "compacted")
    )
    assert full.gaps == []
    assert deletions(full) > deletions(left), "a null value is a deletion, and goes"
    gone = {
        (each["log_partition"], offset)
        for each in left.gaps
        for offset in range(each["from_offset"], each["until_offset"])
    }
    assert gone == places(full.records) - places(left.records)
    assert not left.faults
