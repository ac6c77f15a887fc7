"""The rows of one log are equal over the wire, from the store and from segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.broker.log.log import OFFSET_MAX
from coterie.broker.log.sqlite import SqliteLog
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.sources.source import Source, open_source
from coterie.pipeline.sources.store import StoreFile
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.pipeline.sources.logs import read_all, read_in_many_runs, write
from tests.pipeline.sources.transactions import Transaction


def segments_of(store: Path, folder: Path) -> Path:
    """Write the store's log as a broker's segments."""
    rows = StoreFile(store).query(
        "SELECT partitions.partition, place, bytes FROM batches"
        " JOIN partitions ON number = place >> 40 ORDER BY place"
    )
    for partition in {row[0] for row in rows}:
        batches = [(row[1] & OFFSET_MAX, row[2]) for row in rows if row[0] == partition]
        write(folder, {at: [blob] for at, blob in batches}, partition)
    return folder


def heads(source: Source) -> dict[int, tuple[int, int, int]]:
    found = source.heads()
    return {each: head[:3] for each, head in found.items() if head.end_offset}


@pytest.mark.slow
def test_all_sources_return_equal_rows_of_one_log(
    tmp_path: Path,
) -> None:
    log = SqliteLog(tmp_path / "data", synchronous="OFF")
    with ThreadServer(offsets_topic_num_partitions=3, log=log) as server:
        address = "{}:{}".format(*server.addresses[0])
        with SyncAdmin(address, OPTIONS) as admin, server.client() as client:
            admin.create_topics([NewTopic("t", 1, 1)]).all()
            for group in ("a", "b", "c", "d"):
                offsets = {TopicPartition("t", 0): CommittedOffset(7)}
                admin.alter_group_offsets(group, offsets).all()
                for commits in (True, False):
                    Transaction(client, group).commit(group, 9).end(commit=commits)
            admin.delete_groups(["c"]).all()
            Transaction(client, "open").commit("d", 10)
            admin.alter_group_offsets("d", offsets).all()
        folder = segments_of(tmp_path / "data", tmp_path / "segments")
        wire, *others = (
            open_source(text)
            for text in (address, str(tmp_path / "data"), f"segments:{folder}")
        )
        found = read_all(wire)
        assert {each["outcome"] for each in found.records} == {
            "committed",
            "aborted",
            None,
        }
        for source in others:
            assert read_all(source) == found
            assert read_in_many_runs(source, 1) == found
            assert heads(source) == heads(wire)
