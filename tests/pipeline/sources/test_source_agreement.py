"""The rows of one log are equal over the wire and from segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.sources.source import Source, open_source
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.pipeline.sources.logs import copy_log, read_all, read_in_many_runs
from tests.pipeline.sources.transactions import Transaction


def heads(source: Source) -> dict[int, tuple[int, int, int]]:
    found = source.heads()
    return {each: head[:3] for each, head in found.items() if head.end_offset}


@pytest.mark.slow
def test_both_sources_return_equal_rows_of_one_log(tmp_path: Path) -> None:
    with ThreadServer(offsets_topic_num_partitions=3) as server:
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
        wire = open_source(address)
        segments = open_source(f"segments:{copy_log(address, tmp_path)}")
        found = read_all(wire)
        assert {each["outcome"] for each in found.records} == {
            "committed",
            "aborted",
            None,
        }
        assert read_all(segments) == found
        assert read_in_many_runs(segments, 1) == found
        assert heads(segments) == heads(wire)
