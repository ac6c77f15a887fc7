"""Tests for samples of partitions' ends as a table of Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.errors import SettingError
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.pipeline.sources.log_files import FILES, open_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FORMAT = "kafka_partition_ends"
BY_NAME = 12


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer() as server:
        with SyncAdmin(address(server), OPTIONS) as admin:
            admin.topics.create([NewTopic("t", 2, 1)]).all()
        yield server


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    from coterie.pipeline.sources.data_source import register

    register(spark)
    return spark


def address(server: ThreadServer) -> str:
    return "{}:{}".format(*server.addresses[0])


def produce(server: ThreadServer) -> None:
    with server.client() as client:
        client.call(produce_request(batch_of(b"a", b"b"), topic="t"), BY_NAME)


def test_a_batch_read_samples_each_partition_once(
    session: SparkSession, server: ThreadServer
) -> None:
    produce(server)
    reader = session.read.format(FORMAT).option("source.client.id", "me")
    frame = reader.load(f"kafka:{address(server)}")
    assert frame.schema.names == PARTITION_END_SAMPLES.schema.names
    rows = {row.partition: row for row in frame.collect()}
    assert {each: row.high_watermark for each, row in rows.items()} == {0: 2, 1: 0}
    assert rows[0].sample_ts is not None


def stream_of(server: ThreadServer, **options: str) -> DataSourceStreamReader:
    """Return the reader of a stream as a worker gets it: unpickled."""
    from coterie.pipeline.sources.data_source import PartitionEnds

    named = {"source": f"kafka:{address(server)}", **options}
    source = PartitionEnds(named)
    reader: DataSourceStreamReader = source.streamReader(source.schema())
    return pickle.loads(pickle.dumps(reader))


def read_micro_batch(
    reader: DataSourceStreamReader, start: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read a micro-batch; return its end offset and its rows."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    end = reader.latestOffset(start, ReadAllAvailable())
    batches: list[Any] = []
    if end != start:  # Spark plans no empty micro-batch
        for part in reader.partitions(start, end):
            batches += reader.read(part)
    return end, [row for batch in batches for row in batch.to_pylist()]


def test_a_stream_takes_new_samples_without_duplicates(server: ThreadServer) -> None:
    reader = stream_of(server, intervalSeconds="0")
    first, rows = read_micro_batch(reader, reader.initialOffset())
    assert [row["high_watermark"] for row in rows] == [0, 0]
    produce(server)
    _, again = read_micro_batch(reader, json.loads(json.dumps(first)))
    assert [row["high_watermark"] for row in again] == [2, 0]
    assert again[0]["sample_ts"] > rows[0]["sample_ts"]


def test_a_stream_waits_for_its_interval(server: ThreadServer) -> None:
    reader = stream_of(server, intervalSeconds="3600")
    first, rows = read_micro_batch(reader, reader.initialOffset())
    assert rows
    assert read_micro_batch(reader, first) == (first, [])


def test_a_stream_of_a_store_has_a_sample_of_each_partition_at_each_time(
    tmp_path: Path,
) -> None:
    log = open_files(tmp_path / "data", FILES[0])
    with ThreadServer(log=log) as server:
        with SyncAdmin(address(server), OPTIONS) as admin:
            admin.topics.create([NewTopic("t", 2, 1)]).all()
        named = {"source": f"store:{tmp_path / 'data'}"}
        reader = stream_of(server, intervalSeconds="0", **named)
        first, rows = read_micro_batch(reader, reader.initialOffset())
        assert [row["high_watermark"] for row in rows] == [0, 0]
        produce(server)  # its timestamp is before the first micro-batch
        second, rows = read_micro_batch(reader, first)
        assert [row["high_watermark"] for row in rows] == [2, 0]
        _, rows = read_micro_batch(reader, second)
        assert [row["high_watermark"] for row in rows] == [2, 0]


def test_a_micro_batch_of_a_store_ends_at_its_time(tmp_path: Path) -> None:
    log = open_files(tmp_path / "data", FILES[0])
    with ThreadServer(log=log) as server:
        with SyncAdmin(address(server), OPTIONS) as admin:
            admin.topics.create([NewTopic("t", 1, 1)]).all()
        with server.client() as client:
            for each in (1_000, 9_000):
                batch = batch_of(b"a", timestamp_ms=each)
                client.call(produce_request(batch, topic="t"), BY_NAME)
        reader = stream_of(server, source=f"store:{tmp_path / 'data'}")
        start = reader.initialOffset()
        for until_us, expected in ((5_000_000, [1, 5]), (20_000_000, [9, 20])):
            end = {"v": 1, "us": until_us}
            batches: list[Any] = []
            for part in reader.partitions(start, end):
                batches += reader.read(part)
            rows = [row for batch in batches for row in batch.to_pylist()]
            assert [row["sample_ts"].timestamp() for row in rows] == expected
            start = end


def test_a_checkpoint_of_a_newer_version_is_refused(server: ThreadServer) -> None:
    with pytest.raises(SettingError, match="version 2"):
        read_micro_batch(stream_of(server), {"v": 2, "us": 0})


def test_samples_are_read_from_a_file(session: SparkSession, tmp_path: Path) -> None:
    sample = {"topic": "t", "partition": 1, "at_ms": 1_700_000_000_000}
    line = {**sample, "log_start_offset": 3, "end_offset": 42}
    (tmp_path / "ends.jsonl").write_text(json.dumps(line))
    reader = session.read.format(FORMAT)
    [row] = reader.option("samples", str(tmp_path / "ends.jsonl")).load().collect()
    assert (row.topic, row.partition, row.high_watermark) == ("t", 1, 42)


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_an_invalid_interval_is_refused(text: str) -> None:
    from coterie.pipeline.sources.data_source import _interval_s

    with pytest.raises(SettingError, match="intervalSeconds"):
        _interval_s({"intervalSeconds": text})
