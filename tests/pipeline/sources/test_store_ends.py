"""Tests for samples of partitions' ends from a store's batches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.sources.partition_ends import (
    LastSamples,
    sample_partition_ends,
)
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES
from coterie.types import TopicPartition
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.pipeline.sources.log_files import FILES, open_files

BY_NAME = 12
MINUTE = 60_000
BASE_MS = 1_700_000_040_000
"""The beginning of a minute."""


@pytest.fixture(params=FILES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ThreadServer]:
    log = open_files(tmp_path / "data", request.param)
    with ThreadServer(log=log) as server:
        with SyncAdmin("{}:{}".format(*server.addresses[0]), OPTIONS) as admin:
            admin.topics.create([NewTopic("t", 2, 1)]).all()
        yield server


def produce(server: ThreadServer, *times_ms: int, partition: int = 0) -> None:
    with server.client() as client:
        for each in times_ms:
            batch = batch_of(b"a", b"b", timestamp_ms=BASE_MS + each)
            batches = [*[None] * partition, batch]
            answer = client.call(produce_request(*batches, topic="t"), BY_NAME)
            assert answer.responses[0].partition_responses[0].error_code == 0


def samples(
    folder: Path, before: list[dict[str, Any]] | None = None, at_ms: int | None = None
) -> list[dict[str, Any]]:
    """Return the samples of a store after those that were taken before."""
    table = pa.Table.from_pylist(before or [], schema=PARTITION_END_SAMPLES.schema)
    source = open_source(f"store:{folder / 'data'}")
    at = None if at_ms is None else datetime.fromtimestamp((BASE_MS + at_ms) / 1e3, UTC)
    found = sample_partition_ends(source, LastSamples.of_table(table), at)
    assert found.schema == PARTITION_END_SAMPLES.schema
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def ends(rows: list[dict[str, Any]], partition: int = 0) -> list[tuple[int, int]]:
    """Return the times, in ms since the first minute, and the end offsets."""
    return [
        (
            round(each["sample_ts"].timestamp() * 1_000) - BASE_MS,
            each["high_watermark"],
        )
        for each in rows
        if each["partition"] == partition
    ]


def test_each_minute_with_batches_has_a_sample(
    tmp_path: Path, server: ThreadServer
) -> None:
    produce(server, 0, 59_999, 5 * MINUTE, 6 * MINUTE + 1)
    rows = samples(tmp_path)
    assert ends(rows) == [(59_999, 4), (5 * MINUTE, 6), (6 * MINUTE + 1, 8)]
    assert {each["topic"] for each in rows} == {"t"}
    first = rows[0]
    assert (first["partition"], first["partition_count"]) == (0, 2)
    assert (first["log_start_offset"], len(first["topic_id"])) == (0, 32)


def test_idle_partitions_have_a_sample_at_the_newest_time(
    tmp_path: Path, server: ThreadServer
) -> None:
    # A commit after the last batch has no effect on lag before the next sample.
    produce(server, 0)
    first = samples(tmp_path)
    assert (ends(first), ends(first, 1)) == ([(0, 2)], [(0, 0)])
    later = samples(tmp_path, first, at_ms=7 * MINUTE)
    assert (ends(later), ends(later, 1)) == ([(7 * MINUTE, 2)], [(7 * MINUTE, 0)])
    assert samples(tmp_path, first + later, at_ms=7 * MINUTE) == []
    assert ends(samples(tmp_path, at_ms=7 * MINUTE)) == [(0, 2), (7 * MINUTE, 2)]


def test_earlier_samples_are_left_out(tmp_path: Path, server: ThreadServer) -> None:
    produce(server, 0, 30_000)
    before = samples(tmp_path)
    assert samples(tmp_path, before) == []
    produce(server, 30_001)
    assert ends(samples(tmp_path, before)) == [(30_001, 6)]


def test_batches_with_timestamps_before_the_last_sample_are_not_missed(
    tmp_path: Path, server: ThreadServer
) -> None:
    produce(server, 5 * MINUTE)
    before = samples(tmp_path)
    produce(server, MINUTE, 5 * MINUTE, partition=1)
    produce(server, 2 * MINUTE)
    rows = samples(tmp_path, before)
    assert ends(rows) == ends(rows, 1) == [(5 * MINUTE + 1, 4)]
    produce(server, MINUTE, 6 * MINUTE, 3 * MINUTE)
    assert ends(samples(tmp_path, before + rows)) == [(6 * MINUTE, 10)]


def test_times_and_end_offsets_do_not_decrease_when_producer_clocks_differ(
    tmp_path: Path, server: ThreadServer
) -> None:
    produce(server, MINUTE, 5 * MINUTE, 0, 6 * MINUTE)
    assert ends(samples(tmp_path)) == [(MINUTE, 2), (5 * MINUTE, 6), (6 * MINUTE, 8)]


def test_timestamps_in_the_future_are_no_times_of_samples(
    tmp_path: Path, server: ThreadServer
) -> None:
    soon = datetime.now(UTC).timestamp() * 1_000 + 30 * MINUTE
    produce(server, int(soon) - BASE_MS)
    assert samples(tmp_path) == []
    assert ends(samples(tmp_path, at_ms=MINUTE)) == [(MINUTE, 2)]


def test_deleted_records_have_a_sample_with_the_log_start_offset(
    tmp_path: Path, server: ThreadServer
) -> None:
    produce(server, 0, 1, 2)
    before = samples(tmp_path)
    with SyncAdmin("{}:{}".format(*server.addresses[0]), OPTIONS) as admin:
        admin.logs.delete_records({TopicPartition("t", 0): -1}).all()
    now = samples(tmp_path, before)[0]
    assert (now["log_start_offset"], now["high_watermark"]) == (6, 6)
    assert now["sample_ts"] - before[0]["sample_ts"] == timedelta(milliseconds=1)
    assert samples(tmp_path, [now, *samples(tmp_path, before)]) == []


def test_a_topic_that_is_created_again_has_samples_after_its_former_ones(
    tmp_path: Path, server: ThreadServer
) -> None:
    produce(server, 5 * MINUTE)
    before = samples(tmp_path)
    with SyncAdmin("{}:{}".format(*server.addresses[0]), OPTIONS) as admin:
        admin.topics.delete(["t"]).all()
        admin.topics.create([NewTopic("t", 1, 1)]).all()
    produce(server, MINUTE)
    [row] = samples(tmp_path, before)
    assert row["topic_id"] != before[0]["topic_id"]
    assert ends([row]) == [(5 * MINUTE + 1, 2)]


def test_a_store_without_topics_has_no_samples(
    tmp_path: Path, server: ThreadServer
) -> None:
    with SyncAdmin("{}:{}".format(*server.addresses[0]), OPTIONS) as admin:
        admin.topics.delete(["t"]).all()
    assert samples(tmp_path, at_ms=MINUTE) == []
