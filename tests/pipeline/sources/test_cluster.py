"""The log of a cluster over the wire: of a whole server, and of a scripted broker."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from coterie.client.admin.offset_values import CommittedOffset
from coterie.client.admin.topic_values import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.errors import ClientError, SettingError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.sources.cluster import ClusterSource
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import OffsetRange, Rows, Source, open_source
from coterie.types import TopicPartition
from tests.client.scripted import OPTIONS
from tests.pipeline.sources.transactions import Transaction
from tests.server.harness import ThreadServer

T0 = TopicPartition("t", 0)
PARTITIONS = 3


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(offsets_topic_num_partitions=PARTITIONS) as server:
        with SyncAdmin(address(server), OPTIONS) as admin:
            admin.create_topics([NewTopic("t", 1, 1)]).all()
        yield server


def address(server: ThreadServer) -> str:
    return "{}:{}".format(*server.addresses[0])


def commit(server: ThreadServer, *offsets: int, group: str = "g") -> None:
    with SyncAdmin(address(server), OPTIONS) as admin:
        for offset in offsets:
            admin.alter_group_offsets(group, {T0: CommittedOffset(offset)}).all()


def source_of(server: ThreadServer) -> Source:
    """The source as a worker gets it."""
    source = open_source(f"kafka:{address(server)}")
    return pickle.loads(pickle.dumps(source))


def read_all(source: Source, positions: Mapping[int, int] | None = None) -> list[Rows]:
    ranges = plan(source.heads(), positions or {})
    return [rows for each in ranges for rows in source.read(each)]


def committed(rows: list[Rows]) -> list[int]:
    """The offsets committed, of what counts."""
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


def test_what_was_read_is_not_read_again(server: ThreadServer) -> None:
    commit(server, 1, 2)
    source = source_of(server)
    positions = {number: head.stable_offset for number, head in source.heads().items()}
    assert read_all(source, positions) == []
    commit(server, 3)
    assert committed(read_all(source, positions)) == [3]


def test_any_division_into_ranges_gives_each_batch_once(server: ThreadServer) -> None:
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
def test_what_was_aborted_is_known_and_open_ones_are_not_read(
    server: ThreadServer,
) -> None:
    with server.client() as client:
        for offset, ends in ((10, True), (11, False), (12, True)):
            Transaction(client, "tx").commits("g", offset).ends(commit=ends)
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
        open_one = Transaction(client, "tx").commits("g", 13)
        commit(server, 21)
        positions = {n: head.stable_offset for n, head in source.heads().items()}
        [held] = [h for h in source.heads().values() if h.stable_offset < h.end_offset]
        assert held.end_offset - held.stable_offset == 2
        assert committed(read_all(source)) == [10, 12, 20]
        open_one.ends(commit=True)
        assert committed(read_all(source, positions)) == [13, 21]


def test_a_cluster_without_groups_has_no_log(server: ThreadServer) -> None:
    source = source_of(server)
    assert read_all(source) == []


def test_it_knows_its_cluster_and_where_topics_end(server: ThreadServer) -> None:
    source = source_of(server)
    assert isinstance(source, ClusterSource)
    assert source.cluster_id()
    assert source.sample_ends()["topic"].to_pylist() == ["t"]


def test_options_are_settings_of_the_connection() -> None:
    source = open_source("kafka:broker:9092", **{"client.id": "me"})
    assert isinstance(source, ClusterSource)
    assert source.settings.target().options.client_id == "me"
    with pytest.raises(SettingError, match=r"did you mean client\.id"):
        open_source("kafka:broker:9092", **{"client.idd": "me"})


def test_a_cluster_that_is_not_there_is_said_by_address() -> None:
    settings = {"default.api.timeout.ms": "1000"}
    source = open_source("kafka:127.0.0.1:1", **settings)
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1 cannot be reached"):
        source.heads()
