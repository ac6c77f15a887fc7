"""Tests for reading the log of a server by the Kafka protocol."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.errors import ClientError, SettingError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.sources.cluster import ClusterSource
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import OffsetRange, Rows, Source, open_source
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.pipeline.sources.transactions import Transaction

T0 = TopicPartition("t", 0)
PARTITIONS = 3


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(offsets_topic_num_partitions=PARTITIONS) as server:
        with SyncAdmin(address(server), OPTIONS) as admin:
            admin.topics.create([NewTopic("t", 1, 1)]).all()
        yield server


def address(server: ThreadServer) -> str:
    return "{}:{}".format(*server.addresses[0])


def commit(server: ThreadServer, *offsets: int, group: str = "g") -> None:
    with SyncAdmin(address(server), OPTIONS) as admin:
        for offset in offsets:
            admin.group_offsets.alter(group, {T0: CommittedOffset(offset)}).all()


def source_of(server: ThreadServer) -> Source:
    """Return the source as a worker gets it: unpickled."""
    source = open_source(f"kafka:{address(server)}")
    return pickle.loads(pickle.dumps(source))


def read_all(source: Source, positions: Mapping[int, int] | None = None) -> list[Rows]:
    ranges = plan(source.heads(), positions or {})
    return [rows for each in ranges for rows in source.read(each)]


def committed(rows: list[Rows]) -> list[int]:
    """Return the committed offsets, without those of aborted transactions."""
    found: list[int] = []
    for each in rows:
        table = decode(each.records)["offset_commits"]
        found += table["committed_offset"].to_pylist()
    return found


def test_commits_are_read_as_they_were_written(server: ThreadServer) -> None:
    commit(server, *range(5))
    source = source_of(server)
    assert source.describe() == f"kafka:{address(server)}"
    rows = read_all(source)
    assert committed(rows) == [0, 1, 2, 3, 4]
    assert all(len(each.gaps) == len(each.faults) == 0 for each in rows)
    heads = source.heads()
    assert heads.keys() == set(range(PARTITIONS))
    assert sum(head.end_offset for head in heads.values()) == 5
    assert all(head.start_offset == 0 for head in heads.values())


def test_a_position_excludes_earlier_records(server: ThreadServer) -> None:
    commit(server, 1, 2)
    source = source_of(server)
    positions = {number: head.stable_offset for number, head in source.heads().items()}
    assert read_all(source, positions) == []
    commit(server, 3)
    assert committed(read_all(source, positions)) == [3]


def test_any_division_into_ranges_returns_each_batch_once(server: ThreadServer) -> None:
    commit(server, *range(7))
    source = source_of(server)
    [number] = (n for n, head in source.heads().items() if head.end_offset == 7)
    found: list[int] = []
    for begin, end in ((0, 1), (1, 4), (4, 4), (4, 7)):
        rows = list(source.read(OffsetRange(number, begin, end)))
        assert rows[-1].next_offset == end
        found += committed(rows)
    assert found == list(range(7))


@pytest.mark.fact("K-08")
def test_completed_transactions_are_read_and_open_ones_are_not(
    server: ThreadServer,
) -> None:
    with server.client() as client:
        for offset, ends in ((10, True), (11, False), (12, True)):
            Transaction(client, "tx").commit("g", offset).end(commit=ends)
        commit(server, 20)
        source = source_of(server)
        rows = read_all(source)
        assert committed(rows) == [10, 12, 20]
        outcomes = pa.concat_tables(pa.Table.from_batches([r.records]) for r in rows)
        by_offset: list[Any] = outcomes.select(["is_control", "outcome"]).to_pylist()
        assert [each["outcome"] for each in by_offset if not each["is_control"]] == [
            "committed",
            "aborted",
            "committed",
            None,
        ]
        open_one = Transaction(client, "tx").commit("g", 13)
        commit(server, 21)
        positions = {n: head.stable_offset for n, head in source.heads().items()}
        [held] = [h for h in source.heads().values() if h.stable_offset < h.end_offset]
        assert held.end_offset - held.stable_offset == 2
        assert committed(read_all(source)) == [10, 12, 20]
        open_one.end(commit=True)
        assert committed(read_all(source, positions)) == [13, 21]


def test_a_cluster_without_groups_has_no_offsets_topic(server: ThreadServer) -> None:
    source = source_of(server)
    assert read_all(source) == []


def test_the_cluster_id_and_the_ends_of_topics_are_fetched(
    server: ThreadServer,
) -> None:
    source = source_of(server)
    assert isinstance(source, ClusterSource)
    assert source.cluster_id()
    assert source.sample_ends()["topic"].to_pylist() == ["t"]


def test_samples_are_not_older_than_the_records_that_were_read(
    server: ThreadServer,
) -> None:
    # The clock of this machine may be behind those of the brokers.
    soon = datetime.now(UTC) + timedelta(minutes=5)
    source = source_of(server)
    assert isinstance(source, ClusterSource)
    samples = source.sample_ends(soon)
    assert samples["sample_ts"].to_pylist() == [soon]


def test_the_retention_time_of_offsets_is_that_of_the_brokers() -> None:
    with ThreadServer(offsets_retention_minutes=90) as server:
        source = open_source(f"kafka:{address(server)}")
        assert isinstance(source, ClusterSource)
        assert source.retention_ms() == 90 * 60_000


def test_source_options_are_connection_settings() -> None:
    source = open_source("kafka:broker:9092", **{"client.id": "me"})
    assert isinstance(source, ClusterSource)
    assert source.settings.target().options.client_id == "me"
    with pytest.raises(SettingError, match=r"did you mean client\.id"):
        open_source("kafka:broker:9092", **{"client.idd": "me"})


@pytest.mark.slow
def test_an_unreachable_cluster_is_named_by_its_address() -> None:
    settings = {"default.api.timeout.ms": "1000"}
    source = open_source("kafka:127.0.0.1:1", **settings)
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1 cannot be reached"):
        source.heads()
