"""The records of one operation of the coordinator are one batch."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from coterie.broker.log.log import LogPartition
from coterie.pipeline.segments.records import read_segment
from tests.broker.runtime.world import TOPIC_ID, World, commit_request, consumer_join


@pytest.mark.fact("K-04")
def test_the_records_of_an_operation_are_one_batch_with_one_timestamp(
    tmp_path: Path,
) -> None:
    world = World(shard_count=1)
    log = LogPartition(TOPIC_ID, 0)
    writes = world.writes
    for request, version in (
        (consumer_join("m"), 1),
        (consumer_join("n"), 1),
        (commit_request("simple", 7), 8),
    ):
        world.submit(request, "g", version)
    world.loop.settle()
    assert world.writes == writes + 1  # all operations are in one flush
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(b"".join(world.log.read(log, 0, 1 << 20)))
    rows = [
        (row["base_offset"], row["timestamp_ms"], int.from_bytes(row["key"][:2], "big"))
        for chunk in read_segment(file)
        for row in chunk.rows.to_pylist()
    ]
    operations = [list(each) for _, each in groupby(rows, key=lambda row: row[0])]
    assert [{kind for _, _, kind in each} for each in operations] == [
        {3, 5, 6, 7, 8},
        {3, 5, 8},  # the target assignment is delayed
        {1},
    ]
    for each in operations:
        assert len({time_ms for _, time_ms, _ in each}) == 1
