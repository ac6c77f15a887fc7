"""`coterie pipeline check`: a lake compared with a server over the network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coterie.cli.main import main
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import encode
from coterie.pipeline.sources.source import open_source
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.pipeline.lakes import commit_rows, make_lake
from tests.pipeline.sources.transactions import Transaction

T0 = TopicPartition("t", 0)


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(offsets_topic_num_partitions=2) as server:
        with SyncAdmin(address(server), OPTIONS) as admin:
            admin.topics.create([NewTopic("t", 1, 1)]).all()
        commit(server, "g", 7)
        yield server


def address(server: ThreadServer) -> str:
    return "{}:{}".format(*server.addresses[0])


def commit(server: ThreadServer, group: str, offset: int) -> None:
    with SyncAdmin(address(server), OPTIONS) as admin:
        admin.group_offsets.alter(group, {T0: CommittedOffset(offset)}).all()


def lake_of(folder: Path, server: ThreadServer, offsets: Mapping[str, int]) -> Path:
    """Make a lake from the whole log, with the given committed offsets of simple
    groups."""
    groups = [
        {"group_id": group, "group_type": "simple", "state": "Empty"}
        for group in offsets
    ]
    rows = [
        {"group_id": group, "topic": "t", "committed_offset": each, "metadata": ""}
        for group, each in offsets.items()
    ]
    where = make_lake(folder, {"current_groups": groups, "current_offsets": rows})
    (where / "lake.json").unlink()
    source = open_source(address(server))
    identity = Lake.create(folder.with_name("other"), source.describe()).identity
    (where / "lake.json").write_bytes(encode(identity))
    heads = tuple(
        LogHead(number, head.stable_offset, *head[:3])
        for number, head in sorted(source.heads().items())
    )
    lake = Lake.open_to_write(where)
    lake.commit((), lambda version: msgspec.structs.replace(version, heads=heads))
    return where


class Shell:
    """A runner of `coterie pipeline check`."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self.error = ""

    def __call__(self, *words: str, exit_code: int = 0) -> dict[str, Any]:
        """Run the command; return its JSON document."""
        code = main(["pipeline", "check", "-o", "json", *words])
        out, self.error = self._capture.readouterr()
        assert code == exit_code, self.error
        document: dict[str, Any] = json.loads(out) if out else {}
        return document


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.mark.slow
def test_a_lake_that_matches_the_brokers_has_no_differences(
    tmp_path: Path, server: ThreadServer, shell: Shell
) -> None:
    lake = lake_of(tmp_path / "lake", server, {"g": 7})
    document = shell("--lake", str(lake), "--from", f"kafka:{address(server)}")
    assert document["items"] == []
    assert document["schema"] == "coterie.pipeline.check"
    summary = document["summary"]
    assert (summary["groups"], summary["offsets"], summary["differs"]) == (1, 1, 0)
    assert "the lake agrees with the brokers: 1 groups" in shell.error


@pytest.mark.slow
def test_a_difference_is_an_item_and_fails_the_command(
    tmp_path: Path, server: ThreadServer, shell: Shell
) -> None:
    lake = lake_of(tmp_path / "lake", server, {"g": 6})
    # The command connects to the cluster from which the lake was made.
    document = shell("--lake", str(lake), exit_code=1)
    [item] = document["items"]
    assert item["error"]["code"] == "DIFFERS"
    del item["error"]
    assert item == {
        "verdict": "differs",
        "group_id": "g",
        "about": "offset",
        "of": "t-0",
        "column": "committed_offset",
        "lake": 6,
        "brokers": 7,
    }


@pytest.mark.slow
def test_groups_that_changed_after_the_run_do_not_fail_the_command(
    tmp_path: Path, server: ThreadServer, shell: Shell
) -> None:
    lake = lake_of(tmp_path / "lake", server, {"g": 7})
    commit(server, "g", 8)
    commit(server, "new", 1)
    document = shell("--lake", str(lake))
    found = {(each["group_id"], each["about"]): each for each in document["items"]}
    assert {each["verdict"] for each in document["items"]} == {"changed"}
    assert found["g", "offset"]["brokers"] == 8
    assert found["new", "group"]["brokers"] == "simple"
    assert document["summary"]["records_behind"] == 2


@pytest.mark.slow
def test_an_open_transaction_is_reported_with_its_log_partition(
    tmp_path: Path, server: ThreadServer, shell: Shell
) -> None:
    with server.client() as client:
        open_one = Transaction(client, "tx").commit("g", 20)
        commit(server, "g", 8)
        lake = lake_of(tmp_path / "lake", server, {"g": 7})
        document = shell("--lake", str(lake))
        open_one.end(commit=False)
    [item] = document["items"]
    assert (item["verdict"], item["lake"], item["brokers"]) == ("held back", 7, 8)
    assert list(document["summary"]["held_back_partitions"].values()) == [2]
    assert "an open transaction holds back 2 offsets" in shell.error


@pytest.mark.slow
def test_tables_older_than_the_ingested_records_are_refused(
    tmp_path: Path, server: ThreadServer, shell: Shell
) -> None:
    lake = Lake.open_to_write(lake_of(tmp_path / "lake", server, {"g": 7}))
    commit_rows(lake, {"tombstones": lake.read("tombstones")})
    shell("--lake", str(tmp_path / "lake"), exit_code=2)
    assert "coterie pipeline run" in shell.error


def test_another_cluster_is_refused(
    tmp_path: Path, server: ThreadServer, shell: Shell
) -> None:
    lake = make_lake(tmp_path / "lake", {})
    shell("--lake", str(lake), exit_code=2)
    assert "segments:log is not a cluster" in shell.error
    shell("--lake", str(lake), "--from", address(server), exit_code=2)
    assert "holds cluster cluster-1" in shell.error
