"""The rows of one log are equal over the wire, from the store and from segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.broker.catalog.topics import OFFSETS_TOPIC
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.sources.source import Source, open_source
from coterie.pipeline.sources.store import StoreSource
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.pipeline.sources.log_files import FILES, open_files
from tests.pipeline.sources.logs import read_all, read_in_many_runs, write
from tests.pipeline.sources.transactions import Transaction


def segments_of(data: Path, folder: Path) -> Path:
    """Write the log in a data directory as a broker's segments."""
    log = StoreSource(data).open()
    [topic] = [each for each in log.topics() if each.name == OFFSETS_TOPIC]
    for part in log.partitions(topic.topic_id):
        runs = log.batches(part.number, 0)
        batches = {each[0]: [bytes(each[3])] for run in runs for each in run.batches}
        if batches:
            write(folder, batches, part.partition)
    return folder


def heads(source: Source) -> dict[int, tuple[int, int, int]]:
    found = source.heads()
    return {each: head[:3] for each, head in found.items() if head.end_offset}


@pytest.mark.slow
@pytest.mark.parametrize("files", FILES)
def test_all_sources_return_equal_rows_of_one_log(tmp_path: Path, files: str) -> None:
    log = open_files(tmp_path / "data", files)
    with ThreadServer(offsets_topic_num_partitions=3, log=log) as server:
        address = "{}:{}".format(*server.addresses[0])
        with SyncAdmin(address, OPTIONS) as admin, server.client() as client:
            admin.topics.create([NewTopic("t", 1, 1)]).all()
            for group in ("a", "b", "c", "d"):
                offsets = {TopicPartition("t", 0): CommittedOffset(7)}
                admin.group_offsets.alter(group, offsets).all()
                for commits in (True, False):
                    Transaction(client, group).commit(group, 9).end(commit=commits)
            admin.groups.delete(["c"]).all()
            Transaction(client, "open").commit("d", 10)
            admin.group_offsets.alter("d", offsets).all()
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
