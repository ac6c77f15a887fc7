"""Tests for samples of partitions' ends from a store's batches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.sources.partition_ends import sample_partition_ends
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
            admin.create_topics([NewTopic("t", 2, 1)]).all()
        yield server


def produce(server: ThreadServer, *times_ms: int) -> None:
    with server.client() as client:
        for each in times_ms:
            batch = batch_of(b"a", b"b", timestamp_ms=BASE_MS + each)
            answer = client.call(produce_request(batch, topic="t"), BY_NAME)
            assert answer.responses[0].partition_responses[0].error_code == 0


def samples(folder: Path, after_ts: datetime | None = None) -> list[dict[str, Any]]:
    table = sample_partition_ends(open_source(f"store:{folder / 'data'}"), after_ts)
    assert table.schema == PARTITION_END_SAMPLES.schema
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def ends(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return the times, in ms since the first minute, and the end offsets."""
    return [
        (
            round(each["sample_ts"].timestamp() * 1_000) - BASE_MS,
            each["high_watermark"],
        )
        for each in rows
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


def test_earlier_samples_are_left_out(tmp_path: Path, server: ThreadServer) -> None:
    produce(server, 0, 30_000)
    last = samples(tmp_path)[-1]["sample_ts"]
    assert samples(tmp_path, last) == []
    produce(server, 30_001)
    assert ends(samples(tmp_path, last)) == [(30_001, 6)]


def test_end_offsets_do_not_decrease_when_producer_clocks_differ(
    tmp_path: Path, server: ThreadServer
) -> None:
    produce(server, 5 * MINUTE, MINUTE)
    assert ends(samples(tmp_path)) == [(MINUTE, 4), (5 * MINUTE, 4)]


def test_batches_with_future_timestamps_have_no_samples(
    tmp_path: Path, server: ThreadServer
) -> None:
    soon = datetime.now(UTC).timestamp() * 1_000 + 30 * MINUTE
    produce(server, int(soon) - BASE_MS)
    assert samples(tmp_path) == []


def test_deleted_records_have_a_sample_with_the_log_start_offset(
    tmp_path: Path, server: ThreadServer
) -> None:
    produce(server, 0, 1, 2)
    with SyncAdmin("{}:{}".format(*server.addresses[0]), OPTIONS) as admin:
        admin.delete_records({TopicPartition("t", 0): -1}).all()
    [now] = samples(tmp_path)
    assert (now["log_start_offset"], now["high_watermark"]) == (6, 6)
    assert now["sample_ts"] > datetime(2025, 1, 1, tzinfo=UTC)
