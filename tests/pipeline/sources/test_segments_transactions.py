"""Committed offsets of transactions (K-08, H-90).

The outcomes of the source result in the offsets of a coordinator that loads the same
log, and in those of a generated log's truth.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.broker.coordinator.result import Record
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.segments import open_segments
from coterie.testing.log_generator.generate import (
    GeneratorOptions,
    generate,
    write_compacted,
)
from coterie.wire.record_batch import TRANSACTIONAL, LogRecord, Producer, encode_batch
from tests.pipeline.sources.logs import marker, write
from tests.testing.log_generator.generated_log import (
    partition_folders,
    read_truth,
    replay_partition,
)

Offsets = dict[tuple[str, str, int], tuple[int, int]]
"""The committed offset and its place in the log, by group, topic and partition."""


def commit(at: int, partition: int, offset: int, producer: int = -1) -> bytes:
    key = OffsetCommitKey(group="g", topic="t", partition=partition)
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1_000)
    content = encode_record(Record(key, value, 3))
    return encode_batch(
        [LogRecord(at, 1_000, *content)],
        producer=Producer(producer, 0, 0) if producer >= 0 else Producer(),
        attributes=TRANSACTIONAL if producer >= 0 else 0,
    )


def deletion(at: int, partition: int) -> bytes:
    key = OffsetCommitKey(group="g", topic="t", partition=partition)
    return encode_batch([LogRecord(at, 1_000, *encode_record(Record(key, None)))])


def offsets_of(folder: Path, max_records: int | None = None) -> Offsets:
    """Return the last committed offset of each key, by the outcomes of the source."""
    source, found = open_segments(str(folder)), Offsets()
    positions: dict[int, int] = {}
    while parts := plan(source.heads(positions), positions, max_records=max_records):
        for part in parts:
            for rows in source.read(part):
                _apply(found, decode(rows.records))
            positions[part.log_partition] = part.until_offset
    return found


def _apply(found: Offsets, tables: dict[str, object]) -> None:
    rows = []
    for name in ("offset_commits", "tombstones"):
        rows += tables[name].to_pylist()  # type: ignore[attr-defined]
    for row in sorted(rows, key=lambda row: row["log_offset"]):
        key = row["group_id"], row["topic"], row["partition"]
        found.pop(key, None)
        if "committed_offset" in row:
            found[key] = row["committed_offset"], row["log_offset"]


def coordinators(folder: Path) -> Offsets:
    """Return the offsets of a coordinator that loads the log."""
    return {
        (group_id, name.topic, name.partition): (each.offset, each.record_offset)
        for shard in map(replay_partition, partition_folders(folder))
        for group_id in (*shard.state.classic_groups, *shard.state.consumer_groups)
        for name, each in shard.state.offsets.stored.items(group_id)
    }


@pytest.mark.fact("K-08")
@pytest.mark.parametrize("max_records", [None, 1])
def test_a_transactional_commit_is_applied_by_its_producers_commit_marker(
    tmp_path: Path, max_records: int | None
) -> None:
    log = [
        commit(0, 0, 10),
        commit(1, 0, 11, producer=7),
        commit(2, 1, 21, producer=8),
        commit(3, 2, 31, producer=7),
        commit(4, 2, 32),  # a regular commit after the pending one
        commit(5, 3, 41, producer=9),
        commit(6, 4, 51, producer=7),
        deletion(7, 4),  # also removes the pending offset
        marker(8, 7, commit=True),
        marker(9, 8, commit=False),
        marker(10, 9, commit=True),
        commit(11, 3, 42, producer=9),
        marker(12, 9, commit=False),
        commit(13, 5, 61, producer=7),
    ]
    folder = write(tmp_path, {0: log})
    found = offsets_of(folder, max_records)
    assert found == {
        ("g", "t", 0): (11, 1),
        ("g", "t", 2): (32, 4),
        ("g", "t", 3): (41, 5),
    }
    assert found == coordinators(folder)
    write(tmp_path, {0: [*log, marker(14, 8, commit=True)]})
    assert offsets_of(folder, max_records) == found, "a marker of another producer"
    write(tmp_path, {0: [*log, marker(14, 7, commit=True)]})
    found = offsets_of(folder, max_records)
    assert found["g", "t", 5] == (61, 13)
    assert found == coordinators(folder)


@pytest.mark.slow
@pytest.mark.parametrize("max_records", [None, 300])
def test_offsets_of_a_generated_log_are_those_of_the_coordinator_and_the_truth(
    tmp_path: Path, max_records: int | None
) -> None:
    folder = tmp_path / "log"
    order = GeneratorOptions(
        folder=folder, groups=20, commits=2_000, days=12, partitions=3
    )
    write_compacted(generate(order), folder / "compacted")
    true = {
        (each["group_id"], each["topic"], each["partition"]): (
            each["offset"],
            each["log_offset"],
        )
        for each in read_truth(folder, "current_offsets")
    }
    outcomes = {each["outcome"] for each in read_truth(folder, "commits")}
    assert outcomes >= {"plain", "committed", "aborted"}
    assert offsets_of(folder, max_records) == true == coordinators(folder)
    assert offsets_of(folder / "compacted", max_records) == true
